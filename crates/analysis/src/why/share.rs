//! Answers: the shares of a window, and the chain to the cause.

use flightrec_format::abi::record::Comm;

use super::answer::{Answer, Share, Who, time};
use super::chain::Chain;
use super::names::Names;
use super::pieces::Doing;
use super::sentence::sentence;
use super::story::{Story, trimmed};

/// An unknown part of so many per cent is worth a doubt.
const DOUBTFUL: f64 = 1.0;

impl Story {
    /// Why a thread was slow in the window.
    pub fn answer(&self, tid: u32, names: &impl Names) -> Answer {
        self.answer_within(tid, self.from, self.until, names)
    }

    /// The same for a part of the window.
    pub fn answer_within(&self, tid: u32, from: u64, until: u64, names: &impl Names) -> Answer {
        let shares = self.shares(tid, from, until, names);
        let mut chain = Chain::new(self, names);
        chain.follow(tid, from, until);
        let death = chain.death(tid, from, until).unwrap_or_default();
        let Chain { links, culprits, mut doubts, mut is_complete, is_unnamed, .. } = chain;
        let of = |state: &str| -> f64 {
            shares.iter().filter(|share| share.state == state).map(|share| share.percent).sum()
        };
        let unknown = of("unknown");
        if unknown >= DOUBTFUL {
            is_complete = false;
            doubts.push(format!("{unknown:.0} % of its time is not recorded"));
        }
        if self.tracks.is_short {
            is_complete = false;
            doubts.push(
                "the window has more calls in words or stacks than `why` keeps in memory: \
                 arguments and functions that came later were left out"
                    .to_owned(),
            );
        }
        if self.tracks.is_cut {
            is_complete = false;
            doubts.push(
                "the window has more events than an answer is made of: those after were left \
                 out; ask about a shorter one"
                    .to_owned(),
            );
        }
        doubts.extend(
            links.iter().filter_map(|link| {
                Some(format!("{}: {}", link.who.label(), link.doubt.as_deref()?))
            }),
        );
        let who = self.who(tid, names);
        let said = links.first().map_or(0.0, |link| match link.state {
            // That it ended is known, whatever it did before.
            "absent" => 100.0,
            _ => link.ns as f64 * 100.0 / until.saturating_sub(from).max(1) as f64,
        });
        let sentence = if !links.is_empty() && unknown > said {
            // What is known is not what took the time.
            format!(
                "{unknown:.0} % of the time of {} is not recorded; in the rest, {}{death}",
                who.label(),
                sentence(&links)
            )
        } else if links.is_empty() {
            format!(
                "what {} did in these {} is not recorded",
                who.label(),
                time(until.saturating_sub(from))
            )
        } else {
            sentence(&links) + &death
        };
        let culprits = if unknown > said { Vec::new() } else { culprits };
        Answer {
            sentence,
            subject: Some(who),
            from,
            until,
            shares,
            chain: links,
            culprits,
            doubts,
            complete: is_complete,
            lacks_past: is_unnamed || unknown >= DOUBTFUL,
        }
    }

    /// What a thread did in a stretch of the window; the parts add up to all of it.
    pub fn shares(&self, tid: u32, from: u64, until: u64, names: &impl Names) -> Vec<Share> {
        let whole = until.saturating_sub(from).max(1) as f64;
        let is_user = self.tracks.get(tid).is_none_or(|track| track.is_user);
        let share = |piece: super::pieces::Piece<'_>| Share {
            state: piece.doing.state(),
            what: self.what(&piece.doing, is_user, &piece, names),
            ns: piece.ns,
            percent: piece.ns as f64 * 100.0 / whole,
            count: piece.count,
        };
        self.pieces(tid, from, until).into_iter().map(share).collect()
    }

    /// What a piece is, in words.
    fn what(
        &self,
        doing: &Doing<'_>,
        is_user: bool,
        piece: &super::pieces::Piece<'_>,
        names: &impl Names,
    ) -> String {
        match *doing {
            Doing::User if is_user => "ran in user code".to_owned(),
            Doing::User => "ran in the kernel".to_owned(),
            Doing::Call(call) => format!("ran in {}", self.kinds.name(call)),
            Doing::Interrupted => "interrupts had its CPU".to_owned(),
            Doing::Runnable => {
                let first = piece.waits.first();
                let most = first
                    .and_then(|wait| Some(self.ran_on(wait.cpu, wait.from, wait.until).first()?.0));
                match most {
                    Some(tid) => {
                        format!("waited for a CPU, {} ran there", self.who(tid, names).label())
                    }
                    None => "waited for a CPU".to_owned(),
                }
            }
            Doing::Throttled => "throttled by the CPU quota of its control group".to_owned(),
            Doing::Held => "runnable, but its CPU was idle".to_owned(),
            Doing::Blocked(Some(call), Some(object)) => {
                format!("waited in {}({object})", self.kinds.name(call))
            }
            Doing::Blocked(Some(call), None) => format!("waited in {}", self.kinds.name(call)),
            Doing::Blocked(None, _) if is_user => "waited in the kernel, in no call".to_owned(),
            Doing::Blocked(None, _) => "waited in the kernel".to_owned(),
            Doing::Stopped => "stopped by a signal".to_owned(),
            Doing::Traced => "stopped by its debugger".to_owned(),
            Doing::Unknown => "not recorded".to_owned(),
            Doing::Absent => "did not exist".to_owned(),
        }
    }

    /// A thread, as far as it is known.
    pub(super) fn who(&self, tid: u32, names: &impl Names) -> Who {
        let Some(track) = self.tracks.get(tid) else {
            return Who { tid, ..Who::default() };
        };
        let group = (track.cgroup != 0).then(|| names.group(track.cgroup)).flatten();
        let comm: &Comm = &track.comm;
        Who { tid, pid: track.pid, comm: names.text(trimmed(comm)), group }
    }
}

impl<N: Names> Chain<'_, N> {
    /// Says where events are missing that might tell otherwise. Whether so many of switches and
    /// wakeups are that the chain must end there: a tenth of the time, or its end.
    pub(super) fn look_for_gaps(&mut self, tid: u32, from: u64, until: u64) -> bool {
        let touches = |row: &&super::facts::GapRow| row.from < until && row.until > from;
        let rows = self.story.facts.gaps.iter().filter(touches);
        let (mut sched, mut calls) = (false, false);
        let (mut missing, mut is_blind) = (0_u64, false);
        for row in rows {
            sched |= row.is_sched;
            calls |= !row.is_sched;
            if row.is_sched {
                let ns = row.until.min(until).saturating_sub(row.from.max(from));
                missing = missing.saturating_add(ns);
                is_blind |= row.until >= until;
            }
        }
        if !sched && !calls {
            return false;
        }
        is_blind |= missing.saturating_mul(10) > until.saturating_sub(from);
        self.is_complete = false;
        let what = match (sched, calls) {
            (true, true) => "switches, wakeups and calls",
            (true, false) => "switches and wakeups",
            _ => "system calls",
        };
        let who = self.label(tid);
        let doubt = format!("{what} are missing in the time of {who} that the answer looks at");
        self.doubt(doubt);
        is_blind
    }
}
