//! Windows of more events than a story holds are told in parts.
//!
//! Each part is asked as if it were all there is; of the answers, the one with the worst trouble is
//! given. What threads are in the middle of goes over from one part to the next.

use super::answer::Answer;
use super::facts::Facts;
use super::story::Story;
use super::track::{Track, Tracks};

impl Story {
    /// Whether there is no room for many more events: [`Self::part`] makes some.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.tracks.is_full()
    }

    /// Whether it has nothing of the window: what it holds was before.
    pub fn is_before(&self) -> bool {
        self.from >= self.until
    }

    /// The window ends there, as far as there is anything.
    pub fn end_at(&mut self, until: u64) {
        self.narrow(self.from, until);
        self.end = self.end.min(until);
    }

    /// Whether a moment is in its part of the window, or next to it.
    pub fn has(&self, moment: u64) -> bool {
        (self.from..=self.until).contains(&moment)
    }

    /// Takes out what was before `time`, the time of the next event, as a story of its own. `open`
    /// is as of [`Self::finish`].
    #[must_use]
    pub fn part(&mut self, time: u64, open: impl FnMut(u32, u64) -> Option<super::Told>) -> Self {
        let mut next = Self {
            from: self.from.max(time).min(self.until),
            since: self.since.max(time),
            tracks: Tracks::new(self.tracks.room()),
            facts: Facts::default(),
            kinds: self.kinds.clone(),
            failures: self.failures.clone(),
            cpus: super::story::Runs::default(),
            threads: self.threads.clone(),
            restarts: self.restarts.clone(),
            ..*self
        };
        next.go_on_from(self, time);
        let mut part = std::mem::replace(self, next);
        part.until = part.until.min(time);
        part.finish(open);
        part
    }

    /// Takes over what is still so at `time`.
    fn go_on_from(&mut self, before: &Self, time: u64) {
        for (tid, track) in &before.tracks.all {
            if self.threads.account(*tid).is_none() {
                continue;
            }
            let Track { pid, comm, cgroup, is_user, open, .. } = *track;
            let open = open.map(|call| super::track::CallSpan { told: None, ..call });
            let goes_on = Track { pid, comm, cgroup, open, is_user, ..Track::default() };
            self.tracks.all.insert(*tid, goes_on);
        }
        let Facts { gaps, listeners, parents, programs, open_flags, groups, .. } = &before.facts;
        self.facts.gaps = gaps.iter().filter(|gap| gap.until > time).copied().collect();
        self.facts.listeners.clone_from(listeners);
        self.facts.parents.clone_from(parents);
        self.facts.open_flags.clone_from(open_flags);
        self.facts.groups.clone_from(groups);
        for (pid, told) in programs {
            if self.threads.account(*pid).is_some()
                && let Some(told) = before.tracks.told(Some(*told)).cloned()
                && let Some(at) = self.tracks.keep(told, true)
            {
                self.facts.programs.insert(*pid, at);
            }
        }
    }
}

impl Answer {
    /// Says that it is about one of several parts of the window: the worst, or the one that
    /// `holds_moment` that was asked about.
    pub fn say_part(&mut self, parts: u64, holds_moment: bool) {
        if parts < 2 {
            return;
        }
        let which = if holds_moment {
            "the one that holds the moment in question"
        } else {
            "the worst one"
        };
        self.doubts.push(format!(
            "the window has more events than an answer is made of: of the {parts} parts in which \
             it was looked at, this is about {which}; ask about a shorter window for others"
        ));
    }
}
