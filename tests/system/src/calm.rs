//! `cargo xtask calm`: no trigger may fire while nothing is wrong, by default settings: minutes of
//! quiet, then this project compiled.

use std::iter;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use flightrec_tests::{Interrupt, Options, Recorder, use_programs};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::Value;

use xtask::command::{cargo, repository, shown, tools};

/// After an alarm the window is open for 5 s, and the file is there some seconds later.
const SETTLES: Duration = Duration::from_secs(20);

/// What is tried.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Calm {
    /// Quiet minutes.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Do not compile.
    #[arg(long)]
    quiet_only: bool,
}

/// Waits, then compiles, and looks each time what was kept.
pub(crate) fn run(calm: Calm) -> Result<()> {
    ensure!(geteuid().is_root(), "this loads BPF programs into the running kernel: run it as root");
    xtask::build::programs()?;
    use_programs(repository().join("target/release"));
    let interrupt = Interrupt::defer()?;
    // A snapshot needs less than the files are to leave free on a disk that is nearly full.
    let config = "[store]\nkeep_free = \"0B\"\n".to_owned();
    let mut recorder = Recorder::try_start(Options {
        config,
        death_signal: Signal::SIGTERM,
        ..Options::default()
    })?;
    let quiet = Duration::from_secs(calm.minutes * 60);
    let begun = Instant::now();
    while begun.elapsed() < quiet {
        thread::sleep(Duration::from_secs(1));
        interrupt.check()?;
    }
    settled(&recorder, &format!("{} quiet minutes", calm.minutes))?;
    if !calm.quiet_only {
        let begun = Instant::now();
        compile(&recorder)?;
        interrupt.check()?;
        settled(
            &recorder,
            &format!("this project compiled anew, {:.0} s", begun.elapsed().as_secs_f64()),
        )?;
    }
    let status = recorder.terminate()?;
    ensure!(status.success(), "flightd: {status}\n{}", recorder.log());
    Ok(())
}

/// Everything from the first crate on, into a folder of its own; by the tools that are there.
fn compile(recorder: &Recorder) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(iter::once(tools().join("bin")).chain(std::env::split_paths(&path)))?;
    let mut build = cargo();
    build
        .args(["build", "--quiet", "--locked", "--workspace"])
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", recorder.sandbox().root().join("target"));
    let status = build
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("can't run {}", shown(&build)))?;
    ensure!(status.success(), "{} failed ({status})", shown(&build));
    Ok(())
}

/// Fails if any trigger has fired, and says which.
fn settled(recorder: &Recorder, what: &str) -> Result<()> {
    thread::sleep(SETTLES);
    let state: Value = serde_json::from_slice(&recorder.flightctl(&["status", "--json"]).stdout)?;
    let figures = &state["snapshots"];
    let events = |lane: &Value| {
        lane["events"].as_object().map_or(0, |of| of.values().filter_map(Value::as_u64).sum())
    };
    let events: u64 =
        state["lanes"].as_object().map_or(0, |lanes| lanes.values().map(events).sum());
    let silent =
        ["pending", "taken", "repeated", "refused", "failed"].iter().all(|name| figures[name] == 0);
    if !silent || figures["enabled"] != true {
        let list = recorder.flightctl(&["snapshots"]);
        let shown = recorder.flightctl(&["snapshots", "show", "latest"]);
        let text = [list.stdout, shown.stdout].concat();
        anyhow::bail!("{what}: {figures}\n{}\n{}", String::from_utf8_lossy(&text), recorder.log());
    }
    println!("{what}: no trigger fired; {events} events recorded since the start");
    Ok(())
}
