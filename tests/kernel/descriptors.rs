//! What descriptors stand for that were open before the recorder began: from the kernel's own
//! account of them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use flightrec_tests::{PATIENCE, Recorder, bin_dir, c_program, wait_until};
use jiff::Timestamp;
use regex::Regex;
use tempfile::TempDir;

use crate::lacking::status;
use crate::support::{Line, dump, lines, snapshot, start};

/// A program that holds descriptors of every kind.
struct Holder {
    child: Child,
    answers: BufReader<ChildStdout>,
    /// By name: the number, and the inode's.
    held: HashMap<String, (i32, u64)>,
    dir: TempDir,
}

impl Holder {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("directory");
        let mut command = Command::new(c_program("descriptors", &[]));
        let mut child = command
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the holder starts");
        let mut answers = BufReader::new(child.stdout.take().expect("piped"));
        let mut held = HashMap::new();
        loop {
            let mut line = String::new();
            assert_ne!(answers.read_line(&mut line).expect("a line"), 0, "the holder ended");
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [name, fd, inode] => held
                    .insert(name.into(), (fd.parse().expect("fd"), inode.parse().expect("inode"))),
                _ => break,
            };
        }
        Self { child, answers, held, dir }
    }

    /// Has it do something, until it is done.
    fn tell(&mut self, what: &str) {
        writeln!(self.child.stdin.as_mut().expect("piped"), "{what}").expect("told");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer");
        assert_eq!(line, "done\n");
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn inode(&self, name: &str) -> u64 {
        self.held[name].1
    }

    /// What each of its descriptors is to be called.
    fn names(&self) -> HashMap<&str, String> {
        let ino = |name| self.inode(name);
        let (listener, client) = (ino("port_listener"), ino("port_client"));
        let pipe = format!("pipe:[{}]", ino("pipe_r"));
        let file = self.dir.path().canonicalize().expect("path").join("held").display().to_string();
        HashMap::from([
            ("file", file.clone()),
            ("dup", file),
            ("closed", "/etc/passwd".into()),
            ("swapped", "/etc/hostname".into()),
            ("pipe_r", pipe.clone()),
            ("pipe_w", pipe),
            ("listener", format!("TCP:[127.0.0.1:{listener}]")),
            ("client", format!("TCP:[127.0.0.1:{client}->127.0.0.1:{listener}]")),
            ("accepted", format!("TCP:[127.0.0.1:{listener}->127.0.0.1:{client}]")),
            ("pair_a", format!("UNIX-STREAM:[{}->{}]", ino("pair_a"), ino("pair_b"))),
            ("pair_b", format!("UNIX-STREAM:[{}->{}]", ino("pair_b"), ino("pair_a"))),
            ("bound", format!("UNIX-DGRAM:[{},\"fds.sock\"]", ino("bound"))),
            ("eventfd", "anon_inode:[eventfd]".into()),
        ])
    }

    /// Holds the entries of fcntl(F_GETFL), by which it uses its descriptors, against what they
    /// must be.
    fn assert_named(&self, recorder: &Recorder, lines: &[Line]) {
        for (what, name) in self.names() {
            let want = format!("fcntl({}<{name}>, F_GETFL) -->", self.held[what].0);
            assert!(
                lines.iter().any(|line| line.text == want),
                "{what}: no {want:?} in {lines:#?}; {:#}",
                status(recorder)
            );
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends at the end of its input; if it does not, it is ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The descriptors that the holder used, as the dump shows them.
fn uses(recorder: &Recorder, holder: &Holder) -> Vec<Line> {
    dump(recorder, &["--all", "--pid", &holder.pid(), "--syscall", "fcntl", "--event", "sys_enter"])
}

#[test]
fn what_was_open_before_the_recorder_is_named() {
    let mut holder = Holder::start();
    let recorder = start("");
    holder.tell("u");
    holder.assert_named(&recorder, &uses(&recorder, &holder));
    // A path filter knows them as well.
    let path = holder.names()["file"].clone();
    let of_path = dump(
        &recorder,
        &["--all", "--pid", &holder.pid(), "--path", &path, "--event", "sys_enter"],
    );
    let of_path: Vec<&str> = of_path.iter().map(|line| line.text.as_str()).collect();
    let want =
        ["file", "dup"].map(|name| format!("fcntl({}<{path}>, F_GETFL) -->", holder.held[name].0));
    assert_eq!(of_path, want);
}

#[test]
fn what_changed_in_the_window_is_not_misnamed_before_or_after() {
    let mut holder = Holder::start();
    let recorder = start("");
    holder.tell("u");
    holder.tell("s");
    let (fd, _) = holder.held["swapped"];
    let (mut of_swapped, mut seen) = (Vec::new(), 0);
    // Who asks again at once is given the look at the daemon's start, which can't know the pipe.
    wait_until(PATIENCE, || {
        let texts: Vec<String> =
            uses(&recorder, &holder).into_iter().map(|line| line.text).collect();
        seen = texts.len();
        of_swapped =
            texts.into_iter().filter(|text| text.starts_with(&format!("fcntl({fd}"))).collect();
        of_swapped.last().is_some_and(|text| text.contains('<'))
    });
    let [before, after] = &of_swapped[..] else { panic!("{of_swapped:#?}") };
    // Before it was closed it can be known from the look at the daemon's start only.
    assert_eq!(*before, format!("fcntl({fd}</etc/hostname>, F_GETFL) -->"));
    assert!(after.starts_with(&format!("fcntl({fd}<pipe:[")), "{after}");
    assert!(!after.contains(&holder.inode("pipe_r").to_string()), "another pipe: {after}");

    // An exec closes what it must, and the rest is known after it.
    holder.tell("x");
    let (closed, kept) = (holder.held["closed"].0, holder.held["file"].0);
    let after = uses(&recorder, &holder).split_off(seen);
    let text = |fd: i32| {
        after.iter().map(|line| &line.text).find(|text| text.starts_with(&format!("fcntl({fd}")))
    };
    assert_eq!(text(closed), Some(&format!("fcntl({closed}, F_GETFL) -->")), "{after:#?}");
    assert_eq!(
        text(kept),
        Some(&format!("fcntl({kept}<{}>, F_GETFL) -->", holder.names()["file"]))
    );
}

#[test]
fn the_pinned_rings_have_them_without_a_daemon() {
    let mut holder = Holder::start();
    let mut recorder = start("");
    recorder.kill();
    holder.tell("u");
    let mut command = Command::new(bin_dir().join("flightctl"));
    command.arg("--bpffs-dir").arg(recorder.sandbox().bpffs_dir());
    command.args([
        "dump",
        "--all",
        "--pid",
        &holder.pid(),
        "--syscall",
        "fcntl",
        "--event",
        "sys_enter",
    ]);
    let output = command.output().expect("flightctl");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    holder.assert_named(&recorder, &lines(&output));
    // The next daemon goes on with them.
    recorder.restart();
    let before = snapshot(&recorder).meta.session;
    holder.assert_named(&recorder, &uses(&recorder, &holder));
    assert_eq!(snapshot(&recorder).meta.session, before);
}

#[test]
fn status_tells_of_the_last_look() {
    let _holder = Holder::start();
    let recorder = start("");
    dump(&recorder, &["--last", "1s"]);
    let output = recorder.flightctl(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let last = &status["descriptors"];
    assert!(
        last["processes"].as_u64() > Some(1) && last["descriptors"].as_u64() > Some(13),
        "{last}"
    );
    assert_eq!(last["left_out"].as_u64(), Some(0), "{last}");
    assert!(last["cost_seconds"].as_f64() > Some(0.0), "{last}");
}

/// Whether a name is right for what `/proc` said: the same, or a socket by the name that we give
/// it. A file that was opened by a path that begins in the working directory may be called so.
fn is_true(name: &str, link: &str) -> bool {
    let link = link.strip_suffix(" (deleted)").unwrap_or(link);
    let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
    let relative = || !name.starts_with('/') && link.ends_with(&format!("/{name}"));
    match inode {
        Some(inode) => {
            name == "socket:AF_UNIX,SOCK_STREAM"
                || name.starts_with("UNIX-") && name.contains(&format!("[{inode}"))
        }
        None => name == link || link.starts_with('/') && relative(),
    }
}

/// What a link is, for the count of names that are not known.
fn class(link: &str) -> &str {
    match link.split_once(['/', ':']) {
        Some(("", rest)) if rest.contains("/#") => "a file without a name",
        Some(("", _)) => "a file",
        Some((kind, _)) => kind,
        None => link,
    }
}

/// Threads and processes share, copy and leave tables of descriptors at random
/// (`tests/programs/tables.c`), and `/proc` is asked before each call what its number stands for.
#[test]
fn names_are_true_or_absent() {
    const CHECKS: usize = 25_000;
    const SEEDS: usize = 4;
    let recorder = start("[rings]\nsyscall = \"64MiB\"");
    let program = c_program("tables", &[]);
    let mut truths: Vec<Vec<String>> = Vec::new();
    let mut named: HashMap<(usize, usize), String> = HashMap::new();
    let call = Regex::new(r"^lseek\((\d+)(?:<(.*)>)?, (\d+), 0x4d\) -->$").expect("a pattern");
    for seed in 1..=SEEDS {
        let dir = recorder.sandbox().root().join(format!("tables-{seed}"));
        fs::create_dir(&dir).expect("a directory");
        let since = Timestamp::now().to_string();
        let mut child = Command::new(&program);
        child.args([dir.as_os_str(), CHECKS.to_string().as_ref(), seed.to_string().as_ref()]);
        let output = child.stdin(Stdio::null()).output().expect("the program");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        truths.push(text.lines().map(str::to_owned).collect());
        let asked = ["--since", &since, "--syscall", "lseek", "--event", "sys_enter"];
        for line in dump(&recorder, &asked) {
            let Some(of) = call.captures(&line.text) else { continue };
            let number: usize = of[3].parse().expect("a number");
            let name = of.get(2).map_or("", |name| name.as_str());
            assert_eq!(named.insert((seed - 1, number), format!("{} {name}", &of[1])), None);
        }
    }
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (seed, truths) in truths.iter().enumerate() {
        assert_eq!(truths.len(), CHECKS);
        for (number, truth) in truths.iter().enumerate() {
            let mut words = truth.splitn(4, ' ').skip(2);
            let (fd, link) = (words.next().expect("fd"), words.next().expect("a link"));
            let line = named.get(&(seed, number)).unwrap_or_else(|| panic!("no line of {truth:?}"));
            let (at, name) = line.split_once(' ').expect("two words");
            assert_eq!(at, fd, "{truth:?}");
            let verdict = match (name, link) {
                ("", "-") => "not open",
                ("", _) => "absent",
                (_, "-") => "wrong",
                (name, link) if is_true(name, link) => "true",
                _ => "wrong",
            };
            *counts.entry((verdict, class(link))).or_default() += 1;
            if verdict == "wrong" {
                wrong.push(format!("seed {}: {truth}: {name}", seed + 1));
            }
        }
    }
    eprintln!("{counts:#?}");
    wrong.truncate(40);
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Of these the calls tell the names; who passes or takes a descriptor (5 of 100 steps) does not
    // tell which. How many of the others there are, whose names only a look at /proc has, depends
    // on how the threads take turns.
    for class in ["a file", "anon_inode"] {
        let [named, absent] = ["true", "absent"].map(|verdict| counts.get(&(verdict, class)));
        assert!(named > absent.map(|n| 9 * n).as_ref(), "{class}: {counts:?}");
    }
}
