//! Waits that others make by more than a wakeup: for the lock of an address space, and in the
//! freezer of a control group.

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::Comm;

use super::answer::time;
use super::chain::{Chain, like};
use super::names::Names;
use super::pieces::Doing;
use super::track::Track;
use super::wait::Wait;
use crate::CallId;
use crate::syscalls::CallKind;

impl<N: Names> Chain<'_, N> {
    /// A wait that the freezer of a control group made, in words: who ended it did so by a write
    /// there, or its stack is that of the freezer (`do_freezer_trap`, kernel/signal.c;
    /// `__refrigerator`, kernel/freezer.c).
    pub(super) fn frozen(&self, by: u32, wait: &Wait<'_>, ns: u64) -> Option<String> {
        let is_freezer = |name: &String| {
            ["do_freezer_trap", "__refrigerator", "get_signal_freeze"].contains(&name.as_str())
        };
        let written = || {
            let call = self.story.tracks.get(by)?.call_at(wait.span.until)?;
            self.story.tracks.told(call.told)?.object.as_deref()
        };
        let is_file =
            |path: &str| path.ends_with("/cgroup.freeze") || path.ends_with("/freezer.state");
        (wait.functions.iter().any(is_freezer) || written().is_some_and(is_file))
            .then(|| format!("was frozen for {} by the freezer of its control group", time(ns)))
    }

    /// The lock of an address space: who of the same process had it meanwhile.
    pub(super) fn address_space(&mut self, tid: u32, waits: &[Wait<'_>]) {
        let story = self.story;
        let pid = story.tracks.get(tid).map_or(0, |track| track.pid);
        let mut held: FxHashMap<(Comm, CallId), (u64, FxHashMap<u32, u64>)> = FxHashMap::default();
        let from = waits.iter().map(|wait| wait.span.from).min().unwrap_or(0);
        let until = waits.iter().map(|wait| wait.span.until).max().unwrap_or(0);
        let changes = |track: &Track| {
            let calls = track.calls.iter().chain(&track.open);
            let mut calls = calls.filter(|call| call.from < until && call.until > from);
            calls.any(|call| story.kinds.kind(call.call) == CallKind::Memory)
        };
        let others = story.tracks.all.iter();
        let others = others.filter(|(of, track)| **of != tid && track.pid == pid && changes(track));
        for (of, track) in others {
            for wait in waits {
                for piece in story.pieces(*of, wait.span.from, wait.span.until) {
                    let Doing::Call(call) = piece.doing else { continue };
                    if story.kinds.kind(call) != CallKind::Memory {
                        continue;
                    }
                    let (sum, threads) = held.entry((track.comm, call)).or_default();
                    *sum = sum.saturating_add(piece.ns);
                    let own = threads.entry(*of).or_default();
                    *own = own.saturating_add(piece.ns);
                }
            }
        }
        let best = held.into_iter().max_by_key(|((comm, call), (ns, _))| (*ns, *comm, *call));
        let Some(((_, call), (ns, threads))) = best else {
            return self
                .doubt("no memory call of another thread of the process was recorded".to_owned());
        };
        let Some(most) = threads.iter().max_by_key(|(tid, ns)| (**ns, **tid)).map(|(tid, _)| *tid)
        else {
            return;
        };
        let (from, until) = waits.first().map_or((0, 0), |wait| (wait.span.from, wait.span.until));
        let mut link = self.link(most, from, until);
        (link.state, link.ns, link.count) = ("running", ns, threads.len() as u64);
        let name = story.kinds.name(call);
        let like = like(threads.len());
        let all = if threads.len() > 1 { " in all" } else { "" };
        link.did = format!("was in {name} for {}{all}{like}", time(ns));
        link.call = Some(name.clone());
        self.links.push(link);
        let object = Some("mmap_lock".to_owned());
        self.blame(Some(most), "lock of the address space", Some(name), object, ns);
    }
}
