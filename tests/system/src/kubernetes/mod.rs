//! `cargo xtask kubernetes`: the DaemonSet's pod, as its specification says, on this machine.
//!
//! `packaging/kubernetes/base/daemonset.yaml` is read, and its container is run by podman and runc
//! from the image of `cargo xtask image`: with its capabilities, its volumes, its seccomp profile,
//! its read-only root. A second container stands for a pod of somebody else: runc runs it from a
//! bundle such as containerd's CRI writes, in a control group such as the kubelet makes. The
//! recorder has to record it, and to name it by container, pod, namespace and image. Then each right
//! is taken away in turn: what does not work then is what it is for. A right without which all works
//! is none that the specification should have, and fails the trial.
//!
//! Directories of the host outside of `/sys` are below `target/kubernetes`; mounts are this
//! process's own.

mod node;
mod pod;
mod rights;
mod spec;
mod trial;

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use nix::unistd::geteuid;

use flightrec_tests::Interrupt;
use node::Node;
use spec::Spec;
use xtask::command::repository;
use xtask::image;
use xtask::setup::{self, Scope};

/// Makes the image, of what is built or, if `as_built`, of what is in target/release; runs it as
/// the pod, with all rights and without each.
///
/// # Errors
/// The pod does not work with all of its rights, or has one that it does not need.
pub(crate) fn run(as_built: bool) -> Result<()> {
    ensure!(geteuid().is_root(), "containers with BPF programs need root");
    setup::run(Scope::Kubernetes)?;
    let archive = image::run(as_built)?;
    let spec = repository().join("packaging/kubernetes/base");
    let config = fs::read_to_string(spec.join("flightd.toml")).context("flightd.toml")?;
    let spec = Spec::read(&spec.join("daemonset.yaml"))?;

    let interrupt = Interrupt::defer()?;
    let node = Node::new(&repository().join("target/kubernetes"), &archive, &config)?;
    let whole = trial::run(&node, &spec)?;
    if let Some(failure) = whole.failure() {
        bail!("with all of its rights, the pod does not work: {failure}");
    }
    println!("with all rights: {}", whole.told());
    println!();
    println!("| Right | Without it |");
    println!("| --- | --- |");
    let mut idle = Vec::new();
    for right in rights::of(&spec) {
        interrupt.check()?;
        let outcome = trial::run(&node, &right.spec)?;
        let Some(failure) = outcome.failure() else {
            println!("| {} | **everything works** |", right.name);
            idle.push(right.name);
            continue;
        };
        println!("| {} | {failure} |", right.name);
    }
    ensure!(
        idle.is_empty(),
        "the pod works without these rights, so they should go from the specification: {}",
        idle.join(", ")
    );
    Ok(())
}
