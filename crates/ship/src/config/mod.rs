//! The configuration, `flight-ship.toml`: what may stand in it, and what it means.
//!
//! `config/flight-ship.toml` shows every key with its default; a test holds the two together.

mod otlp;
mod target;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use flightrec_export::parquet::Table;
use flightrec_export::redact::Redact;
pub use flightrec_settings::{ConfigError, Size, Span};
use flightrec_settings::{Document, Keys, Service, read};
use serde::{Deserialize, Serialize};

pub use otlp::{Header, Otlp, Protocol, header};
pub use target::{Target, TargetError};

/// Whose configuration it is.
const SERVICE: Service = Service { name: "flight-ship", complete: "config/flight-ship.toml" };

/// Everything that can be configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to, and what.
    pub ship: Ship,
    /// Windows that flightd keeps because something happened.
    pub snapshots: Snapshots,
    /// Sums of minutes.
    pub sums: Sums,
    /// How the storage is talked to.
    pub storage: Storage,
    /// A collector of OpenTelemetry.
    pub otlp: Otlp,
    /// What it may take.
    pub limits: Limits,
}

/// `[ship]`: where to, and what is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ship {
    /// The storage, as a URL.
    pub to: String,
    /// This machine's name in the storage; empty: its host name.
    pub host: String,
    /// The state directory of flightd.
    pub state_dir: PathBuf,
    /// Where flightd's control socket is.
    pub runtime_dir: PathBuf,
    /// Which strings of the recording leave the machine.
    pub strings: Strings,
    /// Regular expressions: what they match is replaced.
    pub patterns: Vec<String>,
    /// How often it is looked what is there to be shipped.
    pub interval: Span,
}

/// `[ship] strings`: which strings of the recording leave the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strings {
    /// All that are recorded.
    All,
    /// Of those that programs give, paths alone.
    Paths,
    /// None that programs give.
    None,
}

impl Strings {
    /// Its name, as `flightctl` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Paths => "paths",
            Self::None => "none",
        }
    }
}

impl Default for Ship {
    fn default() -> Self {
        Self {
            to: String::new(),
            host: String::new(),
            state_dir: "/var/lib/flightrec".into(),
            runtime_dir: "/run/flightrec".into(),
            strings: Strings::All,
            patterns: Vec::new(),
            interval: Span::seconds(10),
        }
    }
}

/// `[snapshots]`: windows that flightd keeps because something happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshots {
    /// Whether they are shipped.
    pub enabled: bool,
    /// The tables of each.
    pub tables: Vec<String>,
    /// Whether a page is made of each.
    pub page: bool,
    /// Whether the file itself is shipped as well.
    pub flight: bool,
    /// For how long a snapshot must have stayed as it is.
    pub settle: Span,
}

impl Default for Snapshots {
    fn default() -> Self {
        let tables = Table::ALL.into_iter().filter(|table| *table != Table::Sums);
        Self {
            enabled: true,
            tables: tables.map(|table| table.name().to_owned()).collect(),
            page: true,
            flight: false,
            settle: Span::seconds(60),
        }
    }
}

/// `[sums]`: sums of minutes, an hour in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sums {
    /// Whether they are shipped.
    pub enabled: bool,
    /// How long after its end an hour is shipped.
    pub settle: Span,
    /// How far back hours are looked at.
    pub reach: Span,
}

impl Default for Sums {
    fn default() -> Self {
        let day = 24 * 3600;
        Self { enabled: true, settle: Span::seconds(600), reach: Span::seconds(7 * day) }
    }
}

/// `[storage]`: how the storage is talked to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Storage {
    /// Address of an S3-compatible server, or of another one; empty: the cloud's own.
    pub endpoint: String,
    /// The region of an S3 bucket; empty: as the environment says, else us-east-1.
    pub region: String,
    /// Whether a bucket's name is part of the server's name rather than of the path.
    pub virtual_hosted: bool,
    /// Whether a connection without TLS is allowed.
    pub allow_http: bool,
    /// Certificates to trust beside the system's, a PEM file; empty: none.
    pub ca_file: PathBuf,
    /// Longest that a connection may take to be made.
    pub connect_timeout: Span,
    /// Longest that the storage may say nothing.
    pub timeout: Span,
    /// The first pause after a failure; each one after it is longer.
    pub retry_least: Span,
    /// The longest pause.
    pub retry_most: Span,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            region: String::new(),
            virtual_hosted: false,
            allow_http: false,
            ca_file: PathBuf::new(),
            connect_timeout: Span::seconds(10),
            timeout: Span::seconds(60),
            retry_least: Span::seconds(1),
            retry_most: Span::seconds(300),
        }
    }
}

/// `[limits]`: what it may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most bytes a second that are uploaded, on average; 0: no limit.
    pub bandwidth: Size,
    /// Most bytes that are uploaded on a day (UTC); 0: no limit.
    pub per_day: Size,
    /// Most bytes of what waits to be uploaded.
    pub spool: Size,
    /// Most memory that the process takes that makes tables and pages.
    pub memory: Size,
    /// Longest that it may take for one table or page.
    pub make_timeout: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bandwidth: Size::mib(4),
            per_day: Size::mib(2048),
            spool: Size::mib(512),
            memory: Size::mib(256),
            make_timeout: Span::seconds(300),
        }
    }
}

impl Config {
    /// Reads the file, and checks it.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        Self::parse(&read(path, SERVICE)?, path)
    }

    /// Parses `text`, the content of `path`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let document = Document::parse(text, path)?;
        document.check_keys(&Keys::of(&Self::default()))?;
        let config: Self = toml::from_str(text).map_err(|e| document.typed(&e))?;
        config.check().map_err(|(key, message)| document.value(key, message))?;
        Ok(config)
    }

    /// The configuration as a whole file.
    pub fn to_toml(&self) -> String {
        // It can't fail: there are only tables of plain values.
        toml::to_string(self).unwrap_or_else(|e| format!("# not expressible as TOML: {e}\n"))
    }

    /// What is replaced in texts.
    pub fn redact(&self) -> Redact {
        // They were checked when the configuration was read.
        Redact::new(&self.ship.patterns).unwrap_or_default()
    }

    /// Whether anything of the recording is left out, so that the recording's own file must not
    /// leave the machine.
    pub fn redacts(&self) -> bool {
        self.ship.strings != Strings::All || !self.ship.patterns.is_empty()
    }

    /// Refuses what can't be; names the key.
    fn check(&self) -> Result<(), (&'static str, String)> {
        let Self { ship, snapshots, sums, storage, otlp, limits } = self;
        if !ship.to.is_empty() {
            Target::parse(&ship.to).map_err(|e| ("ship.to", e.to_string()))?;
        }
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if ship.host.len() > 128 || !ship.host.chars().all(of_name) {
            let what = "is not a name: use letters, digits, `.`, `-` and `_`, at most 128";
            return Err(("ship.host", format!("{:?} {what}", ship.host)));
        }
        for (key, dir) in
            [("ship.state_dir", &ship.state_dir), ("ship.runtime_dir", &ship.runtime_dir)]
        {
            if !dir.is_absolute() {
                return Err((key, format!("\"{}\" is not an absolute path", dir.display())));
            }
        }
        otlp.check()?;
        Redact::new(&ship.patterns).map_err(|e| ("ship.patterns", e.to_string()))?;
        if self.redacts() && snapshots.flight {
            let what = "a recording's own file has everything in it: with [ship] strings other \
                        than \"all\", or with patterns, set flight = false";
            return Err(("snapshots.flight", what.to_owned()));
        }
        let tables = Table::ALL.map(Table::name);
        for table in &snapshots.tables {
            if !tables.contains(&table.as_str()) || table == Table::Sums.name() {
                let all: Vec<_> =
                    tables.into_iter().filter(|name| *name != Table::Sums.name()).collect();
                let what = format!("there is no table {table:?}; there are {}", all.join(", "));
                return Err(("snapshots.tables", what));
            }
        }
        let spans = [
            ("ship.interval", ship.interval, (100, 3_600_000)),
            ("snapshots.settle", snapshots.settle, (0, 3_600_000)),
            ("sums.settle", sums.settle, (0, 24 * 3_600_000)),
            ("sums.reach", sums.reach, (3_600_000, 400 * 24 * 3_600_000)),
            ("storage.connect_timeout", storage.connect_timeout, (100, 600_000)),
            ("storage.timeout", storage.timeout, (100, 3_600_000)),
            ("storage.retry_least", storage.retry_least, (10, 3_600_000)),
            ("storage.retry_most", storage.retry_most, (10, 24 * 3_600_000)),
            ("limits.make_timeout", limits.make_timeout, (1000, 24 * 3_600_000)),
        ];
        for (key, span, (least, most)) in spans {
            within(key, span, (least, most))?;
        }
        if storage.retry_most < storage.retry_least {
            let what = format!("{} is less than retry_least", storage.retry_most);
            return Err(("storage.retry_most", what));
        }
        let sizes = [
            ("limits.bandwidth", limits.bandwidth, Size::kib(16), true),
            ("limits.per_day", limits.per_day, Size::mib(1), true),
            ("limits.spool", limits.spool, Size::mib(1), false),
            ("limits.memory", limits.memory, Size::mib(64), false),
        ];
        for (key, size, least, may_be_none) in sizes {
            if size < least && !(may_be_none && size.bytes() == 0) {
                let none = if may_be_none { ", or \"0B\" for no limit" } else { "" };
                return Err((key, format!("{size} is too small: give at least {least}{none}")));
            }
        }
        if !storage.endpoint.is_empty() {
            let is_http = storage.endpoint.starts_with("http://");
            if !is_http && !storage.endpoint.starts_with("https://") {
                let what = "write the server's address as in \"https://s3.example.org:9000\"";
                return Err(("storage.endpoint", what.to_owned()));
            }
            if is_http && !storage.allow_http {
                let what = "has no TLS: whoever is on the way reads what is shipped; if that is \
                            wanted, set allow_http = true";
                return Err(("storage.endpoint", format!("{} {what}", storage.endpoint)));
            }
        }
        Ok(())
    }
}

/// Refuses what is shorter or longer than so many ms.
fn within(
    key: &'static str,
    span: Span,
    (least, most): (u64, u64),
) -> Result<(), (&'static str, String)> {
    let (least, most) = (Span::millis(least), Span::millis(most));
    if span < least || span > most {
        return Err((key, format!("{span} is not within {least} to {most}")));
    }
    Ok(())
}
