//! `--ssh`: a command on another host, by a made-up ssh that runs this one.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use flightrec_format::abi::page::Lane;
use tempfile::TempDir;

use crate::common::{NOW, Recording, SECOND, command, flightctl, stderr, stdout};
use crate::disk::calls;

const PATIENCE: Duration = Duration::from_secs(20);

/// What an ssh does with its arguments: options, `--`, host, command. `hosts/NAME` is the runtime
/// directory of a host; others can't be reached, and `bare` has no flightctl.
const SSH: &str = r#"#!/bin/sh
here=$(dirname "$0")
printf '%s\n' "$*" >>"$here/asked"
while [ "$1" != -- ]; do shift; done
[ $# = 3 ] || exit 99
if [ "$2" = bare ]; then
    exec /bin/sh -c "no-such-program"
fi
if ! [ -e "$here/hosts/$2" ]; then
    echo "ssh: connect to host $2 port 22: No route to host" >&2
    exit 255
fi
FLIGHTREC_RUNTIME_DIR=$here/hosts/$2
export FLIGHTREC_RUNTIME_DIR here
# As one process, so that who ends ssh ends the command, as the end of a connection would.
eval "exec $3"
"#;

/// Hosts that an ssh of our own reaches.
pub(crate) struct Hosts {
    dir: TempDir,
    daemons: Vec<TempDir>,
}

impl Hosts {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("hosts")).unwrap();
        let hosts = Self { dir, daemons: Vec::new() };
        hosts.program("ssh", SSH);
        hosts
    }

    /// A program beside ssh.
    pub(crate) fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// A host with a recorder.
    pub(crate) fn add(&mut self, name: &str, recording: Recording) -> &Path {
        self.daemons.push(recording.serve());
        let daemon = self.daemons.last().unwrap().path();
        std::os::unix::fs::symlink(daemon, self.dir.path().join("hosts").join(name)).unwrap();
        daemon
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What ssh was asked for, a line each.
    pub(crate) fn asked(&self) -> String {
        fs::read_to_string(self.dir.path().join("asked")).unwrap_or_default()
    }

    /// A flightctl that reaches them.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("FLIGHTCTL_SSH", self.dir.path().join("ssh"));
        command.env("FLIGHTCTL_REMOTE", env!("CARGO_BIN_EXE_flightctl"));
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
}

/// Calls of 5 s up to now; without its first pages where it is to be incomplete.
pub(crate) fn recording(complete: bool) -> Recording {
    let mut recording = Recording::new();
    let end = calls(&mut recording, NOW - 5 * SECOND, 0..5000);
    assert!(end <= NOW);
    if !complete {
        recording.drop_pages = 1;
        assert!(recording.pages()[Lane::Syscall as usize].len() > 1, "there are pages to drop");
    }
    recording
}

fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn output_errors_and_status_are_those_of_the_host() {
    let mut hosts = Hosts::new();
    let web = hosts.add("web1", recording(true)).to_str().unwrap().to_owned();
    let db = hosts.add("root@db", recording(false)).to_str().unwrap().to_owned();
    for (host, dir, status, args) in [
        ("web1", &web, 0, &["dump", "--last", "2s", "--strict"][..]),
        ("web1", &web, 1, &["dump", "--last", "2s", "--comm", "no such"]),
        ("web1", &web, 0, &["status", "--json"]),
        ("web1", &web, 2, &["mark", "refuse"]),
        ("root@db", &db, 3, &["dump", "--all", "--strict", "--format", "jsonl"]),
        ("root@db", &db, 1, &["report", "calls", "--all", "--format", "json"]),
    ] {
        let there = hosts.run(&[&["--ssh", host], args].concat());
        let here = flightctl(&[&["--runtime-dir", dir], args].concat());
        assert_eq!(there.status.code(), Some(status), "{args:?}: {}", stderr(&there));
        assert_eq!(here.status.code(), Some(status), "{args:?}: {}", stderr(&here));
        assert_eq!(stdout(&there), stdout(&here), "{args:?}");
        assert_eq!(stderr(&there), stderr(&here), "{args:?}");
        // Where the option stands does not matter.
        let after = hosts.run(&[args, &[&format!("--ssh={host}")]].concat());
        assert_eq!((after.status, after.stdout), (there.status, there.stdout), "{args:?}");
    }
    assert!(hosts.asked().lines().all(|line| line.starts_with("-- ")), "{}", hosts.asked());
}

#[test]
fn words_arrive_as_they_were_typed() {
    let mut hosts = Hosts::new();
    hosts.add("web1", Recording::new());
    let words = hosts.program("words", "#!/bin/sh\nprintf '<%s>\\n' \"$@\"\n");
    let trap = hosts.dir().join("trap");
    let hostile = format!("a'b \"$(touch {})\" `id`; \\ * ~ | exit", trap.display());
    let typed = ["--ssh", "web1", "--remote-flightctl", words.to_str().unwrap(), "mark", &hostile];
    let out = hosts.run(&typed);
    assert_eq!(stdout(&out), format!("<mark>\n<{hostile}>\n"), "{}", stderr(&out));
    assert!(!trap.exists());
}

#[test]
fn what_is_missing_is_said() {
    let hosts = Hosts::new();
    let fails = |out: &Output, words: &[&str]| {
        assert_eq!(out.status.code(), Some(2), "{out:?}");
        for words in words {
            assert!(stderr(out).contains(words), "{words:?}: {}", stderr(out));
        }
    };
    let down = hosts.run(&["--ssh", "down", "status"]);
    fails(&down, &["No route to host", "flightctl: there is no answer from down"]);
    let bare = hosts.command(&["--ssh", "bare", "status"]).env_remove("FLIGHTCTL_REMOTE").output();
    fails(&bare.unwrap(), &["bare has no flightctl: install", "--remote-flightctl"]);
    let no_ssh = hosts.command(&["--ssh", "a", "status"]).env("FLIGHTCTL_SSH", "/no/ssh").output();
    fails(&no_ssh.unwrap(), &["there is no program /no/ssh", "--ssh-program"]);
    fails(&hosts.run(&["--ssh=-oProxyCommand=id", "status"]), &["begins with a dash"]);
    fails(&hosts.run(&["--ssh", "", "status"]), &["must not be empty"]);
    fails(&hosts.run(&["--ssh", "web1:ssh", "status"]), &["no port after its colon"]);
    fails(
        &hosts.run(&["--ssh", "a", "save", "-o", "x.flight"]),
        &["would be written on a", "-o -"],
    );
    fails(&hosts.run(&["--ssh", "a", "dump", "-o", "x"]), &["would be written on a"]);
    assert_eq!(hosts.asked().lines().count(), 2, "others were asked: {}", hosts.asked());
}

#[test]
fn a_saved_window_comes_over_standard_output() {
    let mut hosts = Hosts::new();
    let daemon = hosts.add("web1", recording(true)).to_str().unwrap().to_owned();
    let file = hosts.dir().join("here.flight");
    let path = file.to_str().unwrap();
    let here = flightctl(&["--runtime-dir", &daemon, "save", "--last", "2s", "-o", path]);
    assert_eq!(here.status.code(), Some(0), "{}", stderr(&here));
    let there = hosts.run(&["--ssh", "web1", "save", "--last", "2s", "-o", "-"]);
    assert_eq!(there.status.code(), Some(0), "{}", stderr(&there));
    assert!(there.stdout == fs::read(&file).unwrap(), "{} bytes", there.stdout.len());
    assert!(stderr(&there).contains("saved to standard output ("), "{}", stderr(&there));
}

#[test]
fn a_reader_who_has_enough_ends_both() {
    let mut hosts = Hosts::new();
    hosts.add("web1", Recording::new());
    let quiet = "#!/bin/sh\necho $$ >\"$here/pid\"\necho line\nexec sleep 600\n";
    let loud = "#!/bin/sh\necho $$ >\"$here/pid\"\nexec yes line\n";
    for text in [quiet, loud] {
        let program = hosts.program("remote", text);
        let mut child = hosts
            .command(&["--ssh", "web1", "follow"])
            .env("FLIGHTCTL_REMOTE", program)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0; 5];
        child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"line\n");
        let pid = fs::read_to_string(hosts.dir().join("pid")).unwrap();
        drop(child.stdout.take());
        let mut status = None;
        assert!(until(|| {
            status = child.try_wait().unwrap();
            status.is_some()
        }));
        assert_eq!(status.unwrap().code(), Some(0));
        let running = Path::new("/proc").join(pid.trim());
        assert!(until(|| !running.exists()), "{} goes on", running.display());
    }
}

#[test]
fn a_signal_ends_both() {
    let mut hosts = Hosts::new();
    hosts.add("web1", Recording::new());
    let text = "#!/bin/sh\necho $$ >\"$here/pid\"\necho line\nexec sleep 600\n";
    let program = hosts.program("remote", text);
    let mut child = hosts
        .command(&["--ssh", "web1", "top"])
        .env("FLIGHTCTL_REMOTE", program)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let pid = fs::read_to_string(hosts.dir().join("pid")).unwrap();
    let id = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let running = Path::new("/proc").join(pid.trim());
    assert!(until(|| !running.exists()), "{} goes on", running.display());
}
