//! Processes that were killed: by a signal that dumps core, or because memory ran out.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use flightrec_format::abi::record::TaskExit;

/// Signals that dump core (signal(7)), whether the process's limits then let it or not, with their
/// names.
const CORE: [(u32, &str); 10] = [
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (11, "SIGSEGV"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];
/// Of an exit code: a core was dumped.
const DUMPED: u32 = 0x80;

/// Most processes that were killed a moment ago and are remembered: their other threads end as well.
const KILLED_MOST: usize = 1 << 12;

/// A process that a signal killed which dumps core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crash {
    /// The process.
    pub tgid: u32,
    /// The thread that told it: the one that dumped core, if any did.
    pub tid: u32,
    /// When that ended, ns of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// The signal's name.
    pub signal: &'static str,
    /// Whether core was dumped.
    pub dumped: bool,
}

/// Finds processes that a signal killed which dumps core, by the ends of their threads: those that
/// still lived have the signal as their code (`do_group_exit`, kernel/exit.c, Linux 6.1). The first
/// thread need not be one of them: it may have ended long before.
#[derive(Debug, Default)]
pub struct Crashes {
    /// Since it was looked.
    new: Vec<Crash>,
    /// Those of the last two looks.
    told: HashSet<u32>,
    told_before: HashSet<u32>,
}

impl Crashes {
    /// A thread ended.
    pub fn ended(&mut self, exit: &TaskExit, time: u64) {
        let Some((_, signal)) = CORE.iter().find(|(number, _)| *number == exit.code & 0x7f) else {
            return;
        };
        let TaskExit { tid, tgid, code, .. } = *exit;
        let dumped = code & DUMPED != 0;
        if let Some(crash) = self.new.iter_mut().find(|crash| crash.tgid == tgid) {
            if dumped && !crash.dumped {
                (crash.tid, crash.time, crash.dumped) = (tid, time, true);
            }
        } else if self.new.len() < KILLED_MOST
            && !self.told.contains(&tgid)
            && !self.told_before.contains(&tgid)
        {
            self.new.push(Crash { tgid, tid, time, signal, dumped });
        }
    }

    /// Those of which it was not told before.
    pub fn take(&mut self) -> Vec<Crash> {
        let told = self.new.iter().map(|crash| crash.tgid).collect();
        self.told_before = std::mem::replace(&mut self.told, told);
        std::mem::take(&mut self.new)
    }
}

/// Counts processes that were killed because memory ran out (`oom_kill` of /proc/vmstat, which
/// counts those of control groups too).
#[derive(Debug, Default)]
pub struct OomKills {
    before: Option<u64>,
}

impl OomKills {
    /// How many since it was looked last.
    pub fn look(&mut self, proc: &Path) -> u64 {
        let Ok(text) = fs::read_to_string(proc.join("vmstat")) else { return 0 };
        let count = text
            .lines()
            .find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse::<u64>().ok());
        let Some(count) = count else { return 0 };
        count.saturating_sub(self.before.replace(count).unwrap_or(count))
    }
}

/// Who was killed, where a line of the kernel says that somebody was because memory ran out:
/// process and name (`__oom_kill_process`, mm/oom_kill.c, Linux 6.1).
pub fn oom_victim(line: &str) -> Option<(u32, &str)> {
    let (before, rest) = line.split_once("Killed process ")?;
    if !before.contains("ut of memory") {
        return None;
    }
    let (pid, rest) = rest.split_once(" (")?;
    Some((pid.parse().ok()?, rest.split_once(')')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crash(crashes: &mut Crashes, exits: &[(u32, u32)]) -> Vec<(u32, &'static str, bool)> {
        for (tid, code) in exits {
            let exit =
                TaskExit { tid: *tid, tgid: 7, code: *code, left: 0, start_time: 0, comm: [0; 16] };
            crashes.ended(&exit, u64::from(*tid));
        }
        crashes.take().iter().map(|crash| (crash.tid, crash.signal, crash.dumped)).collect()
    }

    #[test]
    fn signals_that_dump_core_once_a_process() {
        let all = |exits: &[(u32, u32)]| crash(&mut Crashes::default(), exits);
        assert_eq!(all(&[(7, 0x8b)]), [(7, "SIGSEGV", true)]);
        assert_eq!(all(&[(7, 6)]), [(7, "SIGABRT", false)]);
        for code in [0, 9, 15, 2, 0x0b00, 0x100] {
            assert_eq!(all(&[(7, code)]), [], "{code:#x}");
        }
        // Its threads in any order; the first one has ended before, by itself.
        assert_eq!(all(&[(8, 11), (7, 11), (9, 0x8b)]), [(9, "SIGSEGV", true)]);
        assert_eq!(all(&[(7, 0), (8, 0x8b)]), [(8, "SIGSEGV", true)]);
        let mut crashes = Crashes::default();
        assert_eq!(crash(&mut crashes, &[(8, 0x8b)]).len(), 1);
        assert_eq!(crash(&mut crashes, &[(7, 0x8b)]), [], "another thread, at the next look");
        assert_eq!(crash(&mut crashes, &[]), []);
        assert_eq!(crash(&mut crashes, &[(7, 0x8b)]).len(), 1, "a process of the same number");
    }

    #[test]
    fn kills_are_counted_from_the_first_look_on() {
        let dir = tempfile::tempdir().unwrap();
        let mut kills = OomKills::default();
        let mut look = |text: &str| {
            fs::write(dir.path().join("vmstat"), text).unwrap();
            kills.look(dir.path())
        };
        assert_eq!(look("pgfault 5\noom_kill 17\n"), 0);
        assert_eq!(look("pgfault 5\noom_kill 19\n"), 2);
        assert_eq!(look("pgfault 5\n"), 0);
        assert_eq!(look("oom_kill x\n"), 0);
        assert_eq!(look("oom_kill 20\n"), 1);
        assert_eq!(OomKills::default().look(Path::new("/nonexistent")), 0);
    }

    #[test]
    fn victims_by_the_kernels_words() {
        let line =
            "Memory cgroup out of memory: Killed process 4711 (my (db)) total-vm:5kB, anon-rss:1kB";
        assert_eq!(oom_victim(line), Some((4711, "my (db")));
        assert_eq!(oom_victim("Out of memory: Killed process 5 (a) total"), Some((5, "a")));
        assert_eq!(oom_victim("Killed process 5 (a) by hand"), None);
        assert_eq!(oom_victim("Out of memory: Killed process x (a)"), None);
    }
}
