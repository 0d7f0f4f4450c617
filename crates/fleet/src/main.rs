//! `flightrec-fleet`: what thousands of hosts that do not exist ship of an hour, for `cargo xtask
//! bench fleet` and tests.
//!
//! Only what the hosts did is made up. It goes through what flightd keeps (files of sums) and what
//! flight-ship makes of them (the tables `sums` and `shipped`, in the layout of the storage).

mod groups;
mod host;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use flightrec_ship::config::Config;
use flightrec_ship::hour::{Hour, NS};
use flightrec_ship::journal::{Item, Items, State};
use flightrec_ship::layout::{Layout, SHIPPED};
use flightrec_ship::make;
use flightrec_ship::told;
use flightrec_sums::dir;
use flightrec_sums::file::{Header, block};
use flightrec_sums::model::{LANES, Period, flags};

use self::host::{Fleet, Host};

/// Generates what the hosts of a fleet ship in one hour, for tests and benchmarks.
#[derive(Debug, Parser)]
struct Args {
    /// Number of hosts
    #[arg(long, default_value_t = 10_000)]
    hosts: usize,
    /// Number of hours of the fleet's history
    #[arg(long, default_value_t = 24)]
    hours: usize,
    /// The hour to generate, from 0 on
    #[arg(long, default_value_t = 0)]
    number: usize,
    /// The first hour, UTC
    #[arg(long, default_value = "2026-11-25T00")]
    first: Hour,
    /// Periods in an hour: flightd keeps 60, and merges old ones to 6, then to 1
    #[arg(long, default_value_t = 60)]
    periods: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Write to this directory, in the form of `[ship] to`
    #[arg(long, required_unless_present = "truth")]
    to: Option<PathBuf>,
    /// Print the planted faults as JSON, and generate nothing
    #[arg(long)]
    truth: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let fleet = Fleet { hosts: args.hosts, hours: args.hours };
    if args.truth {
        println!("{}", fleet.truth());
        return Ok(());
    }
    let to = args.to.as_deref().context("--to")?;
    if !(1..=60).contains(&args.periods) || 60 % args.periods != 0 {
        bail!("--periods {}: 60 must be divisible by it", args.periods);
    }
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    thread::scope(|scope| {
        let threads = args.threads.max(1);
        let task = |first: usize| {
            let args = &args;
            move || -> Result<()> {
                let scratch = tempfile::tempdir()?;
                for number in (first..args.hosts).step_by(threads) {
                    ship(args, fleet.host(number, args.number), scratch.path(), to)?;
                }
                Ok(())
            }
        };
        let running: Vec<_> = (0..threads).map(|first| scope.spawn(task(first))).collect();
        running.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread has ended"))?
        })
    })
}

/// A host ships its hour.
fn ship(args: &Args, host: Host, scratch: &Path, to: &Path) -> Result<()> {
    if host.absent {
        return Ok(());
    }
    let hour = Hour::of(args.first.start() + args.number as i64 * NS);
    let state = scratch.join("state");
    let sums = dir::directory(&state);
    fs::create_dir_all(&sums)?;
    let step = 3600 / args.periods;
    let header = Header { number: 1, step: step as u32, created: hour.start() };
    let mut bytes = header.encode();
    bytes.extend(block([7; 16], host.number as u64 + 1, &periods(args, &host, hour))?);
    let file = dir::path(&state, hour.start(), 1);
    fs::write(&file, bytes)?;
    let mut config = Config::default();
    config.ship.state_dir = state;
    let layout = Layout::new("", &host.name(), &format!("{:08x}", host.number));
    let made = make::sums::make(hour, &Item::default(), &config, &layout, scratch)?;
    for object in &made.objects {
        let path = to.join(&object.name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::rename(scratch.join(&object.file), &path)
            .or_else(|_| fs::copy(scratch.join(&object.file), &path).map(drop))?;
        // A copy leaves it.
        drop(fs::remove_file(scratch.join(&object.file)));
    }
    fs::remove_file(file)?;
    let item = Item { state: State::Shipped, ..made.item };
    let items = Items { sums: Some(item), ..Items::default() };
    let rows = told::rows(hour, &items, &config.redact());
    let path = to.join(layout.hourly(SHIPPED, hour).as_ref());
    fs::create_dir_all(path.parent().context("a folder")?)?;
    Ok(fs::write(path, told::file(&rows)?)?)
}

/// The sums of its hour.
fn periods(args: &Args, host: &Host, hour: Hour) -> Vec<Period> {
    let minutes = 60 / args.periods;
    let length = (NS as u64) / args.periods;
    // A tenth of the hour is missing, where events are.
    let lost = if host.lossy { args.periods.div_ceil(10) } else { 0 };
    let period = |n: u64| {
        let from = args.number as u64 * NS as u64 + n * length;
        let wall = hour.start() + (n * length) as i64;
        let mut period = Period { from, until: from + length, wall, ..Period::default() };
        if n < lost {
            period.flags = flags::LOST;
            period.lost = [0; LANES];
            period.lost[0] = 1000;
        }
        for (at, spec) in groups::of(host.role).enumerate() {
            let random = random([host.number as u64, args.number as u64, n, at as u64]);
            if let Some(cell) = spec.cell(host, minutes, random) {
                period.rows.insert(spec.group(host), cell);
            }
        }
        period
    };
    (0..args.periods).map(period).collect()
}

/// A number that looks random, always the same for the same four.
fn random(of: [u64; 4]) -> u64 {
    of.into_iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, part| {
        let mixed = (hash ^ part).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 32)
    })
}
