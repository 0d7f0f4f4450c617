//! The recorder's pod, run by podman.

use std::process::Output;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::node::Node;
use super::spec::{From, Spec};
use xtask::image;

const NAME: &str = "flightd";
/// The node's name.
pub(super) const NODE: &str = "node-1";
/// How long it may take until it answers.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to end.
const ENDS_WITHIN: &str = "15";

/// The running pod; ended and removed when it is dropped.
pub(super) struct Pod<'a> {
    node: &'a Node,
}

impl<'a> Pod<'a> {
    /// Starts it. `Err`: what it said, or its runtime, when it did not start.
    pub(super) fn start(node: &'a Node, spec: &Spec) -> Result<Result<Self, String>> {
        let mut command = node.podman();
        command.args(["run", "--detach", "--name", NAME, "--network=none"]);
        // Kubernetes has no limits of its own but of memory; this machine may lack that controller.
        command.args(["--pids-limit=-1", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]);
        command.args(["--cap-drop=all", "--read-only", "--read-only-tmpfs=false"]);
        command.args(["--security-opt=no-new-privileges", "--cgroupns=private"]);
        command.arg(format!("--security-opt=seccomp={}", node.profile().display()));
        command.arg(format!("--user={0}:{0}", spec.user));
        for variable in &spec.names_node {
            command.arg(format!("--env={variable}={NODE}"));
        }
        if spec.host_pid {
            command.arg("--pid=host");
        }
        for capability in &spec.capabilities {
            command.arg(format!("--cap-add={capability}"));
        }
        for volume in &spec.volumes {
            let host = match &volume.from {
                From::Config => node.config(),
                From::Host(path) => node.host(path),
                From::Empty => {
                    command.arg(format!("--tmpfs={}:mode=0777", volume.path));
                    continue;
                }
            };
            let access = if volume.read_only { "ro" } else { "rw" };
            let propagation = if volume.propagates { "rslave" } else { "rprivate" };
            let (host, path) = (host.display(), &volume.path);
            command.arg(format!("--volume={host}:{path}:{access},{propagation}"));
        }
        command.arg(format!("{}:{}", image::NAME, env!("CARGO_PKG_VERSION"))).args(&spec.args);
        let pod = Self { node };
        let started = command.output().context("podman")?;
        if !started.status.success() {
            return Ok(Err(last_line(&started.stderr)));
        }
        let end = Instant::now() + READY_WITHIN;
        while Instant::now() < end {
            if pod.flightctl(&["status"])?.status.success() {
                return Ok(Ok(pod));
            }
            let state = pod.podman(&["inspect", "--format={{.State.Running}}", NAME])?;
            if String::from_utf8_lossy(&state.stdout).trim() == "false" {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(Err(pod.last_words()?))
    }

    fn podman(&self, args: &[&str]) -> Result<Output> {
        self.node.podman().args(args).output().context("podman")
    }

    /// Runs flightctl in it, as `kubectl exec` does.
    pub(super) fn flightctl(&self, args: &[&str]) -> Result<Output> {
        self.podman(&[&["exec", NAME, "flightctl"], args].concat())
    }

    /// All that flightd has said.
    pub(super) fn log(&self) -> Result<String> {
        let logs = self.podman(&["logs", NAME])?;
        Ok(String::from_utf8_lossy(&[logs.stdout, logs.stderr].concat()).into_owned())
    }

    /// The last line that it said.
    fn last_words(&self) -> Result<String> {
        Ok(last_line(self.log()?.as_bytes()))
    }

    /// Ends it as the kubelet does.
    pub(super) fn stop(&self) -> Result<()> {
        self.podman(&["stop", "--time", ENDS_WITHIN, NAME])?;
        Ok(())
    }
}

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        let _ = self.podman(&["rm", "--force", "--time", ENDS_WITHIN, NAME]);
    }
}

/// The last line of what a program has said, without its time.
fn last_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let line = line.split_once(" ERROR ").map_or(line, |(_, line)| line);
    line.trim().replace('|', "\\|")
}
