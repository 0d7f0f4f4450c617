//! Makes the files of a part, from what its hosts shipped: they come one after the other, and no
//! more than one of them is in memory, beside the rows that wait to be written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use parquet::errors::ParquetError;

use super::done::Refused;
use super::input::{Group, read};
use super::names::Host;
use super::order::order;
use super::output::{Output, Written};
use super::rollup::Rollup;
use super::tables::{Column, Table};
use crate::hour::Hour;

/// Most rows of a file that are kept from one reading for the other.
const KEPT_ROWS: usize = 1 << 17;

/// What a host shipped.
#[derive(Debug)]
pub(super) struct Input {
    /// [`Table::Sums`] or [`Table::Shipped`].
    pub(super) table: Table,
    pub(super) host: Host,
    /// The object's name.
    pub(super) name: String,
    /// `Err`: it is not to be read, for a reason in words.
    pub(super) content: Result<Bytes, String>,
}

/// The files in the making.
pub(super) struct Merge {
    hour: Hour,
    dir: PathBuf,
    sums: Output,
    hours: Output,
    histograms: Output,
    shipped: Output,
    /// Columns of what hosts ship.
    sums_columns: Vec<Column>,
    shipped_columns: Vec<Column>,
    told: Told,
}

/// What there is to tell.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) refused: Vec<Refused>,
    /// Columns that were left out.
    pub(super) columns: BTreeSet<String>,
    /// The files, by table.
    pub(super) files: Vec<(Table, PathBuf, Written)>,
}

impl Merge {
    /// Begins the files, in a directory. `inputs` tells what they are made of.
    pub(super) fn new(hour: Hour, dir: &Path, inputs: &str) -> Result<Self, ParquetError> {
        // The host is in the object's name.
        let columns = |table: Table| -> Result<Vec<Column>, ParquetError> {
            Ok(table.columns()?.into_iter().skip(2).collect())
        };
        let create = |table: Table| Output::create(table, &path(dir, table), inputs);
        Ok(Self {
            hour,
            dir: dir.into(),
            sums: create(Table::Sums)?,
            hours: create(Table::Hours)?,
            histograms: create(Table::Histograms)?,
            shipped: create(Table::Shipped)?,
            sums_columns: columns(Table::Sums)?,
            shipped_columns: columns(Table::Shipped)?,
            told: Told::default(),
        })
    }

    /// Adds what a host shipped. One that can't be read is told, and is left out as a whole.
    pub(super) fn add(&mut self, input: &Input) -> Result<(), ParquetError> {
        let read = match &input.content {
            Err(why) => Ok(Err(why.clone())),
            Ok(bytes) if input.table == Table::Sums => self.add_sums(input, bytes),
            Ok(bytes) => Ok(self.add_shipped(input, bytes)),
        };
        if let Err(why) = read? {
            if input.table == Table::Sums {
                self.write_hours(&input.host, Rollup::unknown());
            }
            self.told.refused.push(Refused { name: input.name.clone(), why });
        }
        self.sums.settle()?;
        self.hours.settle()?;
        self.histograms.settle()?;
        self.shipped.settle()
    }

    fn add_sums(
        &mut self,
        input: &Input,
        bytes: &Bytes,
    ) -> Result<Result<(), String>, ParquetError> {
        let mut rollup = Rollup::new();
        let (mut kept, mut rows) = (Vec::new(), 0);
        let columns = &self.sums_columns;
        let others = read(bytes.clone(), columns, |group| {
            rollup.add(columns, &group)?;
            rows += group.rows;
            if rows <= KEPT_ROWS {
                kept.push(group);
            }
            Ok(())
        });
        let others = match others {
            Ok(others) => others,
            Err(why) => return Ok(Err(why)),
        };
        self.told.columns.extend(others);
        self.write_hours(&input.host, rollup);
        let (output, columns, host) = (&mut self.sums, &self.sums_columns, &input.host);
        if rows <= KEPT_ROWS {
            for group in &kept {
                take(output, host, columns, group);
            }
            return Ok(Ok(()));
        }
        drop(kept);
        // It was read as a whole a moment ago.
        let mut failed = Ok(());
        let again = read(bytes.clone(), columns, |group| {
            take(output, host, columns, &group);
            failed = output.settle();
            if failed.is_err() { Err(String::new()) } else { Ok(()) }
        });
        failed?;
        Ok(again.map(drop))
    }

    fn add_shipped(&mut self, input: &Input, bytes: &Bytes) -> Result<(), String> {
        let mut groups = Vec::new();
        let columns = &self.shipped_columns;
        let others = read(bytes.clone(), columns, |group| {
            groups.push(group);
            Ok(())
        });
        self.told.columns.extend(others?);
        let output = &mut self.shipped;
        for group in &groups {
            take(output, &input.host, columns, group);
        }
        Ok(())
    }

    fn write_hours(&mut self, host: &Host, rollup: Rollup) {
        let Self { hours, histograms, hour, .. } = self;
        let of = (host.name.as_bytes(), host.machine.as_bytes());
        rollup.write(of, *hour, |what, fill| fill(hours.rows(what), histograms.rows(what)));
    }

    /// Writes the ends of the files.
    pub(super) fn finish(mut self) -> Result<Told, ParquetError> {
        let Self { sums, hours, histograms, shipped, dir, .. } = self;
        let outputs = [
            (Table::Sums, sums),
            (Table::Hours, hours),
            (Table::Histograms, histograms),
            (Table::Shipped, shipped),
        ];
        for (table, output) in outputs {
            self.told.files.push((table, path(&dir, table), output.finish()?));
        }
        Ok(self.told)
    }
}

fn path(dir: &Path, table: Table) -> PathBuf {
    dir.join(format!("{}.parquet", table.name()))
}

/// Appends a group of rows of a host.
fn take(output: &mut Output, host: &Host, columns: &[Column], group: &Group) {
    let order = order(columns, group);
    let begin = [host.name.as_bytes(), host.machine.as_bytes()];
    for (what, rows) in &order.kinds {
        let rows = order.rows.get(rows.clone()).unwrap_or_default();
        output.rows(what).take(begin, &group.columns, rows);
    }
}
