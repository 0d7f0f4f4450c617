//! Names of what is compacted, and of what hosts shipped:
//! `PREFIX/schema=N/compact/table=T/dt=YYYY-MM-DD/hour=HH/T-HH-K-of-N.parquet`. The same host is
//! always in the same part of an hour, so a part may be replaced by itself: nothing is in two of
//! them at any moment.

use object_store::path::Path;
use sha2::{Digest as _, Sha256};

use super::tables::Table;
use crate::hour::Hour;
use crate::layout::SCHEMA;

/// Names below a prefix.
#[derive(Debug, Clone)]
pub(super) struct Names(String);

/// Which part of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    pub(super) number: u32,
    pub(super) of: u32,
}

/// Of which host an object is: its name, and what tells it from others of that name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) machine: String,
}

impl Names {
    /// Below that prefix.
    pub(super) fn new(prefix: &str) -> Self {
        let slash = if prefix.is_empty() { "" } else { "/" };
        Self(format!("{prefix}{slash}schema={SCHEMA}"))
    }

    /// Where what hosts shipped of an hour is.
    pub(super) fn shipped(&self, table: &str, hour: Hour) -> Path {
        Path::from(format!("{}/table={table}/{}", self.0, folder(hour)))
    }

    /// Where the parts of an hour are.
    pub(super) fn parts(&self, table: Table, hour: Hour) -> Path {
        Path::from(format!("{}/compact/table={}/{}", self.0, table.name(), folder(hour)))
    }

    /// A part.
    pub(super) fn part(&self, table: Table, hour: Hour, part: Part) -> Path {
        let (folder, number) = (self.parts(table, hour), hour.number());
        let Part { number: at, of } = part;
        Path::from(format!("{folder}/{}-{number}-{at:03}-of-{of:03}.parquet", table.name()))
    }

    /// What is written down of an hour that is compacted.
    pub(super) fn done(&self, hour: Hour) -> Path {
        Path::from(format!("{}/compact/done/dt={}/{}.json", self.0, hour.date(), hour.number()))
    }
}

fn folder(hour: Hour) -> String {
    format!("dt={}/hour={}", hour.date(), hour.number())
}

impl Part {
    /// By the name of its object.
    pub(super) fn of_name(name: &Path) -> Option<Self> {
        let file = name.filename()?.strip_suffix(".parquet")?;
        let (rest, of) = file.rsplit_once("-of-")?;
        let (_, number) = rest.rsplit_once('-')?;
        let part = Self { number: number.parse().ok()?, of: of.parse().ok()? };
        (part.number < part.of).then_some(part)
    }
}

impl Host {
    /// By the name of an object that it shipped: `…/host=NAME/TABLE-HH-MACHINE.parquet`.
    pub(super) fn of_name(name: &Path) -> Option<Self> {
        let machine = name.filename()?.strip_suffix(".parquet")?.rsplit('-').next()?;
        let host =
            name.parts().find_map(|part| part.as_ref().strip_prefix("host=").map(str::to_owned))?;
        Some(Self { name: host, machine: machine.to_owned() })
    }

    /// In which of so many parts it is.
    pub(super) fn part(&self, of: u32) -> u32 {
        let digest = Sha256::digest(format!("{}/{}", self.name, self.machine));
        let [a, b, c, d, ..] = digest[..] else { return 0 };
        u32::from_be_bytes([a, b, c, d]) % of.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_engines_part_tables_by() {
        let (names, hour) = (Names::new("lake/prod"), "2026-11-25T07".parse().unwrap());
        let part = names.part(Table::Hours, hour, Part { number: 3, of: 12 });
        assert_eq!(
            part.to_string(),
            "lake/prod/schema=1/compact/table=hours/dt=2026-11-25/hour=07/\
             hours-07-003-of-012.parquet"
        );
        assert_eq!(Part::of_name(&part), Some(Part { number: 3, of: 12 }));
        assert_eq!(Part::of_name(&Path::from("x/hours-07-012-of-012.parquet")), None);
        assert_eq!(Part::of_name(&Path::from("x/other.parquet")), None);
        let done = names.done(hour).to_string();
        assert_eq!(done, "lake/prod/schema=1/compact/done/dt=2026-11-25/07.json");
    }

    #[test]
    fn hosts_are_known_by_what_they_ship() {
        let layout = crate::layout::Layout::new("p", "web-1", "0011aabb");
        let hour = "2026-11-25T07".parse().unwrap();
        let host = Host::of_name(&layout.hourly("sums", hour)).unwrap();
        assert_eq!((&*host.name, &*host.machine), ("web-1", "0011aabb"));
        assert!(layout.hourly("sums", hour).prefix_matches(&Names::new("p").shipped("sums", hour)));
        let shipped = Host::of_name(&layout.hourly("shipped", hour)).unwrap();
        assert_eq!(host.part(16), shipped.part(16), "both of its tables are in the same part");
        let counts = (0..1000).fold([0; 4], |mut counts, n| {
            let host = Host { name: format!("h{n}"), ..host.clone() };
            counts[host.part(4) as usize] += 1;
            counts
        });
        assert!(counts.iter().all(|n| (200..300).contains(n)), "{counts:?}");
    }
}
