//! `flightctl`, the program.

use std::process::ExitCode;

use clap::FromArgMatches;
use jiff::Timestamp;

use flightctl::args::Cli;
use flightctl::commands::{
    boots, budget, doctor, dump, follow, ls, mark, metrics, ps, recover, save, snapshot, snapshots,
    status, top, verify, vmcore,
};
use flightctl::descriptors;
use flightctl::exit::Exit;
use flightctl::help;
use flightctl::output::{is_broken_pipe, note, told};
use flightctl::plan::Plan;
use flightctl::progress::Terminal;
use flightctl::remarks;
use flightctl::zone;
use flightrec_reader::{memory, observe};

fn main() -> ExitCode {
    descriptors::raise_limit();
    observe::listen(&Terminal);
    let matches = help::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    if let Some(wrong) = memory::wrong() {
        note(&format!("flightctl: {wrong}"));
        return Exit::Error.into();
    }
    let now = Timestamp::now().to_zoned(zone::system());
    let remarks = remarks::of(&cli, &now);
    let plan = Plan::new(cli, &now);
    if plan.is_ok() {
        for line in &remarks {
            note(line);
        }
    }
    let result = match plan {
        Ok(Plan::Dump(plan)) => dump::run(&plan),
        Ok(Plan::Vmcore(plan)) => vmcore::run(&plan),
        Ok(Plan::ListBoots(plan)) => boots::run(&plan),
        Ok(Plan::Save(plan)) => save::run(&plan),
        Ok(Plan::Recover(plan)) => recover::run(&plan),
        Ok(Plan::Follow(plan)) => follow::run(&plan),
        Ok(Plan::Top(plan)) => top::run(&plan),
        Ok(Plan::Ps(plan)) => ps::run(&plan),
        Ok(Plan::Mark { runtime_dir, text }) => mark::run(&runtime_dir, text),
        Ok(Plan::Snapshot { runtime_dir, last, reason }) => {
            snapshot::run(&runtime_dir, last, reason)
        }
        Ok(Plan::Snapshots(plan)) => snapshots::run(&plan),
        Ok(Plan::Status { origin, json }) => status::run(&origin, json),
        Ok(Plan::Doctor { origin, json }) => doctor::run(&origin, json),
        Ok(Plan::Budget { runtime_dir, json }) => budget::run(&runtime_dir, json),
        Ok(Plan::SetBudget { runtime_dir, total, per_cpu }) => {
            budget::set(&runtime_dir, total, per_cpu)
        }
        Ok(Plan::Metrics(origin)) => metrics::run(&origin),
        Ok(Plan::Ls { files, json }) => ls::run(&files, json),
        Ok(Plan::Verify(files)) => verify::run(&files),
        Err(wrong) => Err(wrong.into()),
    };
    match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Fine,
        Err(error) => {
            note(&format!("flightctl: {}", told(&error)));
            Exit::Error
        }
    }
    .into()
}
