//! Processes that were killed: by a signal that dumps core, or because memory ran out.

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

/// The signal that killed a process and dumps core, and whether it did; told by its first thread
/// alone, as all have the same code.
pub fn core_signal(exit: &TaskExit) -> Option<(&'static str, bool)> {
    let (_, name) = CORE.iter().find(|(number, _)| *number == exit.code & 0x7f)?;
    (exit.tid == exit.tgid).then_some((name, exit.code & DUMPED != 0))
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

    fn exit(tid: u32, code: u32) -> TaskExit {
        TaskExit { tid, tgid: 7, code, reserved: 0, start_time: 0, comm: [0; 16] }
    }

    #[test]
    fn signals_that_dump_core_once_a_process() {
        assert_eq!(core_signal(&exit(7, 0x8b)), Some(("SIGSEGV", true)));
        assert_eq!(core_signal(&exit(7, 6)), Some(("SIGABRT", false)));
        for code in [0, 9, 15, 2, 0x0b00, 0x100] {
            assert_eq!(core_signal(&exit(7, code)), None, "{code:#x}");
        }
        assert_eq!(core_signal(&exit(8, 0x8b)), None, "another thread of it");
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
