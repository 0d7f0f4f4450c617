//! The commands of README.md and docs/, run as they stand there.
//!
//! Each line of a block of shell that calls one of this project's programs is given to a shell, in
//! a directory of its own, while `programs/shop.py` makes what the commands look for. The
//! recorder's directories are at their usual places, in private mounts: `/run/flightrec`,
//! `/var/lib/flightrec`, `/etc/flightrec`. Programs of the test stand in for `ssh`, `kubectl` and
//! `flamegraph.pl`, and run here what they are given. Times and thread ids of the documentation
//! become such of the test ([`RECENT`]). A command must succeed, or be one of [`ELSEWHERE`], with
//! the answer that is right there.
//!
//! A command takes as long as there are events in its window, so windows are short here, and rings
//! small. The pages are worked through side by side, the commands of each in their order.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use flightrec_tests::documentation::{Line, commands, lines, ours, pages};
use flightrec_tests::{ControlGroup, Recorder, bin_dir, c_program, die_with_parent, kernel_dump};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::Signal;
use regex::Regex;
use tempfile::TempDir;

use crate::containers::{DOCKER, SHOP, node};
use crate::support::start;

/// The pod's control group.
const POD: &str = "kubepods-burstable-pod1a2b3c4d_1111_2222_3333_0123456789ab.slice";

/// What is of another time, thread or place in the documentation, and what stands for it here;
/// `PID` is the shop's `orders`.
const RECENT: [(&str, &str); 14] = [
    (r"--since [0-9:]+(\.\d+)? --until [0-9:]+(\.\d+)?", "--since -5s --until -1s"),
    // At one of these moments, `orders` waits.
    (r"^(flightctl why .*--at) [0-9:.]+", "for at in -1s -2s -3s -4s; do $1 $$at && break; done"),
    (r"--a \S+ --b \S+", "--a -9s..-5s --b -5s..-1s"),
    (r"--since -2d --until -1d", "--since -5s --until -1s"),
    (r"--last (\d\ds|\d+[mhd])\b", "--last 5s"),
    // All there is would be more for each command that was run before.
    (r"^(flightctl (?:dump|report) .*)--all", "$1--last 5s"),
    (r"--(tid|pid|tree) \d+", "--$1 PID"),
    (r"/tmp/functions", "./functions"),
    // What the next command looks for has to happen.
    (
        r"^(flightctl probe add .*)$",
        "$1 && timeout 60 sh -c 'until flightctl dump --event function; do sleep 1; done'",
    ),
    (r"(/var/crash/\d+/)?dump\.\d+|\bFILE\b", "vmcore"),
    (r"/mnt/var/lib/flightrec", "/var/lib/flightrec"),
    // Tables take the most memory of all formats.
    (r"^flightctl export --last 5s", "flightctl --memory 1GiB export --last 5s"),
    // What ends by a key, which may come before it is looked for, or by Ctrl-C.
    (
        r"^(flightctl (--ssh \S+ )?top)$",
        "(trap '' PIPE; while sleep 1 && printf q; do :; done 2>/dev/null; true) |
         script -qec '$1' /dev/null",
    ),
    (r"^(flightctl follow.*)$", "$1 | head -n 3"),
];

/// What does not succeed here: the exit status, and what the command must say.
const ELSEWHERE: [(&str, i32, &str); 9] = [
    ("flightd", 2, "already"),
    ("flightctl dump --boot -1 --last 5s", 2, "there are recordings of 1 boots only"),
    ("flightctl dump --last 5s --event tcp_retransmit", 1, "no event matches the filters"),
    ("flightctl dump --last 5s --trace 4bf92f3577b34da6a3ce929d0e0e4736", 1, "no event matches"),
    ("flightctl doctor", 1, "kdump"),
    ("flightctl report calls --since -20d --until -19d", 1, "the recording began only at"),
    ("flightctl dump --since -5s --until -1s --tid PID --event exec", 1, "no event matches"),
    ("flightctl dump --last 5s --syscall fsync,fdatasync --slower-than 10ms", 1, "no event"),
    (
        "flightctl report irq --by interrupt,comm --last 5s --top 3",
        1,
        "nothing in the window matches",
    ),
];

/// No command asks about longer ago.
const WINDOW: Duration = Duration::from_secs(9);
/// The recorder's: a command that reads all rings is as fast as they are small, and one process's
/// flood is not all that there is to read.
const CONFIG: &str = "\
[rings]
syscall = \"2MiB\"
sched = \"1MiB\"
task = \"256KiB\"
kernel = \"512KiB\"
quiet = \"512KiB\"
[budget]
per_cpu = \"5%\"
[snapshots]
before = \"5s\"
after = \"1s\"
";
/// Pages that are worked through at the same time. Some commands only wait.
const WORKERS: usize = 3;

/// A machine as the documentation has it.
struct Machine {
    work: PathBuf,
    /// What a node's runtime writes down, and its control groups.
    _node: TempDir,
    groups: ControlGroup,
    shop: Option<Child>,
    mounted: Vec<&'static str>,
    made: Vec<&'static str>,
    orders: String,
    recorder: Recorder,
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).expect("a program");
    fs::set_permissions(path, Permissions::from_mode(0o755)).expect("its mode");
}

impl Machine {
    fn new() -> Self {
        let node = node("/web-1");
        let recorder =
            start(&format!("{CONFIG}[containers]\nroot = \"{}\"\n", node.path().display()));
        let work = recorder.sandbox().root().join("work");
        fs::create_dir_all(work.join("bin")).expect("directories");
        let mut machine = Self {
            work,
            _node: node,
            groups: ControlGroup::unified().expect("a control group"),
            shop: None,
            mounted: Vec::new(),
            made: Vec::new(),
            orders: String::new(),
            recorder,
        };
        machine.places();
        machine.programs();
        machine.open_shop();
        machine
    }

    /// The recorder's directories at their usual places.
    fn places(&mut self) {
        let none: Option<&str> = None;
        for place in ["/run", "/var/lib", "/srv", "/etc/flightrec"] {
            if !Path::new(place).exists() {
                fs::create_dir(place).expect(place);
                self.made.push(place);
            }
            mount(Some("none"), place, Some("tmpfs"), MsFlags::empty(), none).expect(place);
            self.mounted.push(place);
        }
        let sandbox = self.recorder.sandbox();
        symlink(sandbox.runtime_dir(), "/run/flightrec").expect("a link");
        symlink(sandbox.bpffs_dir(), sandbox.runtime_dir().join("bpf")).expect("a link");
        symlink(sandbox.state_dir(), "/var/lib/flightrec").expect("a link");
        fs::create_dir_all("/var/lib/prometheus/node-exporter").expect("a directory");
        let lake = self.work.join("lake");
        fs::create_dir(&lake).expect("a directory");
        let config = format!("[ship]\nto = \"{}\"\n", lake.display());
        fs::write("/etc/flightrec/flight-ship.toml", config).expect("a configuration");
    }

    /// Programs that stand in for others.
    fn programs(&self) {
        let bin = self.work.join("bin");
        executable(&bin.join("flamegraph.pl"), "#!/bin/sh\nexec cat\n");
        let after = "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift\n";
        executable(&bin.join("kubectl"), &format!("{after}exec \"$@\"\n"));
        executable(&bin.join("ssh"), &format!("{after}shift\nexec sh -c \"$*\"\n"));
        executable(&bin.join("sudo"), "#!/bin/sh\nexec env \"$@\"\n");
    }

    fn open_shop(&mut self) {
        // In memory: on a disk, what the commands write would keep the shop's fsync for seconds.
        let dir = Path::new("/srv/shop");
        fs::create_dir(dir).expect("a directory");
        let containers = [
            format!("docker-{DOCKER}.scope"),
            format!("{POD}/cri-containerd-{SHOP}.scope"),
            "nginx.service".to_owned(),
        ];
        // Before all others: what the commands look for goes on, also on a busy machine.
        let mut command = Command::new("nice");
        command
            .args(["-n", "-20", "python3"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/shop.py"))
            .args([dir, self.groups.dir()])
            .env("MEMBERS_OF", containers.join(","))
            .env("FUNCTIONS", c_program("functions", &["-O1"]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut shop = die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("python3");
        let output = shop.stdout.take().expect("its output");
        self.shop = Some(shop);
        BufReader::new(output).read_line(&mut self.orders).expect("orders");
        self.orders = self.orders.trim().to_owned();
    }

    /// Runs a line in a directory, which is its own.
    fn run(&self, dir: &Path, line: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.work.join("bin");
        let mut command = Command::new("/bin/bash");
        command
            .args(["-o", "pipefail", "-c", line])
            .current_dir(dir)
            .env("PATH", format!("{}:{}:{path}", bin.display(), bin_dir().display()))
            .env("FLIGHTCTL_SSH", bin.join("ssh"))
            .stdin(Stdio::null());
        die_with_parent(&mut command, Signal::SIGKILL).output().expect("bash")
    }

    /// Runs a line of a page as it is run here; what is wrong with its answer.
    fn check(&self, given: &Path, page: &Path, line: &str) -> Option<String> {
        let dir = tempfile::Builder::new().prefix("line-").tempdir_in(&self.work);
        let dir = dir.expect("a directory");
        for entry in fs::read_dir(given).expect("files") {
            let path = entry.expect("a file").path();
            // What a command makes itself must not be there.
            let name = path.file_name().expect("a name").to_owned();
            if !line.contains(&format!("-o {}", name.display())) {
                symlink(&path, dir.path().join(name)).expect("a link");
            }
        }
        let begun = Instant::now();
        let output = self.run(dir.path(), &line.replace("PID", &self.orders));
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let code = output.status.code();
        eprintln!("{:.1} s: {line}", begun.elapsed().as_secs_f64());
        let expected = ELSEWHERE.iter().find(|(of, ..)| line == *of);
        let is_right = code == Some(0)
            || expected.is_some_and(|(_, of, text)| code == Some(*of) && said.contains(text));
        let first = said.lines().take(5).collect::<Vec<_>>().join("\n    ");
        (!is_right).then(|| format!("{}: {line}\n    {code:?} {first}\n", page.display()))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut shop) = self.shop.take() {
            drop(shop.stdin.take());
            let _ = shop.wait();
        }
        for place in self.mounted.iter().rev() {
            let _ = umount2(*place, MntFlags::MNT_DETACH);
        }
        for place in &self.made {
            let _ = fs::remove_dir(place);
        }
    }
}

/// The lines of shell that run one of our programs, as they are run here, each once.
fn documented() -> Vec<(PathBuf, String)> {
    let rules = RECENT.map(|(of, here)| (Regex::new(of).expect("a pattern"), here));
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for page in pages() {
        for Line { text, named } in lines(&fs::read_to_string(&page).expect("a page")) {
            let is_whole = !text.contains('…') && !text.contains("...");
            if named || !is_whole || !commands(&text).iter().any(|words| ours(words).is_some()) {
                continue;
            }
            let command = text.split(" #").next().unwrap_or_default().trim();
            let mut line = command.to_owned();
            for (pattern, here) in &rules {
                line = pattern.replace_all(&line, *here).into_owned();
            }
            if seen.insert(line.clone()) {
                found.push((page.clone(), line));
            }
        }
    }
    found
}

#[test]
#[ignore = "long: 140 commands over all of a machine"]
fn every_command_of_the_documentation_runs() {
    let machine = Machine::new();
    let given = machine.work.join("given");
    fs::create_dir(&given).expect("a directory");
    symlink(c_program("functions", &["-O1"]), given.join("functions")).expect("a link");
    fs::write(given.join("hosts.txt"), "web1\nweb2\n").expect("hosts");
    // All that a command looks for must have happened in it.
    thread::sleep(WINDOW);
    fs::write(given.join("vmcore"), kernel_dump(&machine.recorder)).expect("a dump");
    let prepared = "flightctl save --last 5s -o incident.flight; cp incident.flight a.flight; \
                    flightctl recover vmcore -o panic.flight; \
                    flightctl snapshot --reason 'for the documentation' --last 5s; \
                    flight-ship --once";
    let output = machine.run(&given, prepared);
    assert!(output.status.success(), "{output:?}");

    let documented = documented();
    for (of, ..) in ELSEWHERE {
        assert!(documented.iter().any(|(_, line)| line == of), "no page has {of}");
    }
    let pages = Mutex::new(documented.chunk_by(|(one, _), (other, _)| one == other));
    let work = || {
        let mut wrong = String::new();
        // Not in the loop's head, where the lock would be held through its body.
        while let Some(lines) = { pages.lock().expect("pages").next() } {
            wrong.extend(lines.iter().filter_map(|(page, line)| machine.check(&given, page, line)));
        }
        wrong
    };
    let wrong: String = thread::scope(|scope| {
        let workers = [(); WORKERS].map(|()| scope.spawn(work));
        workers.map(|worker| worker.join().expect("a worker")).concat()
    });
    let number = documented.len();
    println!("{number} commands");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(number > 120, "only {number} commands are found");
}
