//! Other machines over ssh: `flightctl --ssh` and `collect`, of real recorders; by a script in the
//! place of ssh, and by OpenSSH itself.

use std::fs::{self, DirBuilder};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use flightrec_tests::{PATIENCE, Recorder, die_with_parent, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::start;

/// How many calls the program makes that is looked for.
const CALLS: usize = 500;

fn program(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).expect("a program");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    path
}

/// What flightctl is called on the other host: of this recorder.
pub(crate) fn remote(recorder: &Recorder) -> String {
    let command = recorder.flightctl_command();
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_str().expect("text")).collect::<Vec<_>>().join(" ")
}

/// Runs flightctl here, over that ssh.
fn over(ssh: &Path, recorder: &Recorder, args: &[&str]) -> Output {
    let program = recorder.flightctl_command().get_program().to_owned();
    let mut command = Command::new(program);
    command.env("FLIGHTCTL_SSH", ssh).env("FLIGHTCTL_REMOTE", remote(recorder));
    command.args(args).stdin(Stdio::null()).output().expect("flightctl")
}

/// A process with a name of its own that makes known calls.
fn work(name: &str) {
    let script = format!(
        "import os\nopen('/proc/self/comm','w').write('{name}')\n\
         for n in range({CALLS}): os.access('/nonexistent/' + str(n), 0)\n"
    );
    let status = Command::new("python3").args(["-c", &script]).status().expect("python3");
    assert!(status.success());
}

/// Lines of its calls in a dump.
fn found(output: &Output) -> usize {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.contains("/nonexistent/")).count()
}

/// The lines of a dump without those on its coverage, which grows as time goes on.
fn events(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// Collects the last six seconds of hosts over that ssh: what was done before it began is in them,
/// also where others keep the CPUs busy.
fn collect(ssh: &Path, recorder: &Recorder, dir: &Path, hosts: &str) -> (Output, Value) {
    let output = collected(ssh, recorder, dir, hosts, &["--last", "6s", "--json"]);
    let table = serde_json::from_slice(&output.stdout);
    let table = table.unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output, table)
}

/// Collects from hosts over that ssh.
pub(crate) fn collected(
    ssh: &Path,
    recorder: &Recorder,
    dir: &Path,
    hosts: &str,
    args: &[&str],
) -> Output {
    let list = dir.join("hosts");
    fs::write(&list, hosts).expect("a list");
    let (list, out) = (list.to_str().expect("text"), dir.join("out"));
    let base = ["collect", "--hosts", list, "--force", "-o", out.to_str().expect("text")];
    over(ssh, recorder, &[&base, args].concat())
}

/// The recorder has recorded for longer than what is collected.
pub(crate) fn lasted(recorder: &Recorder) {
    let is_so = || {
        let status = recorder.flightctl(&["status", "--json"]).stdout;
        let status: Value = serde_json::from_slice(&status).expect("JSON");
        status["lanes"]["sched"]["held_seconds"].as_f64() > Some(7.0)
    };
    assert!(wait_until(PATIENCE, is_so), "it does not record");
}

/// Each host's window is of the same six seconds, and has what was done in them. An event of
/// something else on this machine may be missing; then that is told.
fn check(recorder: &Recorder, (output, table): &(Output, Value), name: &str) {
    let mut complete = true;
    for host in table["hosts"].as_array().expect("hosts") {
        assert_eq!(host["error"], Value::Null, "{table}\n{}", recorder.log());
        let is_complete = host["complete"].as_bool().expect("a truth");
        assert!(!is_complete || host["missing_events"] == 0, "{table}\n{}", recorder.log());
        complete &= is_complete;
        let time = |key: &str| {
            let text = host[key].as_str().expect("a time");
            text.parse::<jiff::Timestamp>().expect("a time").as_nanosecond()
        };
        let length = time("until") - time("from");
        assert!((5_990_000_000..=6_010_000_000).contains(&length), "{length} ns: {host}");
        let file = host["files"][0].as_str().expect("a file");
        let dump = recorder.flightctl(&["dump", file, "--comm", name]);
        assert!(dump.status.success(), "{dump:?}");
        assert_eq!(found(&dump), CALLS, "{dump:?}");
    }
    assert_eq!(output.status.code(), Some(if complete { 0 } else { 3 }), "{output:?}");
}

#[test]
fn windows_of_two_hosts() {
    let recorder = start("");
    lasted(&recorder);
    let dir = TempDir::new().expect("directory");
    let text = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexec /bin/sh -c \"$3\"\n";
    let ssh = program(dir.path(), "ssh", text);
    work("fleet-a");
    let answer = collect(&ssh, &recorder, dir.path(), "web1\nweb2\n");
    check(&recorder, &answer, "fleet-a");
    let (_, table) = answer;
    assert_eq!(table["asked"], 2);
    let first = table["hosts"][0]["from"].as_str().expect("a time");
    let second = table["hosts"][1]["from"].as_str().expect("a time");
    let parsed = |text: &str| text.parse::<jiff::Timestamp>().expect("a time").as_nanosecond();
    let apart = (parsed(first) - parsed(second)).abs();
    assert!(apart < 1_000_000_000, "{apart} ns between {first} and {second}");
}

/// OpenSSH with keys of its own; sshd runs for one connection, on pipes.
pub(crate) struct OpenSsh {
    dir: TempDir,
    ssh: PathBuf,
    /// It had to be made for sshd.
    made: bool,
}

const SSHD: &str = "/usr/sbin/sshd";
const SSHD_DIR: &str = "/run/sshd";

impl OpenSsh {
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("directory");
        let at = dir.path().to_str().expect("text");
        for key in ["host", "user"] {
            let file = format!("{at}/{key}");
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &file])
                .stdin(Stdio::null())
                .status();
            assert!(made.expect("ssh-keygen").success());
        }
        let config = format!(
            "HostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\nStrictModes no\nUsePAM no\n\
             PermitRootLogin prohibit-password\nPidFile none\n"
        );
        fs::write(dir.path().join("sshd_config"), config).expect("a configuration");
        let host = fs::read_to_string(dir.path().join("host.pub")).expect("a key");
        let known = format!("* {host}");
        fs::write(dir.path().join("known_hosts"), known).expect("known hosts");
        let text = format!(
            "#!/bin/sh\nexec ssh -F none -o ProxyCommand='{SSHD} -i -f {at}/sshd_config' \
             -o UserKnownHostsFile={at}/known_hosts -o StrictHostKeyChecking=yes \
             -o IdentitiesOnly=yes -i {at}/user \"$@\"\n"
        );
        let ssh = program(dir.path(), "ssh", &text);
        let made = !Path::new(SSHD_DIR).exists();
        if made {
            DirBuilder::new().mode(0o755).create(SSHD_DIR).expect(SSHD_DIR);
        }
        Self { dir, ssh, made }
    }

    /// A server at a port of loopback; `variables` are those of its sessions, `A=1 B=2`.
    pub(crate) fn listen(&self, variables: &str) -> Listening {
        let port =
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it").port();
        let mut command = Command::new(SSHD);
        command
            .args(["-D", "-q", "-p", &port.to_string(), "-f"])
            .arg(self.dir().join("sshd_config"));
        command.args(["-o", "ListenAddress=127.0.0.1", "-o", "ListenAddress=::1"]);
        if !variables.is_empty() {
            command.args(["-o", &format!("SetEnv={variables}")]);
        }
        die_with_parent(&mut command, Signal::SIGTERM);
        let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect(SSHD);
        let listening = Listening { child, port };
        let answers = || TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(wait_until(PATIENCE, answers), "sshd does not listen");
        listening
    }

    /// An ssh that makes connections itself, with a configuration of its user's.
    pub(crate) fn configured(&self, config: &str) -> PathBuf {
        let at = self.dir().to_str().expect("text");
        fs::write(self.dir().join("ssh_config"), config).expect("a configuration");
        let text = format!(
            "#!/bin/sh\nexec ssh -F {at}/ssh_config -o UserKnownHostsFile={at}/known_hosts \
             -o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -i {at}/user \"$@\"\n"
        );
        program(self.dir(), "ssh-configured", &text)
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }
}

/// A server that listens, until this ends.
pub(crate) struct Listening {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to be ended.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Drop for OpenSsh {
    fn drop(&mut self) {
        if self.made {
            // Another server may use it meanwhile.
            let _ = fs::remove_dir(SSHD_DIR);
        }
    }
}

#[test]
fn openssh_passes_all_through() {
    let recorder = start("");
    lasted(&recorder);
    let open = OpenSsh::new();
    work("fleet-b");
    let here = recorder.flightctl(&["dump", "--last", "1h", "--comm", "fleet-b"]);
    assert_eq!(found(&here), CALLS, "{here:?}");
    let args = ["--ssh", "root@web1", "dump", "--last", "1h", "--comm", "fleet-b"];
    let there = over(&open.ssh, &recorder, &args);
    assert!(there.status.success(), "{there:?}");
    assert_eq!(events(&there), events(&here));
    let nothing = ["--ssh", "root@web1", "dump", "--last", "1s", "--comm", "it's $(id) \\\""];
    let nothing = over(&open.ssh, &recorder, &nothing);
    assert_eq!(nothing.status.code(), Some(1), "{nothing:?}");
    assert_eq!(events(&nothing), [""; 0]);
    work("fleet-c");
    let answer = collect(&open.ssh, &recorder, open.dir.path(), "root@web1\nroot@web2\n");
    check(&recorder, &answer, "fleet-c");
    // A key that is not known there.
    fs::remove_file(open.dir.path().join("user.pub")).expect("the key");
    let refused = over(&open.ssh, &recorder, &["--ssh", "root@web1", "status"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{text}");
    assert!(text.contains("there is no answer from root@web1"), "{text}");
    let (output, table) = collect(&open.ssh, &recorder, open.dir.path(), "root@web1\n");
    assert_eq!(output.status.code(), Some(1));
    let why = table["hosts"][0]["error"].as_str().expect("a reason");
    assert!(why.contains("Permission denied"), "{why}");
}

/// Runs a command in a terminal of 24 lines, presses `q` when it shows a text, and prints all that
/// it has shown.
const IN_A_TERMINAL: &str = r"
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('4H', 24, 100, 0, 0))
shown, pressed = b'', False
while True:
    try:
        news = os.read(terminal, 65536)
    except OSError:
        break
    if not news:
        break
    shown += news
    if not pressed and sys.argv[1].encode() in shown:
        os.write(terminal, b'q')
        pressed = True
sys.stdout.buffer.write(shown)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(status if pressed else 98)
";

#[test]
fn top_has_a_terminal_on_the_host() {
    let recorder = start("");
    lasted(&recorder);
    let open = OpenSsh::new();
    let program = recorder.flightctl_command().get_program().to_owned();
    let mut command = Command::new("timeout");
    command.args(["60", "python3", "-c", IN_A_TERMINAL, "CALLS/S"]).arg(program);
    command.args(["--ssh", "root@web1", "top"]);
    command.env("FLIGHTCTL_SSH", &open.ssh).env("FLIGHTCTL_REMOTE", remote(&recorder));
    let output = command.env("TERM", "xterm").stdin(Stdio::null()).output().expect("python3");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}: {shown}\n{output:?}", output.status);
    // It has left the screen as it was.
    assert!(shown.contains("\x1b[?1049h") && shown.contains("\x1b[?1049l"), "{shown}");
}
