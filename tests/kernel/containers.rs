//! Containers and pods: control groups of their shapes, and what a node's runtime writes down of
//! them, in the way from the daemon to filters, lines, reports and files.

use std::fs;
use std::process::{Command, Stdio};

use flightrec_tests::{ControlGroup, PATIENCE, Recorder, kernel_dump, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{is_event, start};

/// A container of Docker, and one of containerd in a pod: their ids, and the pod's.
pub(crate) const DOCKER: &str = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
pub(crate) const SHOP: &str = "9d41770a04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const UID: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";

/// Runs `cat FILE` in a group as a runtime would have made it, below one of the test's own; its
/// process id.
fn cat(groups: &ControlGroup, group: &str, file: &str) -> u32 {
    let dir = groups.dir().join(group);
    fs::create_dir_all(&dir).expect("a control group");
    let script = format!("echo $$ > {}/cgroup.procs && exec cat {file}", dir.display());
    let mut child = Command::new("/bin/sh");
    let mut child = child.args(["-c", &script]).stdout(Stdio::null()).spawn().expect("sh");
    let pid = child.id();
    assert!(child.wait().expect("wait").success(), "{script}");
    pid
}

/// As JSON has it: a name that a terminal would obey.
const HOSTILE: &str = r"/web\u001b[31m-1";

/// A node's files: a Docker container of this name, as JSON has it, and one of containerd in a pod.
pub(crate) fn node(name: &str) -> TempDir {
    let node = tempfile::tempdir().expect("a directory");
    let write = |path: String, text: &str| {
        let path = node.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, text).expect("a file");
    };
    write(
        format!("var/lib/docker/containers/{DOCKER}/config.v2.json"),
        &format!(r#"{{"Name":"{name}","Config":{{"Image":"nginx:1.27"}}}}"#),
    );
    write(
        format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{SHOP}/config.json"),
        r#"{"annotations":{"io.kubernetes.cri.container-name":"app",
           "io.kubernetes.cri.image-name":"shop:7","io.kubernetes.cri.sandbox-name":"shop-0",
           "io.kubernetes.cri.sandbox-namespace":"prod"}}"#,
    );
    node
}

fn lines(recorder: &Recorder, args: &[&str]) -> Vec<Value> {
    let output = recorder.flightctl(&[&["dump", "--format", "jsonl"], args].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    lines.filter(is_event).collect()
}

/// Whose events a filter leaves.
enum Of {
    Web,
    Shop,
}

/// Each way to name a container and a pod. Each source of names has to have the first three.
const FILTERS: [(&str, &str, Of); 8] = [
    ("--container", "web\u{1b}[31m-1", Of::Web),
    ("--container", DOCKER, Of::Web),
    ("--pod", "prod/shop-0", Of::Shop),
    ("--container", "3f2a9c1b04de", Of::Web),
    ("--container", "app", Of::Shop),
    ("--container", "9d41", Of::Shop),
    ("--pod", "shop-0", Of::Shop),
    ("--pod", UID, Of::Shop),
];

#[test]
#[ignore = "long: dozens of dumps of all that there is"]
fn containers_and_pods_by_name_and_id() {
    let node = node(HOSTILE);
    let root = node.path().display();
    let mut recorder = start(&format!("[containers]\nroot = \"{root}\""));
    let groups = ControlGroup::unified().expect("a control group");
    let web = cat(&groups, &format!("docker-{DOCKER}.scope"), "/etc/hostname");
    let pod = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    let shop = cat(&groups, &format!("{pod}/cri-containerd-{SHOP}.scope"), "/etc/hostname");
    let inner = cat(&groups, &format!("docker-{DOCKER}.scope/init.scope"), "/etc/hostname");
    let outside = cat(&groups, "web.service", "/etc/hostname");

    // A dump of the kernel has the rings alone: it is made before others write over them.
    let knows = |pid: u32, of: [&str; 2]| {
        lines(&recorder, &["--all", of[0], of[1]]).iter().any(|line| line["pid"] == pid)
    };
    let are_known =
        || knows(shop, ["--pod", "prod/shop-0"]) && knows(web, ["--container", "web\u{1b}[31m-1"]);
    assert!(wait_until(PATIENCE, are_known), "{}", recorder.log());
    let vmcore = kernel_dump(&recorder);

    let check = |recorder: &Recorder, from: &[&str], filters: &[(&str, &str, Of)]| {
        let pids = |filter: [&str; 2]| {
            let all = lines(recorder, &[from, &filter[..]].concat());
            let of = |pid: &u32| all.iter().any(|line| line["pid"] == *pid);
            [web, inner, shop, outside].map(|pid| of(&pid))
        };
        for (option, value, of) in filters {
            let expected = match of {
                Of::Web => [true, true, false, false],
                Of::Shop => [false, false, true, false],
            };
            assert_eq!(pids([option, value]), expected, "{option} {value:?}");
        }
        let all = lines(recorder, &[from, &["--pod", "shop-0", "--comm", "cat"]].concat());
        // Another test may run a container of this id in no pod.
        let is_call = |line: &&Value| line["event"] == "sys_exit" && line["pid"] == shop;
        let line = all.iter().find(is_call).expect("a call");
        let fields = ["container", "container_name", "pod", "pod_uid", "namespace", "image"];
        let known = fields.map(|field| line[field].as_str().unwrap_or_default().to_owned());
        assert_eq!(known, [SHOP, "app", "shop-0", UID, "prod", "shop:7"]);
        let pids = [web, outside].map(|pid| pid.to_string());
        let of = ["--pid", &pids[0], "--pid", &pids[1], "--comm", "cat"];
        let (of_web, of_outside): (Vec<_>, Vec<_>) =
            lines(recorder, &[from, &of].concat()).into_iter().partition(|of| of["pid"] == web);
        assert!(of_web.iter().any(|line| line["container_name"] == "web\\33[31m-1"));
        assert!(!of_outside.is_empty());
        assert!(of_outside.iter().all(|line| line.get("container").is_none()));
    };
    check(&recorder, &["--all"], &FILTERS);
    let both = ["--all", "--pod", "shop-0", "--container", "3f2a9c1b04de"];
    // A dump shows changes of the recorder's level whatever the filter.
    let left = lines(&recorder, &both);
    let is_ours = |line: &Value| [web, inner, shop, outside].iter().any(|pid| line["pid"] == *pid);
    assert!(!left.iter().any(is_ours), "both must agree: {left:#?}");

    let report = recorder.flightctl(&[
        "report",
        "calls",
        "--all",
        "--comm",
        "cat",
        "--by",
        "namespace,pod,container_name,image",
        "--format",
        "csv",
    ]);
    let report = String::from_utf8_lossy(&report.stdout);
    assert!(report.contains("prod,shop-0,app,shop:7,"), "{report}");
    assert!(report.contains("nginx:1.27,") && !report.contains('\u{1b}'), "{report}");

    let wrong = recorder.flightctl(&["dump", "--pod", "shop-1"]);
    let text = String::from_utf8_lossy(&wrong.stderr);
    assert!(text.contains("knows no pod `shop-1`; did you mean shop-0"), "{text}");
    let wrong = recorder.flightctl(&["dump", "--container", "9d4"]);
    let text = String::from_utf8_lossy(&wrong.stderr);
    assert!(text.contains("give at least 4 digits"), "{text}");

    // Gone, and so are the runtime's files; but known. A file knows them, and so does the next
    // daemon, which takes the recording over.
    drop(groups);
    node.close().expect("removed");
    let known = &FILTERS[..3];
    check(&recorder, &["--all"], known);
    let file = tempfile::tempdir().expect("a directory");
    let path = file.path().join("a.flight").display().to_string();
    let saved = recorder.flightctl(&["save", "--all", "-o", &path]);
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    check(&recorder, &["--file", &path, "--all"], known);
    // A dump of the kernel does, as the names are in its memory: no file beside it is needed.
    let dump = file.path().join("vmcore").display().to_string();
    fs::write(&dump, vmcore).expect("a dump");
    check(&recorder, &["--vmcore", &dump, "--all"], known);
    recorder.kill();
    recorder.restart();
    check(&recorder, &["--all"], known);
}

/// What hostile files must not do: hold the recorder up, or take its names away.
#[test]
fn a_runtime_that_hangs_or_lies_takes_nothing_else() {
    let node = node(HOSTILE);
    let config = node.path().join(format!("var/lib/docker/containers/{DOCKER}/config.v2.json"));
    fs::remove_file(&config).expect("removed");
    nix::unistd::mkfifo(&config, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let root = node.path().display();
    let recorder = start(&format!("[containers]\nroot = \"{root}\""));
    let groups = ControlGroup::unified().expect("a control group");
    let web = cat(&groups, &format!("docker-{DOCKER}.scope"), "/etc/hostname");
    let shop = cat(&groups, &format!("k8s.io/{SHOP}"), "/etc/hostname");
    let has = |args: [&str; 2], pid: u32| {
        let all = lines(&recorder, &["--all", args[0], args[1]]);
        all.iter().any(|line| line["pid"] == pid)
    };
    // By its id; the other one by its name.
    assert!(has(["--container", "3f2a9c1b"], web));
    let is_named = || has(["--container", "app"], shop) && has(["--pod", "prod/shop-0"], shop);
    assert!(wait_until(PATIENCE, is_named), "{}", recorder.log());
    let text = recorder.flightctl(&[
        "dump",
        "--all",
        "--container",
        "3f2a9c1b",
        "--comm",
        "cat",
        "--format",
        "jsonl",
    ]);
    assert!(!String::from_utf8_lossy(&text.stdout).contains("container_name"), "{text:?}");
}
