//! Names in the storage:
//! `PREFIX/schema=N/table=T/dt=YYYY-MM-DD/hour=HH/host=NAME/FILE.parquet`, as engines that know
//! Hive's layout read them; pages and recordings are beside the tables, in folders of their own.
//!
//! A name follows from what the object is of, and from nothing else: what is uploaded again has the
//! same name.

use std::fs;
use std::io::{self, Read as _};

use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use crate::hour::Hour;

/// Version of the schema: of the layout, and of the tables' columns as far as questions rely on
/// them. A later release that adds columns or tables has the same one.
pub const SCHEMA: u32 = 1;
/// The table of what was shipped, and what was not.
pub const SHIPPED: &str = "shipped";
/// Longest name of a host, bytes.
const HOST_MAX: usize = 128;

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sort<'a> {
    /// A table.
    Table(&'a str),
    /// A page for browsers.
    Page,
    /// A recording.
    Flight,
}

/// Where this machine's objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    prefix: String,
    host: String,
    machine: String,
}

impl Layout {
    /// Below `prefix`, of the host of that name; `machine` tells apart hosts of the same name.
    pub fn new(prefix: &str, host: &str, machine: &str) -> Self {
        Self { prefix: prefix.into(), host: clean(host), machine: machine.into() }
    }

    /// The host's name, as it stands in names.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The object of a snapshot, by its id and its recording's session.
    pub fn snapshot(&self, sort: &Sort<'_>, hour: Hour, id: &str, session: u64) -> Path {
        self.object(sort, hour, &format!("{id}-{session:016x}"))
    }

    /// The object of an hour.
    pub fn hourly(&self, table: &str, hour: Hour) -> Path {
        let name = format!("{table}-{}-{}", hour.number(), self.machine);
        self.object(&Sort::Table(table), hour, &name)
    }

    /// An object to try the storage with.
    pub fn probe(&self) -> Path {
        self.path(&format!("schema={SCHEMA}/probe/{}-{}", self.host, self.machine))
    }

    fn object(&self, sort: &Sort<'_>, hour: Hour, name: &str) -> Path {
        let (folder, ending) = match sort {
            Sort::Table(table) => (format!("table={table}"), "parquet"),
            Sort::Page => ("pages".to_owned(), "html"),
            Sort::Flight => ("flights".to_owned(), "flight"),
        };
        let (date, number, host) = (hour.date(), hour.number(), &self.host);
        self.path(&format!(
            "schema={SCHEMA}/{folder}/dt={date}/hour={number}/host={host}/{name}.{ending}"
        ))
    }

    fn path(&self, below: &str) -> Path {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        Path::from(format!("{}{slash}{below}", self.prefix))
    }
}

/// A host's name of characters that no engine has to escape.
fn clean(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-._".contains(c) { c } else { '_' };
    let name: String = host.chars().take(HOST_MAX).map(plain).collect();
    // `.` would be a folder's own name.
    if name.trim_matches('.').is_empty() { "unknown".to_owned() } else { name }
}

/// This machine's name, as the kernel has it.
pub fn host_name() -> String {
    let name = nix::unistd::gethostname().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// What tells this machine from others of the same name: a hash of `/etc/machine-id`, which itself
/// is to be kept from others (machine-id(5)); `fallback` where there is none.
pub fn machine(fallback: &str) -> String {
    let id = machine_id();
    let digest =
        Sha256::digest(format!("flight-ship {}", if id.is_empty() { fallback } else { &id }));
    let [a, b, c, d, ..] = digest[..] else { return String::new() };
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// What `/etc/machine-id` has; empty: there is none.
pub(crate) fn machine_id() -> String {
    read("/etc/machine-id").unwrap_or_default().trim().to_owned()
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(256).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour() -> Hour {
        "2026-11-25T07".parse().unwrap()
    }

    #[test]
    fn names_that_engines_part_tables_by() {
        let layout = Layout::new("lake/prod", "web 1", "0011aabb");
        let snapshot =
            |sort| layout.snapshot(&sort, hour(), "20261125T070503Z-core-dump", 0xab).to_string();
        let hosted = "dt=2026-11-25/hour=07/host=web_1";
        let name = "20261125T070503Z-core-dump-00000000000000ab";
        assert_eq!(
            snapshot(Sort::Table("calls")),
            format!("lake/prod/schema=1/table=calls/{hosted}/{name}.parquet")
        );
        assert_eq!(snapshot(Sort::Page), format!("lake/prod/schema=1/pages/{hosted}/{name}.html"));
        assert_eq!(
            snapshot(Sort::Flight),
            format!("lake/prod/schema=1/flights/{hosted}/{name}.flight")
        );
        assert_eq!(
            layout.hourly("sums", hour()).to_string(),
            format!("lake/prod/schema=1/table=sums/{hosted}/sums-07-0011aabb.parquet")
        );
        let top = Layout::new("", "w", "00");
        assert_eq!(top.probe().to_string(), "schema=1/probe/w-00");
    }

    #[test]
    fn any_host_has_a_name() {
        for (host, name) in [
            ("web-1.example", "web-1.example"),
            ("..", "unknown"),
            ("", "unknown"),
            ("a/b=c", "a_b_c"),
        ] {
            assert_eq!(Layout::new("", host, "").host(), name);
        }
        assert_eq!(Layout::new("", &"x".repeat(500), "").host().len(), HOST_MAX);
    }

    #[test]
    fn a_machine_is_known_by_a_hash() {
        let own = machine("a");
        assert_eq!(own.len(), 8);
        let id = read("/etc/machine-id").unwrap_or_default();
        if !id.trim().is_empty() {
            assert!(!id.contains(&own), "it tells the machine's id");
            assert_eq!(own, machine("b"));
        }
    }
}
