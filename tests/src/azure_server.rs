//! Azurite, Microsoft's emulator of Azure Storage, on loopback (`tests/judges/azure`).

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::signal::Signal;

use crate::process::{die_with_parent, repository};
use crate::shipping::objects;

/// The account, and its key, that all of Azurite's installations have.
pub const ACCOUNT: &str = "devstoreaccount1";
/// See [`ACCOUNT`].
pub const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// How it is installed.
const SETUP: &str = "tests/judges/azure/setup.sh installs it";

/// A server of Azure's protocol with the container `lake`. It is killed with the value.
#[derive(Debug)]
pub struct AzureServer {
    dir: PathBuf,
    port: u16,
    child: Child,
    /// Kept open, as it prints more.
    _out: BufReader<ChildStdout>,
}

impl AzureServer {
    /// Starts one whose blobs are in a directory, which is made.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let program =
            repository().join("target/judges/azure/node_modules/azurite/dist/src/blob/main.js");
        ensure!(program.is_file(), "Azurite is not there: {SETUP}");
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new("node");
        command
            .arg(program)
            .args(["--silent", "--disableTelemetry", "--skipApiVersionCheck"])
            .args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()])
            .arg("--location")
            .arg(dir)
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        die_with_parent(&mut command, Signal::SIGKILL);
        let mut child = command.spawn().with_context(|| format!("can't run node: {SETUP}"))?;
        let mut out = BufReader::new(child.stdout.take().context("its output")?);
        let mut said = String::new();
        while !said.contains("successfully") {
            if out.read_line(&mut said)? == 0 {
                bail!("Azurite does not start: {said:?}");
            }
        }
        let server = Self { dir: dir.into(), port, child, _out: out };
        server.lake("make", None)?;
        Ok(server)
    }

    /// Its address with the account, as `[storage] endpoint` has it.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/{ACCOUNT}", self.port)
    }

    /// The blobs of the container, by name.
    ///
    /// # Errors
    /// They can't be downloaded.
    pub fn objects(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let into = self.dir.join("downloaded");
        if into.exists() {
            fs::remove_dir_all(&into)?;
        }
        fs::create_dir(&into)?;
        self.lake("download", Some(&into))?;
        objects(&into)
    }

    /// Names of those of which blocks were uploaded, and no list of blocks that makes them one,
    /// with the number of these blocks.
    ///
    /// # Errors
    /// They can't be asked for.
    pub fn begun(&self) -> Result<BTreeMap<String, usize>> {
        let text = self.lake("begun", None)?;
        let row = |line: &str| {
            let (blocks, name) = line.split_once(' ').context("a number and a name")?;
            Ok((name.to_owned(), blocks.parse()?))
        };
        text.lines().map(row).collect()
    }

    fn lake(&self, what: &str, into: Option<&Path>) -> Result<String> {
        let mut command = Command::new("node");
        command.arg(repository().join("tests/judges/azure/lake.mjs"));
        command.args([what, &self.endpoint()]).args(into).stdin(Stdio::null());
        let output = command.output().context("can't run node")?;
        ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }
}

impl Drop for AzureServer {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to be killed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
