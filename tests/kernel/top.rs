//! `flightctl top` on a terminal: tmux has one for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use flightrec_tests::{PATIENCE, Recorder, die_with_parent, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::start;

/// A terminal of 80 columns with a shell in it.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(recorder: &Recorder) -> Self {
        let terminal = Self { socket: recorder.sandbox().root().join("tmux") };
        // No configuration, and a shell that reads none either.
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            "env PS1='ready> ' sh",
        ]);
        assert!(terminal.shows("ready>"), "no shell");
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output =
            Command::new("tmux").arg("-S").arg(&self.socket).args(args).env_remove("TMUX").output();
        let output = output.expect("tmux (`cargo xtask setup` installs it)");
        assert!(output.status.success(), "tmux {args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen is as wanted.
    fn becomes(&self, wanted: impl Fn(&str) -> bool) -> bool {
        wait_until(PATIENCE, || wanted(&self.screen()))
    }

    fn shows(&self, text: &str) -> bool {
        self.becomes(|screen| screen.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Its shell, and what runs in it, end with it.
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}

/// A program under a name of its own that does nothing but system calls.
struct Hog(Child);

impl Hog {
    fn start(dir: &Path, name: &str) -> Self {
        let program = dir.join(name);
        let dd =
            ["/usr/bin/dd", "/bin/dd"].into_iter().find(|dd| Path::new(dd).exists()).expect("dd");
        fs::copy(dd, &program).expect("a copy of dd");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("its mode");
        let mut command = Command::new(program);
        command
            .args(["if=/dev/zero", "of=/dev/null", "bs=1"])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        Self(die_with_parent(&mut command, Signal::SIGKILL).spawn().expect("the hog"))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The shell line that starts `top`, and writes its process id and its exit status.
fn command(recorder: &Recorder) -> String {
    let flightctl = recorder.flightctl_command();
    let words: Vec<_> =
        std::iter::once(flightctl.get_program()).chain(flightctl.get_args()).collect();
    let words: Vec<_> = words.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let pid = recorder.sandbox().root().join("top.pid");
    format!(
        "sh -c 'echo $$ > {}; exec \"$@\"' top {} top; echo status $?",
        pid.display(),
        words.join(" ")
    )
}

/// The first thread of the table.
fn first(screen: &str) -> &str {
    let mut lines = screen.lines().skip_while(|line| !line.trim_start().starts_with("tid "));
    lines.nth(1).unwrap_or_default()
}

#[test]
fn the_hog_is_at_the_top_and_the_screen_is_restored() {
    let recorder = start("");
    let hog = Hog::start(recorder.sandbox().root(), "the-hog");
    let tid = hog.0.id().to_string();
    let terminal = Terminal::open(&recorder);
    terminal.keys(&["echo be''fore", "Enter"]);
    assert!(terminal.shows("\nbefore"));
    terminal.keys(&[&command(&recorder), "Enter"]);
    assert!(terminal.becomes(|screen| first(screen).contains("the-hog")), "{}", terminal.screen());
    let screen = terminal.screen();
    assert!(
        !screen.contains("before") && screen.contains("CALLS/S") && screen.contains("q quit"),
        "{screen}"
    );
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");

    for (key, head) in [
        ("r", "RUN %"),
        ("Right", "DELAY %"),
        ("e", "ERRORS/S"),
        ("b", "BLOCK %"),
        ("s", "CALLS/S"),
    ] {
        terminal.keys(&[key]);
        assert!(terminal.shows(head), "{key}: {}", terminal.screen());
    }
    terminal.keys(&["/", &tid, "Enter"]);
    let alone = |screen: &str| {
        screen.contains(&format!("filter: {tid}")) && first(screen).contains("the-hog")
    };
    assert!(terminal.becomes(alone), "{}", terminal.screen());
    terminal.keys(&["Enter"]);
    let why = |screen: &str| {
        screen.contains(&format!("thread {tid} the-hog"))
            && screen.contains(&format!("`the-hog` ({tid}) "))
            && screen.contains(" running ")
    };
    assert!(terminal.becomes(why), "{}", terminal.screen());
    terminal.keys(&["e"]);
    let events = |screen: &str| screen.contains(&format!("Last events of thread {tid} the-hog"));
    assert!(
        terminal.becomes(|screen| events(screen) && screen.contains("write")),
        "{}",
        terminal.screen()
    );
    terminal.keys(&["Escape"]);
    assert!(terminal.becomes(alone), "{}", terminal.screen());

    terminal.keys(&["q"]);
    assert!(terminal.shows("status 0"), "{}", terminal.screen());
    let screen = terminal.screen();
    assert!(screen.contains("before") && !screen.contains("q quit"), "{screen}");
}

#[test]
fn a_signal_restores_the_screen() {
    let recorder = start("");
    let terminal = Terminal::open(&recorder);
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        terminal.keys(&["clear; echo be''fore", "Enter"]);
        assert!(terminal.shows("before"));
        terminal.keys(&[&command(&recorder), "Enter"]);
        assert!(terminal.shows("q quit"), "{}", terminal.screen());
        let pid =
            fs::read_to_string(recorder.sandbox().root().join("top.pid")).expect("a process id");
        kill(Pid::from_raw(pid.trim().parse().expect("a number")), signal).expect("a signal");
        assert!(terminal.shows("status 0"), "{signal}: {}", terminal.screen());
        let screen = terminal.screen();
        assert!(screen.contains("before") && !screen.contains("q quit"), "{screen}");
        // What is typed is seen again.
        terminal.keys(&["echo aft''er", "Enter"]);
        assert!(terminal.shows("\nafter"), "{}", terminal.screen());
    }
}

/// A window that is closed, or a connection that breaks, must not leave a process that spins.
#[test]
fn it_ends_with_its_terminal() {
    let recorder = start("");
    let terminal = Terminal::open(&recorder);
    terminal.keys(&[&command(&recorder), "Enter"]);
    assert!(terminal.shows("q quit"), "{}", terminal.screen());
    let pid = fs::read_to_string(recorder.sandbox().root().join("top.pid")).expect("a process id");
    let process = Path::new("/proc").join(pid.trim());
    assert!(process.exists());
    drop(terminal);
    assert!(wait_until(PATIENCE, || !process.exists()), "top goes on");
    // By itself, not by a panic about a message that nobody can read.
    let end = ["dump", "--last", "1h", "--pid", pid.trim(), "--event", "exit", "--format", "jsonl"];
    let ends = recorder.flightctl(&end).stdout;
    let ends = String::from_utf8_lossy(&ends);
    assert!(ends.contains("\"event\":\"exit\"") && !ends.contains("SIGABRT"), "{ends}");
}

#[test]
fn without_a_terminal() {
    let recorder = start("");
    let output = recorder.flightctl(&["top"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("needs a terminal") && said.contains("--once"), "{said}");

    let hog = Hog::start(recorder.sandbox().root(), "the-hog");
    let tid = hog.0.id().to_string();
    let output = recorder.flightctl(&[
        "top",
        "--once",
        "--filter",
        &tid,
        "--sort",
        "run",
        "--interval",
        "500ms",
    ]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(
        lines.len() == 2 && lines[0].contains("RUN %") && lines[1].contains("the-hog"),
        "{text}"
    );
    let output = recorder.flightctl(&[
        "top",
        "--once",
        "--filter",
        "nobody has this name",
        "--interval",
        "200ms",
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_short_life_is_blocked_no_longer_than_it_lasted() {
    let recorder = start("");
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
    let clock = Instant::now();
    // Half a second asleep, and then over.
    let mut short = Command::new("sleep").arg("0.5").spawn().expect("sleep");
    let tid = short.id();
    assert!(short.wait().expect("an end").success());
    let life = clock.elapsed();
    // Long after its end the time is still that of its life.
    std::thread::sleep(Duration::from_millis(1500));
    let length = clock.elapsed();
    let [since, upto] = [begun, begun + length].map(|at| at.as_nanos().to_string());
    let window = ["--since", &since, "--until", &upto];
    let output =
        recorder.flightctl(&[&["top", "--sort", "blocked", "-n", "100000"], &window[..]].concat());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{tid} ")));
    let line = line.unwrap_or_else(|| panic!("no {tid} in\n{text}"));
    let fields: Vec<&str> = line.split_whitespace().collect();
    let blocked: f64 = fields.last().expect("a figure").parse().expect("a number");
    let percent = |time: Duration| 100.0 * time.as_secs_f64() / length.as_secs_f64();
    // Shown with one digit after the point.
    let (least, most) = (percent(Duration::from_millis(500)), percent(life));
    let is_its_life = (least - 0.1..most + 0.1).contains(&blocked);
    assert!(fields[3] == "X" && is_its_life, "{least:.1} to {most:.1}: {line}");
}
