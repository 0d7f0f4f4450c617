//! The machine as a node: directories, mounts, and somebody else's pod.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use flightrec_tests::c_program;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use xtask::command::{read, run as run_command};

/// Somebody else's container, and its pod.
pub(super) const ID: &str = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const UID: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";
pub(super) const NAMES: [&str; 4] = ["app", "shop-0", "prod", "docker.io/library/shop:7"];
/// Where containerd keeps bundles.
const BUNDLES: &str = "run/containerd/io.containerd.runtime.v2.task";
/// The seccomp profile of podman, which stands for `RuntimeDefault`.
const PROFILE: &str = "/usr/share/containers/seccomp.json";
/// Directories of the host that the kubelet and runtimes make.
const DIRECTORIES: [&str; 4] = [BUNDLES, "var/lib/flightrec", "var/log/pods", "var/log/containers"];

/// The node; removed when it is dropped.
pub(super) struct Node {
    folder: PathBuf,
}

impl Node {
    /// In a folder, with this image and this configuration.
    pub(super) fn new(folder: &Path, archive: &Path, config: &str) -> Result<Self> {
        mounts().context("mounts of this process's own")?;
        let node = Self { folder: folder.into() };
        node.clear();
        for directory in DIRECTORIES {
            fs::create_dir_all(node.host(directory))?;
        }
        fs::create_dir_all(folder.join("config"))?;
        fs::write(folder.join("config/flightd.toml"), config)?;
        let profile: Value = serde_json::from_slice(&fs::read(PROFILE).context(PROFILE)?)?;
        fs::write(node.profile(), serde_json::to_vec(&default_profile(profile))?)?;
        run_command(node.podman().args(["load", "--quiet", "--input"]).arg(archive))?;
        node.somebody()?;
        Ok(node)
    }

    /// A directory or file of the host.
    pub(super) fn host(&self, path: &str) -> PathBuf {
        match path.strip_prefix("/sys/") {
            Some(_) => path.into(),
            None => self.folder.join("host").join(path.trim_start_matches('/')),
        }
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    pub(super) fn profile(&self) -> PathBuf {
        self.folder.join("seccomp.json")
    }

    /// podman, with nothing of the machine's own.
    pub(super) fn podman(&self) -> Command {
        let mut podman = Command::new("podman");
        podman.arg("--root").arg(self.folder.join("storage"));
        podman.arg("--runroot").arg(self.folder.join("run"));
        podman.args(["--storage-driver=vfs", "--runtime=runc", "--cgroup-manager=cgroupfs"]);
        podman.arg("--tmpdir").arg(self.folder.join("tmp"));
        podman
    }

    /// Makes somebody else's container, as containerd's CRI would, and the kubelet's names of it.
    fn somebody(&self) -> Result<()> {
        let bundle = self.bundle();
        let rootfs = bundle.join("rootfs");
        for directory in ["proc", "dev", "sys"] {
            fs::create_dir_all(rootfs.join(directory))?;
        }
        fs::copy(c_program("waits", &[]), rootfs.join("app"))?;
        run_command(Command::new("runc").args(["spec", "--bundle"]).arg(&bundle))?;
        let file = bundle.join("config.json");
        let mut config: Value = serde_json::from_slice(&fs::read(&file)?)?;
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(["/app"]);
        config["process"]["rlimits"] = json!([]);
        config["linux"]["cgroupsPath"] = json!(format!("/kubepods/burstable/pod{UID}/{ID}"));
        config["annotations"] = json!({
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": NAMES[0],
            "io.kubernetes.cri.sandbox-name": NAMES[1],
            "io.kubernetes.cri.sandbox-namespace": NAMES[2],
            "io.kubernetes.cri.image-name": NAMES[3],
            "io.kubernetes.cri.sandbox-uid": UID,
        });
        fs::write(&file, serde_json::to_vec_pretty(&config)?)?;
        let [name, pod, namespace, _] = NAMES;
        let logs = format!("var/log/pods/{namespace}_{pod}_{UID}/{name}");
        fs::create_dir_all(self.host(&logs))?;
        let link = format!("var/log/containers/{pod}_{namespace}_{name}-{ID}.log");
        symlink(format!("/{logs}/0.log"), self.host(&link))?;
        Ok(())
    }

    fn bundle(&self) -> PathBuf {
        self.host(BUNDLES).join("k8s.io").join(ID)
    }

    /// Runs somebody else's container, `meanwhile` something else happens, and ends it.
    pub(super) fn beside_somebody(&self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut runc = Command::new("runc");
        runc.args(["run", "--bundle"]).arg(self.bundle()).arg(ID);
        let mut child = runc
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("runc")?;
        let done = meanwhile();
        // It ends with its standard input.
        drop(child.stdin.take());
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "somebody else's container failed: {errors}");
        done
    }

    /// Removes what an earlier trial left.
    fn clear(&self) {
        let _ = Command::new("runc").args(["delete", "--force", ID]).output();
        if self.folder.exists() {
            let _ = read(self.podman().args(["rm", "--all", "--force", "--time=0"]));
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.clear();
        let pod = format!("kubepods/burstable/pod{UID}");
        let groups = [&pod, "kubepods/burstable", "kubepods", "libpod_parent/conmon"];
        for group in groups.into_iter().chain(["libpod_parent"]) {
            // Another container's may be in use.
            let _ = fs::remove_dir(Path::new("/sys/fs/cgroup").join(group));
        }
    }
}

/// What runtimes have as their default today, where podman's is older: containerd and Docker allow
/// `bpf` to who has CAP_BPF, and `perf_event_open` to who has CAP_PERFMON (containerd,
/// contrib/seccomp/seccomp_default.go).
fn default_profile(mut profile: Value) -> Value {
    let calls = [("bpf", "CAP_BPF"), ("perf_event_open", "CAP_PERFMON")];
    let Some(rules) = profile["syscalls"].as_array_mut() else { return profile };
    for rule in rules.iter_mut().filter(|rule| rule["action"] == "SCMP_ACT_ERRNO") {
        if let Some(names) = rule["names"].as_array_mut() {
            names.retain(|name| calls.iter().all(|(call, _)| name != call));
        }
    }
    rules.extend(calls.map(|(call, capability)| {
        json!({"names": [call], "action": "SCMP_ACT_ALLOW", "args": [],
               "includes": {"caps": [capability]}, "excludes": {}})
    }));
    profile
}

/// Gives this process mounts of its own: control groups of version 2 alone, as nodes have them, and
/// a BPF file system and tracefs where they should be.
fn mounts() -> Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)?;
    if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        run_command(Command::new("umount").args(["--recursive", "/sys/fs/cgroup"]))?;
        mount(Some("none"), "/sys/fs/cgroup", Some("cgroup2"), MsFlags::empty(), NONE)?;
    }
    if !Path::new("/sys/kernel/tracing/events").exists() {
        mount(Some("nodev"), "/sys/kernel/tracing", Some("tracefs"), MsFlags::empty(), NONE)?;
    }
    let _ = umount2("/sys/fs/bpf", MntFlags::MNT_DETACH);
    mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), NONE)?;
    // As the kubelet makes directories of the host that are not there.
    fs::create_dir("/sys/fs/bpf/flightrec").context("a directory in the BPF file system")
}
