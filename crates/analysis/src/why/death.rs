//! The end of a thread by a signal, and who sent it.

use super::chain::Chain;
use super::names::Names;

/// How long before it ends a thread its signal may have been sent, ns.
const SENT_NS: u64 = 1_000_000_000;

impl<N: Names> Chain<'_, N> {
    /// What is to be said after the chain of a thread that a signal killed in a stretch of time.
    /// Where the chain has nothing but that it ran for a little, its death is the whole of it.
    pub(super) fn death(&mut self, tid: u32, from: u64, until: u64) -> Option<String> {
        let story = self.story;
        let (time, signal) = *story.facts.deaths.get(&tid)?;
        if !(from..=until).contains(&time) {
            return None;
        }
        let pid = story.tracks.get(tid).map_or(0, |track| track.pid);
        let is_its =
            |target_tid: u32, target_pid: u32| target_tid == tid || target_pid == pid && pid != 0;
        let first =
            story.facts.signals.partition_point(|row| row.time < time.saturating_sub(SENT_NS));
        let rows = story.facts.signals.get(first..).unwrap_or_default().iter();
        let sent = rows
            .take_while(|row| row.time <= time)
            .filter(|row| row.signal == signal && is_its(row.target_tid, row.target_pid));
        let sent = sent.last();
        let is_victim = story.facts.victims.iter().any(|(tid, pid)| is_its(*tid, *pid));
        let name = self.names.signal(signal);
        let by = sent.filter(|row| row.is_by_thread()).map(|row| row.by);
        let is_own = by.is_some_and(|by| story.tracks.get(by).is_some_and(|of| of.pid == pid));
        let killed = format!("was killed by {name}");
        let (mechanism, said) = match by {
            _ if is_victim => {
                ("out of memory", format!("{killed} of the kernel, as memory was used up"))
            }
            Some(_) if is_own => ("killed by a signal", format!("{killed}, which it sent itself")),
            Some(by) => ("killed by a signal", format!("{killed}, sent by {}", self.label(by))),
            None if sent.is_some() => {
                ("killed by a signal", format!("{killed}, which the kernel sent"))
            }
            None => {
                self.is_complete = false;
                let who = self.label(tid);
                self.doubt(format!("{who}: who sent {name} is not recorded"));
                ("killed by a signal", killed)
            }
        };
        let is_all = self.links.first().is_none_or(|link| {
            link.state == "running" && link.ns.saturating_mul(2) < until.saturating_sub(from)
        });
        let who = by.or(is_victim.then_some(tid));
        if is_all {
            let mut link = self.link(tid, time, time);
            link.state = "absent";
            link.did.clone_from(&said);
            if let Some(first) = self.links.first() {
                link.evidence.push(format!("before that, it {}", first.did));
            }
            self.links = vec![link];
            self.culprits.clear();
        }
        if by.is_some() || is_victim || sent.is_some() {
            self.blame(who, mechanism, None, Some(name), 0);
        }
        (!is_all).then(|| format!("; it {said}"))
    }
}
