//! What can't work ends with exit code 2 and a message that says what to do.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use flightrec_tests::{PATIENCE, Sandbox, bin_dir, die_with_parent, require_kernel, wait_limited};
use nix::sys::signal::Signal;

use crate::support::{snapshot, start};

/// `nobody` on any distribution.
const NOBODY: u32 = 65534;

fn sandbox() -> Sandbox {
    require_kernel();
    Sandbox::new().expect("sandbox")
}

/// A `flightd` in a sandbox, with this configuration.
fn flightd(sandbox: &Sandbox, config: &str) -> Command {
    flightd_on(sandbox, config, &sandbox.bpffs_dir())
}

fn flightd_on(sandbox: &Sandbox, config: &str, bpffs: &Path) -> Command {
    let file = sandbox.root().join("flightd.toml");
    fs::write(&file, config).expect("write");
    let mut command = Command::new(bin_dir().join("flightd"));
    command.arg("--config").arg(file).arg("--runtime-dir").arg(sandbox.runtime_dir());
    command.arg("--state-dir").arg(sandbox.state_dir()).arg("--bpffs-dir").arg(bpffs);
    command
}

/// Runs a `flightd` that must refuse, and checks that it says all of `words`.
fn refuses(mut command: Command, words: &[&str]) {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("flightd");
    if wait_limited(&mut child, PATIENCE).expect("wait").is_none() {
        child.kill().expect("kill");
    }
    let output = child.wait_with_output().expect("wait");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in words {
        assert!(said.contains(words), "no {words:?} in:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// The same, and nothing may be left pinned.
fn refuses_config(config: &str, words: &[&str]) {
    let sandbox = sandbox();
    refuses(flightd(&sandbox, config), words);
    assert_eq!(sandbox.pins().expect("pins"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn unknown_keys() {
    refuses_config(
        "[rings]\nsyscal = \"1MiB\"",
        &["flightd.toml:2", "rings.syscal", "did you mean `rings.syscall`"],
    );
    refuses_config("[ring]\nsyscall = \"1MiB\"", &["flightd.toml:1", "ring", "did you mean"]);
}

#[test]
fn impossible_sizes() {
    refuses_config(
        "[rings]\nsyscall = \"1KiB\"",
        &["flightd.toml:2", "rings.syscall", "at least 8KiB"],
    );
    refuses_config(
        "[rings]\nsched = \"999999GiB\"",
        &["rings.sched", "this machine's memory", "give less"],
    );
    refuses_config("[rings]\ntask = \"lots\"", &["flightd.toml:2", "rings.task", "lots"]);
    refuses_config("[threads]\nslots = 0", &["threads.slots", "0 is not within"]);
    refuses_config("[rings]\nmax_total = \"4MiB\"", &["max_total", "raise"]);
}

#[test]
fn no_configuration_at_all() {
    let sandbox = sandbox();
    let mut command = Command::new(bin_dir().join("flightd"));
    command.arg("--config").arg(sandbox.root().join("missing.toml"));
    refuses(command, &["missing.toml", "--config"]);
    refuses_config("[rings\n", &["flightd.toml:1"]);
}

#[test]
fn the_check_says_the_same() {
    let sandbox = sandbox();
    let mut command = flightd(&sandbox, "[rings]\nsyscal = \"1MiB\"");
    command.arg("--check");
    refuses(command, &["did you mean `rings.syscall`"]);
    let output = flightd(&sandbox, "").arg("--check").output().expect("flightd");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("The configuration is good"));
}

#[test]
fn a_kernel_that_lacks_a_member() {
    let sandbox = sandbox();
    let mut btf = fs::read("/sys/kernel/btf/vmlinux").expect("BTF");
    let name = btf.windows(6).position(|w| w == b"\0prio\0").expect("the name of a member");
    btf[name + 4] = b'X';
    let file = sandbox.root().join("btf");
    fs::write(&file, &btf).expect("write");
    let config = format!("[kernel]\nbtf = {file:?}");
    refuses(flightd(&sandbox, &config), &["task_struct.prio", "uname -r"]);
    fs::write(&file, &btf[..100_000]).expect("write");
    refuses(flightd(&sandbox, &config), &["not usable as BTF", "/sys/kernel/btf/vmlinux"]);
    refuses(
        flightd(&sandbox, "[kernel]\nbtf = \"/nonexistent\""),
        &["/nonexistent", "CONFIG_DEBUG_INFO_BTF"],
    );
    assert_eq!(sandbox.pins().expect("pins"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn no_root() {
    let sandbox = sandbox();
    // Where nobody can reach: the build's folder may be closed to others.
    let program = sandbox.root().join("flightd");
    fs::copy(bin_dir().join("flightd"), &program).expect("copy");
    for open in [sandbox.root(), &sandbox.runtime_dir(), &sandbox.state_dir(), &program] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755)).expect("chmod");
        chown(open, Some(NOBODY), Some(NOBODY)).expect("chown");
    }
    let like = flightd(&sandbox, "");
    let mut command = Command::new(&program);
    command.args(like.get_args()).uid(NOBODY).gid(NOBODY);
    refuses(command, &["root"]);
    // Nor may it use directories of others: the socket's first.
    chown(sandbox.runtime_dir(), Some(0), Some(0)).expect("chown");
    fs::remove_file(sandbox.runtime_dir().join("flightd.lock")).expect("the first one's lock");
    let mut command = Command::new(&program);
    command.args(like.get_args()).uid(NOBODY).gid(NOBODY);
    let runtime = sandbox.runtime_dir();
    refuses(command, &["denied", runtime.to_str().expect("UTF-8")]);
}

/// A link in it would lead root anywhere.
#[test]
fn a_state_directory_of_another_user() {
    let sandbox = sandbox();
    chown(sandbox.state_dir(), Some(NOBODY), Some(NOBODY)).expect("chown");
    let state = sandbox.state_dir();
    let words = ["belongs to another user", state.to_str().expect("UTF-8")];
    refuses(flightd(&sandbox, ""), &words);
    // Nor one that is not there, where that user could make it.
    let mut command = Command::new(bin_dir().join("flightd"));
    command.arg("--runtime-dir").arg(sandbox.runtime_dir());
    command.arg("--bpffs-dir").arg(sandbox.bpffs_dir()).arg("--state-dir").arg(state.join("new"));
    refuses(command, &words);
    assert_eq!(sandbox.pins().expect("pins"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_second_daemon_on_the_same_directories() {
    let recorder = start("");
    let pid = recorder.pid().to_string();
    refuses(recorder.flightd_command(), &["already running", &pid, "another directory"]);
    // The first one does not notice.
    assert!(recorder.flightctl(&["status"]).status.success());
    assert_eq!(snapshot(&recorder).meta.recorder, env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_socket_in_use() {
    let sandbox = sandbox();
    let socket = sandbox.runtime_dir().join("control.sock");
    let listener = UnixListener::bind(&socket).expect("bind");
    refuses(flightd(&sandbox, ""), &["control.sock", "already running there", "--runtime-dir"]);
    assert!(socket.exists(), "it is another's");
    drop(listener);
    fs::remove_file(&socket).expect("remove");
    fs::write(&socket, "").expect("write");
    refuses(flightd(&sandbox, ""), &["control.sock", "is not a socket", "remove it"]);
    assert!(socket.exists(), "it is another's");
    // Nothing records on behalf of a daemon that did not start.
    assert_eq!(sandbox.pins().expect("pins"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn a_kernel_without_bpf() {
    let sandbox = sandbox();
    let mut command = flightd(&sandbox, "");
    let hook = || deny_bpf();
    // SAFETY: between fork and exec the hook makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(hook) };
    refuses(command, &["BPF", "CONFIG_BPF_SYSCALL"]);
}

/// Lets `bpf(2)` fail as on a kernel that lacks it.
fn deny_bpf() -> std::io::Result<()> {
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut code = [
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // seccomp_data.nr
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_bpf as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
    // SAFETY: plain numbers; and a filter program that lives across the call.
    let failed = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

#[test]
fn no_bpffs() {
    let sandbox = sandbox();
    let command = flightd_on(&sandbox, "", &sandbox.root().join("plain"));
    refuses(command, &["not on a BPF file system", "mount -t bpf bpf"]);
}

#[test]
fn no_tracefs() {
    let words = ["/nonexistent", "mount -t tracefs nodev /nonexistent", "[kernel] tracefs"];
    refuses_config("[kernel]\ntracefs = \"/nonexistent\"", &words);
}
