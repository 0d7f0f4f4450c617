//! The cause of a snapshot, as a question.

use flightrec_analysis::why::{Answer, Story, Subject};
use flightrec_reader::source::snapshots::{directory, find_any};
use flightrec_reader::source::{HistoryPlace, HistoryPlan};
use flightrec_store::snapshot::About;
use flightrec_store::snapshots;

use super::words::Dictionary;

/// How much before a cause that is no wait is asked about, ns: the time over which the recorder
/// counts failures and measures pressure, and a little more.
const BEFORE_NS: u64 = 15_000_000_000;
/// Causes of snapshots that nobody but a user has.
const ASKED: [&str; 2] = ["request", "save"];

/// Why a snapshot was taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    kind: Kind,
    /// When it happened, ns of `CLOCK_MONOTONIC`.
    time: u64,
    /// Threads that it names.
    threads: Vec<u32>,
}

/// What is asked about the threads of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The call that ended, or went on, at that time.
    Call,
    /// The wait for a CPU that ended at that time.
    RunQueue,
    /// What they did before.
    Before,
}

impl Cause {
    /// The cause of the snapshot that is read. `None`: it is no snapshot, or a user asked for it.
    /// Where the file can't be read, reading the events says why.
    pub(super) fn of(history: &HistoryPlan) -> Option<Self> {
        let path = match &history.place {
            HistoryPlace::Snapshot { runtime_dir, state_dir, id, own_window: true } => {
                let dir = || directory(runtime_dir, state_dir.as_deref());
                find_any(dir, id).ok()?.0.path
            }
            HistoryPlace::OwnWindows(files) => match &files[..] {
                [file] => file.clone(),
                _ => return None,
            },
            _ => return None,
        };
        Self::new(snapshots::about(&path).ok()??)
    }

    fn new(about: About) -> Option<Self> {
        let kind = match &*about.cause {
            "slow_call" | "blocked" => Kind::Call,
            "run_queue" => Kind::RunQueue,
            cause if ASKED.contains(&cause) => return None,
            _ => Kind::Before,
        };
        Some(Self { kind, time: about.time, threads: about.threads })
    }

    /// When it happened, ns of `CLOCK_MONOTONIC`.
    pub(super) fn time(&self) -> u64 {
        self.time
    }

    /// Answers it. The answer, and how much trouble it tells of, ns.
    pub(super) fn ask(&self, story: &mut Story, names: &Dictionary) -> (Answer, u64) {
        // At the time itself what ended there is over.
        let at = self.time.saturating_sub(1);
        let waits = self.threads.iter().filter_map(|tid| {
            let (from, until) = match self.kind {
                Kind::Call => story.call_at(*tid, at).or_else(|| story.state_at(*tid, at))?,
                Kind::RunQueue => story.state_at(*tid, at)?,
                Kind::Before => return None,
            };
            Some((*tid, from, until))
        });
        if let Some((tid, from, until)) = waits.max_by_key(|(_, from, until)| until - from) {
            return (story.answer_within(tid, from, until, names), until - from);
        }
        story.narrow(self.time.saturating_sub(BEFORE_NS), self.time);
        let named = Subject { tids: self.threads.clone(), ..Subject::default() };
        let named = (!self.threads.is_empty()).then(|| story.worst_of(&named, names)).flatten();
        // Another thread than those that it names is no answer to its cause.
        let any = || self.threads.is_empty().then(|| story.worst_of(&Subject::default(), names));
        let worst = named.or_else(|| any().flatten());
        match worst {
            Some((tid, trouble)) => (story.answer(tid, names), trouble),
            None => (story.nothing(), 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_users_asked_for_has_no_cause() {
        let about = |cause: &str| About {
            cause: cause.into(),
            time: 9,
            threads: vec![5],
            ..About::default()
        };
        let kind = |cause| Cause::new(about(cause)).map(|cause| cause.kind);
        assert_eq!((kind("request"), kind("save")), (None, None));
        assert_eq!(kind("blocked"), Some(Kind::Call));
        assert_eq!(kind("run_queue"), Some(Kind::RunQueue));
        let pressure = Cause { kind: Kind::Before, time: 9, threads: vec![5] };
        assert_eq!(Cause::new(about("pressure")), Some(pressure));
        // A file of a release that has more triggers.
        assert_eq!(kind("new"), Some(Kind::Before));
    }
}
