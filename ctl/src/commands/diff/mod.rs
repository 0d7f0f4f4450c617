//! `flightctl diff`: what is different between two windows.

mod args;
mod run;
mod show;
mod topic;
mod window;

use std::path::PathBuf;

use anyhow::{Result, bail};
use flightrec_reader::fds::Naming;

pub use self::args::{DiffArgs, DiffFormat};
use self::window::WindowSpec;
use super::prelude::*;
use crate::filter::FilterPlan;
use crate::options::past::{Past, PastArgs};
use crate::options::store::StoreArgs;
use crate::options::window::WindowArgs;
use crate::report::minutes::Wanted;
use crate::report::pass::Scope;

/// Two windows to compare.
#[derive(Debug)]
pub struct DiffPlan {
    /// The first window; `None`: the second one, so many ns earlier.
    a: Result<Box<Scope>, Box<Earlier>>,
    /// The second window.
    b: Box<Scope>,
    /// Most changes.
    top: usize,
    /// How it looks.
    format: DiffFormat,
}

/// The first window is so much before the second one, wherever that is.
#[derive(Debug)]
struct Earlier {
    /// ns.
    by: u64,
    /// In which recording; its times are to be set.
    scope: Scope,
}

impl Arguments for DiffArgs {
    const HELP: Help = Help {
        about: "Compare two windows: what is new, gone, slower, more often",
        examples: &[
            ("flightctl diff --a -20m..-10m --b -10m..", "the last 10 minutes with those before"),
            ("flightctl diff --a 14:00..14:10 --b 15:00..15:10 --unit shop", "two times of today"),
            ("flightctl diff --b 14:00..14:10 --a -1d", "a time of today with yesterday's"),
            ("flightctl diff --snapshot latest", "a snapshot with the same time a day before"),
            ("flightctl diff --a -2m..-1m --b -1m.. --format json | jq .changes", "as JSON"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    };
    type Plan = DiffPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<DiffPlan> {
        let DiffArgs { a, b, store, filter, top, format } = self;
        let FilterPlanned { plan: filter, naming, wanted } = planned(filter)?;
        let files: Vec<PathBuf> = store.file.clone();
        let store_of = |snapshot: Option<String>| StoreArgs {
            store: store.store.clone(),
            file: files.clone(),
            snapshot,
            boot: store.boot.clone(),
        };
        let scope = |store: StoreArgs, window: WindowArgs| -> Result<Scope> {
            let past: Past = PastArgs { window, store }.plan(&recorder, now)?;
            Ok(Scope { past, dump: None, filter: filter.clone(), naming, wanted: wanted.clone() })
        };
        let b = match (b, &store.snapshot) {
            (Some(WindowSpec::Earlier(_)), _) => {
                bail!("--b: give a start and an end, as -10m..-5m or 14:00..14:10")
            }
            (Some(WindowSpec::Times(since, until)), _) => {
                scope(store_of(store.snapshot.clone()), window(Some(since), until))?
            }
            // The snapshot's own.
            (None, Some(_)) => scope(store_of(store.snapshot.clone()), window(None, None))?,
            (None, None) => bail!("--b is missing: give the window, for example --b -10m.."),
        };
        // What was before a snapshot is in the recorder's files.
        let a = match a {
            WindowSpec::Times(since, until) => {
                Ok(Box::new(scope(store_of(None), window(Some(since), until))?))
            }
            WindowSpec::Earlier(by) => {
                let everything = WindowArgs { all: true, ..window(None, None) };
                let scope = scope(store_of(None), everything)?;
                Err(Box::new(Earlier { by, scope }))
            }
        };
        Ok(DiffPlan { a, b: Box::new(b), top, format })
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        let a = (Some(&self.a), ["--a: its start", "--a: its end", ""]);
        let b = (self.b.as_ref(), ["--b: its start", "--b: its end", ""]);
        let of = |(spec, names): (Option<&WindowSpec>, _)| match spec {
            Some(WindowSpec::Times(since, until)) => {
                window(Some(since.clone()), until.clone()).remarks_on(names, now)
            }
            _ => Vec::new(),
        };
        [a, b].into_iter().flat_map(of).collect()
    }
}

impl Plan for DiffPlan {
    fn run(&self) -> Result<Exit> {
        run::run(self)
    }
}

/// A filter, with what it needs to be read.
struct FilterPlanned {
    plan: FilterPlan,
    naming: Naming,
    wanted: Wanted,
}

fn planned(filter: crate::filter::FilterSpec) -> Result<FilterPlanned> {
    let given = [
        ("--errors", filter.errors),
        ("--errno", !filter.errno.is_empty()),
        ("--event", !filter.event.is_empty()),
        ("--slower-than", filter.slower_than.is_some()),
        ("--faster-than", filter.faster_than.is_some()),
        ("--device", !filter.device.is_empty()),
        ("--syscall", !filter.syscall.is_empty()),
        ("--path", !filter.path.is_empty()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{option}: diff compares all that threads do: select threads (--pid, --tid, --tree, \
             --comm, --unit, --cgroup, --container, --pod, --cpu)"
        );
    }
    let wanted = Wanted::of(&filter);
    Ok(FilterPlanned { plan: FilterPlan::new(filter)?, naming: Naming::Near, wanted })
}

fn window(
    since: Option<crate::options::time::TimeArg>,
    until: Option<crate::options::time::TimeArg>,
) -> WindowArgs {
    WindowArgs { last: None, since, until, around: None, all: false }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::Cli;

    #[test]
    fn a_time_that_occurs_twice_is_said_of_each_window() {
        let now = "2026-10-25T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let said = |args: &[&str]| {
            let typed = ["flightctl", "diff"].iter().chain(args);
            Cli::try_parse_from(typed).unwrap().command.remarks(&now)
        };
        let both = said(&["--a=02:30:00..02:40:00", "--b=11:00:00..11:10:00"]);
        assert_eq!(both.len(), 2);
        assert!(both[0].starts_with("--a: its start 2026-10-25T02:30:00 occurs twice"), "{both:?}");
        assert!(both[1].starts_with("--a: its end 2026-10-25T02:40:00 occurs twice"), "{both:?}");
        assert_eq!(said(&["--b=11:00:00..11:10:00"]), [""; 0]);
    }
}
