//! The compacted tables and their columns: those of the tables that hosts ship, after the host's
//! name, and two that are made of the sums.

use flightrec_export::parquet::Table as Shipped;
use parquet::basic::{Repetition, Type};
use parquet::errors::ParquetError;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::told;

/// The sums of a group in an hour of a host; after its keys, and after the numbers that minutes
/// have, as well.
const HOURS: &str = "message hours {
    required binary host (STRING); required binary machine (STRING);
    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns; required int64 until_ns;
    required binary what (STRING); required boolean complete;
    optional binary unit (STRING); optional binary call (STRING); optional binary error (STRING);
    optional binary op (STRING); optional binary reason (STRING); optional binary device (STRING);
    optional int32 cpu;
    optional int64 count; optional int64 sum; optional int64 max;
    optional int64 errors; optional int64 bytes;
    optional int64 read_bytes; optional int64 written_bytes;
    optional int64 running_ns; optional int64 held_ns;
    optional int64 queue_ns; optional int64 queued; optional int64 untimed;
    optional int64 p50_below; optional int64 p90_below; optional int64 p99_below;
    required int64 periods; optional int64 covered_ns; optional int64 missing;
}";
/// How many values of a group in an hour of a host are within a power of two.
const HISTOGRAMS: &str = "message histograms {
    required binary host (STRING); required binary machine (STRING);
    required int64 ts (TIMESTAMP(MICROS,true)); required int64 ts_ns;
    required binary what (STRING); required boolean complete;
    optional binary unit (STRING); optional binary call (STRING);
    optional binary op (STRING); optional binary reason (STRING); optional binary device (STRING);
    optional int32 cpu;
    required int64 least; required int64 below; required int64 n;
}";
/// What stands before the columns of a table that hosts ship.
const WHERE: &str = "required binary host (STRING); required binary machine (STRING);";

/// A compacted table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// The sums of minutes, as they are shipped.
    Sums,
    /// The same by hour.
    Hours,
    /// Their distributions by hour.
    Histograms,
    /// What is complete, and what is missing, as it is shipped.
    Shipped,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Sums, Self::Hours, Self::Histograms, Self::Shipped];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sums => "sums",
            Self::Hours => "hours",
            Self::Histograms => "histograms",
            Self::Shipped => "shipped",
        }
    }

    /// Its columns, as Parquet writes them down.
    pub(super) fn schema(self) -> Result<TypePtr, ParquetError> {
        let of_hosts = |message: &str| message.replacen('{', &format!("{{ {WHERE}"), 1);
        let message = match self {
            Self::Sums => of_hosts(Shipped::Sums.message()),
            Self::Hours => HOURS.to_owned(),
            Self::Histograms => HISTOGRAMS.to_owned(),
            Self::Shipped => of_hosts(told::MESSAGE),
        };
        parse_message_type(&message).map(TypePtr::new)
    }

    /// Its columns.
    pub(super) fn columns(self) -> Result<Vec<Column>, ParquetError> {
        let column = |field: &TypePtr| Column {
            name: field.name().to_owned(),
            physical: field.get_physical_type(),
            optional: field.get_basic_info().repetition() == Repetition::OPTIONAL,
        };
        Ok(self.schema()?.get_fields().iter().map(column).collect())
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) physical: Type,
    /// Whether it may lack values.
    pub(super) optional: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_begins_with_the_host() {
        for table in Table::ALL {
            let columns = table.columns().unwrap();
            let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
            assert_eq!(names[..3], ["host", "machine", "ts"], "{}", table.name());
            assert!(names.contains(&"what"), "groups of rows are made by it");
            let mut once = names.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(once.len(), names.len(), "{names:?}");
        }
    }

    #[test]
    fn an_hour_has_all_numbers_of_a_minute() {
        let names = |table: Table| -> Vec<String> {
            table.columns().unwrap().into_iter().map(|column| column.name).collect()
        };
        let hours = names(Table::Hours);
        let gone = ["histogram", "session"];
        for name in names(Table::Sums).iter().filter(|name| !gone.contains(&name.as_str())) {
            assert!(hours.contains(name), "{name}");
        }
    }
}
