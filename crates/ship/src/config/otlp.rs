//! `[otlp]`: a collector of OpenTelemetry.

use std::net::IpAddr;
use std::path::PathBuf;

use flightrec_settings::Span;
use serde::{Deserialize, Serialize};

/// Most records a minute, most snapshots that wait, and most spans of each, that can be set.
const RECORDS_MAX: u32 = 6000;
const WAITING_MAX: u32 = 10_000;
const SPANS_MAX: u32 = 1000;

/// `[otlp]`: a collector of OpenTelemetry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Otlp {
    /// Its address; empty: nothing is told.
    pub endpoint: String,
    /// How it is talked to.
    pub protocol: Protocol,
    /// Whether a connection without TLS to another machine is allowed.
    pub allow_http: bool,
    /// Certificates to trust beside the system's, a PEM file; empty: none.
    pub ca_file: PathBuf,
    /// What goes with each request, as in `x-scope: ops`.
    pub headers: Vec<String>,
    /// Whether requests are compressed.
    pub gzip: bool,
    /// Longest that a connection may take to be made.
    pub connect_timeout: Span,
    /// Longest that a request may take.
    pub timeout: Span,
    /// The first pause after a failure; each one after it is longer.
    pub retry_least: Span,
    /// The longest pause.
    pub retry_most: Span,
    /// How often metrics are told; 0: never.
    pub metrics_interval: Span,
    /// Most snapshots a minute that are told.
    pub records_per_minute: u32,
    /// Most snapshots that wait to be told.
    pub waiting: u32,
    /// How old a snapshot may be that is told.
    pub reach: Span,
    /// Most spans of a snapshot; 0: none.
    pub spans: u32,
}

/// `[otlp] protocol`: how a collector is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// OTLP/HTTP, with binary protobuf.
    Http,
    /// OTLP/gRPC.
    Grpc,
}

impl Protocol {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

impl Default for Otlp {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            protocol: Protocol::Http,
            allow_http: false,
            ca_file: PathBuf::new(),
            headers: Vec::new(),
            gzip: true,
            connect_timeout: Span::seconds(10),
            timeout: Span::seconds(10),
            retry_least: Span::seconds(1),
            retry_most: Span::seconds(300),
            metrics_interval: Span::seconds(60),
            records_per_minute: 10,
            waiting: 100,
            reach: Span::seconds(24 * 3600),
            spans: 100,
        }
    }
}

/// A header.
pub type Header = (reqwest::header::HeaderName, reqwest::header::HeaderValue);

/// A header, of a line as in `x-scope: ops`; `None`: it is none.
pub fn header(line: &str) -> Option<Header> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim().to_ascii_lowercase().parse().ok()?;
    let mut value: reqwest::header::HeaderValue = value.trim().parse().ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

impl Otlp {
    /// Refuses what can't be; names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        self.check_endpoint().map_err(|what| ("otlp.endpoint", what))?;
        if let Some(at) = self.headers.iter().position(|line| header(line).is_none()) {
            // Any part of it may be what is secret.
            let what = format!("line {} is no header: write \"name: value\"", at + 1);
            return Err(("otlp.headers", what));
        }
        let spans = [
            ("otlp.connect_timeout", self.connect_timeout, (100, 600_000)),
            ("otlp.timeout", self.timeout, (100, 600_000)),
            ("otlp.retry_least", self.retry_least, (10, 3_600_000)),
            ("otlp.retry_most", self.retry_most, (10, 24 * 3_600_000)),
            ("otlp.reach", self.reach, (60_000, 400 * 24 * 3_600_000)),
        ];
        for (key, span, (least, most)) in spans {
            super::within(key, span, (least, most))?;
        }
        if self.metrics_interval != Span::seconds(0) {
            super::within("otlp.metrics_interval", self.metrics_interval, (1000, 24 * 3_600_000))?;
        }
        if self.retry_most < self.retry_least {
            let what = format!("{} is less than retry_least", self.retry_most);
            return Err(("otlp.retry_most", what));
        }
        let counts = [
            ("otlp.records_per_minute", self.records_per_minute, (1, RECORDS_MAX)),
            ("otlp.waiting", self.waiting, (1, WAITING_MAX)),
            ("otlp.spans", self.spans, (0, SPANS_MAX)),
        ];
        for (key, n, (least, most)) in counts {
            if n < least || n > most {
                return Err((key, format!("{n} is not within {least} to {most}")));
            }
        }
        Ok(())
    }

    fn check_endpoint(&self) -> Result<(), String> {
        if self.endpoint.is_empty() {
            return Ok(());
        }
        let url = reqwest::Url::parse(&self.endpoint).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let Some(url) = url else {
            return Err(
                "write the collector's address as in \"https://otel.example.org:4318\"".into()
            );
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a password does not stand here: see docs/otlp.md, Credentials".into());
        }
        if url.path().contains("/v1/") {
            return Err("name it without /v1/logs: each signal has its own".into());
        }
        if self.protocol == Protocol::Grpc && url.path() != "/" {
            return Err("gRPC has no path: name the server and its port alone".into());
        }
        let host = url.host_str().unwrap_or_default();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        if url.scheme() == "http" && !is_here && !self.allow_http {
            return Err(format!(
                "{} has no TLS: whoever is on the way reads what is told; if that is wanted, set \
                 allow_http = true",
                self.endpoint
            ));
        }
        Ok(())
    }
}
