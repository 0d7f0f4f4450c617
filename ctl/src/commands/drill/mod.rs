//! `flightctl drill`: proof, in a minute, that the recorder of this machine tells a cause: makes a
//! slow incident whose cause is known (`incident`), and asks why.

mod incident;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flightrec_analysis::why::Answer;

use self::incident::{HOLDER, Incident, Place, WAITER};
use super::prelude::*;
use super::why;
use crate::control::Client;
use crate::output::{Output, note};
use crate::source::Origin;
use crate::value::stretch;

/// Shortest time that the lock may be held: less is lost among what else happens.
const HOLD_LEAST: Duration = Duration::from_millis(50);
/// Longest.
const HOLD_MOST: Duration = Duration::from_secs(5);
/// What is noted in the recording, for its later readers.
const MARK: &str = "flightctl drill: an incident made on purpose";

/// Arguments of `drill`.
#[derive(Debug, clap::Args)]
pub struct DrillArgs {
    /// Write in this directory, on the disk to try. What is written is removed.
    #[arg(long, value_name = "DIR", default_value = "/var/tmp")]
    dir: PathBuf,
    /// How long one thread holds the lock that the other one wants, from 50ms to 5s.
    #[arg(long, value_name = "TIME", value_parser = stretch, default_value = "400ms")]
    hold: Duration,
}

/// A drill.
#[derive(Debug, PartialEq)]
pub struct DrillPlan {
    /// Directory of the control socket.
    runtime_dir: PathBuf,
    /// Where the recording is read.
    origin: Origin,
    dir: PathBuf,
    hold: Duration,
}

impl Arguments for DrillArgs {
    const HELP: Help = Help {
        about: "Prove that recording works: make a harmless slow incident (a thread waits for a \
                lock that another one holds while it writes to the disk), and show what `why` says \
                of it",
        examples: &[
            ("flightctl drill", "after installation, and after each update of the kernel"),
            ("flightctl drill --dir /srv", "on another disk"),
        ],
        exits: &[Exit::Fine, Exit::NotReady, Exit::Error],
    };
    type Plan = DrillPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<DrillPlan> {
        let Self { dir, hold } = self;
        ensure!(
            (HOLD_LEAST..=HOLD_MOST).contains(&hold),
            "--hold {}: from 50ms to 5s",
            humantime::format_duration(hold)
        );
        let origin = recorder.origin();
        Ok(DrillPlan { runtime_dir: recorder.runtime_dir, origin, dir, hold })
    }
}

impl Plan for DrillPlan {
    fn run(&self) -> Result<Exit> {
        let mut recorder =
            Client::connect(&self.runtime_dir).context("the drill needs a running recorder")?;
        recorder.mark(MARK.to_owned())?;
        drop(recorder);
        let place = Place::new(&self.dir).with_context(|| {
            format!("{}: name another directory with --dir", self.dir.display())
        })?;
        let file = place.file();
        let mut out = Output::standard();
        out.print(
            format!(
                "For {} the thread {HOLDER} holds a lock, writes {}, and calls fsync;\n\
                 the thread {WAITER} wants the lock.\n",
                humantime::format_duration(self.hold),
                file.display(),
            )
            .as_bytes(),
        )?;
        let incident = incident::happen(&place, self.hold)
            .with_context(|| format!("{}: name another directory with --dir", file.display()))?;
        drop(place);
        let Incident { waiter, waited, writes, .. } = incident;
        out.print(
            format!(
                "{WAITER} waited for {} ms, in which the other thread called fsync {writes} \
                 times.\n\n$ flightctl why --tid {waiter} --last 10s\n",
                waited.as_millis()
            )
            .as_bytes(),
        )?;
        let (answer, text, told) = why::about(&self.origin, waiter, &crate::zone::system())?;
        out.print(text.as_bytes())?;
        let is_told = answer.is_some_and(|answer| names(&answer, incident.holder));
        out.print(if is_told {
            b"\nThe recorder found the cause.\n".as_slice()
        } else {
            b"\nThe recorder did not find the cause, though it is known: `flightctl doctor` and \
              `flightctl status` say\nwhat is missing on this machine.\n"
        })?;
        for line in &told {
            note(line);
        }
        Ok(if is_told { Exit::Fine } else { Exit::NotReady })
    }
}

/// Whether an answer says that the thread is part of the cause.
fn names(answer: &Answer, tid: u32) -> bool {
    let links = answer.chain.iter().map(|link| &link.who);
    let culprits = answer.culprits.iter().filter_map(|culprit| culprit.who.as_ref());
    links.chain(culprits).any(|who| who.tid == tid)
}
