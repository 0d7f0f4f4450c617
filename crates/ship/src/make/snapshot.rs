//! The files of a snapshot: its tables, its page, its recording.

use std::fs;
use std::path::Path;

use flightrec_export::parquet::Table;

use super::MakeError;
use super::tool::Tool;
use crate::config::Config;
use crate::hour::Hour;
use crate::journal::Item;
use crate::layout::{Layout, Sort};
use crate::source::Snapshot;
use crate::spool::{Manifest, Object};

/// Makes them in a directory that is there. `item`: what the journal has of it; `is_last`: whether
/// this is the last attempt, in which a page that can't be made is left out.
///
/// # Errors
/// See [`MakeError`].
pub async fn make(
    snapshot: &Snapshot,
    (hour, item): (Hour, &Item),
    config: &Config,
    (layout, tool): (&Layout, &Tool),
    (dir, is_last): (&Path, bool),
) -> Result<Manifest, MakeError> {
    let Snapshot { id, path, .. } = snapshot;
    let mut item = item.clone();
    let (mut objects, mut why) = (Vec::new(), String::new());
    let mut add = |sort: &Sort<'_>, file: &str| -> Result<(), MakeError> {
        let bytes = size(&dir.join(file))?;
        let name = layout.snapshot(sort, hour, id, item.session).to_string();
        objects.push(Object { name, file: file.to_owned(), bytes });
        Ok(())
    };
    let made = async {
        let tables = dir.join("tables");
        let is_complete = tool.tables(path, &tables).await?;
        for table in Table::ALL.map(Table::name) {
            let file = format!("{table}.parquet");
            if config.snapshots.tables.iter().any(|wanted| wanted == table) {
                fs::rename(tables.join(&file), dir.join(&file)).map_err(|e| of(&tables, e))?;
                add(&Sort::Table(table), &file)?;
            }
        }
        fs::remove_dir_all(&tables).map_err(|e| of(&tables, e))?;
        if config.snapshots.page {
            match tool.page(path, &dir.join("page.html")).await {
                Ok(_) => add(&Sort::Page, "page.html")?,
                // The tables are worth more than the page.
                Err(e) if is_last && !e.is_full() => why = format!("there is no page: {e}"),
                Err(e) => return Err(e.into()),
            }
        }
        if config.snapshots.flight {
            fs::copy(path, dir.join("recording.flight")).map_err(|e| of(path, e))?;
            add(&Sort::Flight, "recording.flight")?;
        }
        Ok(is_complete)
    };
    let made: Result<bool, MakeError> = made.await;
    match made {
        Ok(is_complete) => {
            // Not why an attempt before failed.
            (item.complete, item.why) = (Some(is_complete), why);
            (item.objects, item.bytes) =
                (objects.len() as u64, objects.iter().map(|object| object.bytes).sum());
            Ok(Manifest { item, objects })
        }
        // flightd deleted it meanwhile: that is why it failed.
        Err(MakeError::Broken(_)) if !path.exists() => {
            Err(MakeError::Gone(format!("{} is not there any more", path.display())))
        }
        Err(e) => Err(e),
    }
}

fn size(path: &Path) -> Result<u64, MakeError> {
    path.metadata().map(|metadata| metadata.len()).map_err(|e| of(path, e))
}

fn of(path: &Path, error: std::io::Error) -> MakeError {
    crate::files::FileError::of(path)(error).into()
}
