//! `flightctl drill`: proof, in a minute, that the recorder of this machine tells a cause: makes a
//! slow incident whose cause is known (`incident`), and asks why.

mod incident;
mod recorder;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use flightrec_analysis::why::{Answer, Subject};
use flightrec_format::live::sys;
use flightrec_reader::control::{Client, ControlError};
use flightrec_reader::source::Origin;

use self::incident::{HOLDER, Incident, Place, WAITER};
use self::recorder::Recorder;
use super::prelude::*;
use crate::options::recorder::RUNTIME_DIR;
use crate::output::Output;
use crate::value::stretch;
use crate::why;
use flightrec_cli::note;

/// Shortest time that the lock may be held: less is lost among what else happens.
const HOLD_LEAST: Duration = Duration::from_millis(50);
/// Longest.
const HOLD_MOST: Duration = Duration::from_secs(5);
/// What is noted in the recording, for its later readers.
const MARK: &str = "flightctl drill: an incident made on purpose";

/// Arguments of `drill`.
#[derive(Debug, clap::Args)]
pub struct DrillArgs {
    /// Write in this directory, on the disk to test. What is written is removed afterwards.
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
                about it. If no recorder runs, a drill by root starts its own, which ends with it",
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
        let mut out = Output::standard();
        // To the end of the drill.
        let own;
        let (mut client, origin) = match Client::connect(&self.runtime_dir) {
            // In another place than the usual one, a certain recorder is meant.
            Err(ControlError::NotRunning(dir)) if dir == Path::new(RUNTIME_DIR) => {
                own = Recorder::start().context("the drill needs a running recorder")?;
                out.print(
                    b"No recorder runs here: this one is for the drill alone, and ends with it.\n",
                )?;
                let (runtime_dir, bpffs_dir) = (own.runtime_dir(), own.bpffs_dir());
                let client = Client::connect(&runtime_dir)?;
                (client, Origin::Daemon { runtime_dir, bpffs_dir })
            }
            other => {
                let client = other.context("the drill needs a running recorder")?;
                (client, self.origin.clone())
            }
        };
        client.mark(MARK.to_owned())?;
        drop(client);
        let place = Place::new(&self.dir).with_context(|| {
            format!("{}: name another directory with --dir", self.dir.display())
        })?;
        let file = place.file();
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
        let Incident { waited, writes, .. } = incident;
        let asked = Asked::about(&incident);
        out.print(
            format!(
                "{WAITER} waited for {} ms, in which the other thread called fsync {writes} \
                 times.\n\n$ flightctl why {} --last 10s\n",
                waited.as_millis(),
                asked.typed()
            )
            .as_bytes(),
        )?;
        let (answer, text, told) = why::about(&origin, asked.subject(), &crate::zone::system())?;
        out.print(text.as_bytes())?;
        let is_told = answer.is_some_and(|answer| asked.is_told(&answer));
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

/// How the threads are told from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// By their ids.
    Ids { waiter: u32, holder: u32 },
    /// By their names: in a container they know other ids of theirs than the kernel records.
    Names,
}

impl Asked {
    fn about(incident: &Incident) -> Self {
        if sys::is_in_first_pid_namespace() == Some(true) {
            Self::Ids { waiter: incident.waiter, holder: incident.holder }
        } else {
            Self::Names
        }
    }

    /// As options of `why`.
    fn typed(self) -> String {
        match self {
            Self::Ids { waiter, .. } => format!("--tid {waiter}"),
            Self::Names => format!("--comm {WAITER}"),
        }
    }

    fn subject(self) -> Subject {
        match self {
            Self::Ids { waiter, .. } => Subject { tids: vec![waiter], ..Subject::default() },
            Self::Names => Subject { comms: vec![WAITER.to_owned()], ..Subject::default() },
        }
    }

    /// Whether an answer says that the one that held the lock is part of the cause.
    fn is_told(self, answer: &Answer) -> bool {
        let links = answer.chain.iter().map(|link| &link.who);
        let culprits = answer.culprits.iter().filter_map(|culprit| culprit.who.as_ref());
        links.chain(culprits).any(|who| match self {
            Self::Ids { holder, .. } => who.tid == holder,
            Self::Names => who.comm == HOLDER,
        })
    }
}
