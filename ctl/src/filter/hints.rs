//! What to try when a filter matches nothing.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use flightrec_format::abi::page::Lane;
use flightrec_format::decode::Body;
use flightrec_format::ring::LaneStream;
use flightrec_reader::fds::Naming;
use flightrec_reader::kind::Kind;
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::trim;

use super::FilterPlan;
use super::names::{Names, is_pattern};
use crate::suggest::{hint, nearest};
use crate::text::escape;

/// Most names that are looked at.
const NAMES_MAX: usize = 1 << 16;

/// Who is known of a time.
#[derive(Debug, Default)]
pub struct Seen {
    /// Names; any bytes.
    names: BTreeSet<Box<[u8]>>,
    /// The process of each thread.
    threads: FxHashMap<u32, u32>,
}

impl Seen {
    /// Takes in all of whom a recording knows.
    pub fn add(&mut self, recording: &PageSet) {
        for (tid, tgid, name) in recording.threads().known() {
            self.thread(tid, tgid, name);
        }
        let task = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
        for event in task.flat_map(LaneStream::events) {
            match &event.body {
                Body::Fork(fork) => self.thread(fork.tid, fork.tgid, trim(&fork.comm)),
                Body::Rename(rename) => self.thread(rename.tid, rename.tgid, trim(&rename.new)),
                Body::Exec { exec, .. } => self.thread(exec.tid, exec.tgid, trim(&exec.comm)),
                Body::TaskExit(exit) => self.thread(exit.tid, exit.tgid, trim(&exit.comm)),
                _ => {}
            }
        }
    }

    fn thread(&mut self, tid: u32, tgid: u32, name: &[u8]) {
        if self.threads.len() < NAMES_MAX {
            self.threads.insert(tid, tgid);
        }
        if !name.is_empty() && self.names.len() < NAMES_MAX && !self.names.contains(name) {
            self.names.insert(name.into());
        }
    }

    fn has_process(&self, pid: u32) -> bool {
        self.threads.values().any(|tgid| *tgid == pid)
    }
}

impl FilterPlan {
    /// What to try, a line each, if it matched nothing of a time of which `seen` is known.
    /// `naming`: which descriptors were named; `is_all`: there is no time beside.
    pub fn hints(&self, seen: &Seen, naming: Naming, is_all: bool) -> Vec<String> {
        if *self == Self::all() {
            return Vec::new();
        }
        let mut hints: Vec<String> =
            self.comms.iter().filter_map(|name| of_name(name, seen)).collect();
        for pid in self.pids.iter().chain(&self.trees).filter(|pid| !seen.has_process(**pid)) {
            hints.push(match seen.threads.get(pid) {
                Some(process) => format!(
                    "{pid} is a thread of process {process}: --tid {pid}, or --pid {process}"
                ),
                None => format!("no process {pid} is known for that time"),
            });
        }
        let unknown = |tid: &&u32| **tid != 0 && !seen.threads.contains_key(tid);
        hints.extend(
            self.tids
                .iter()
                .filter(unknown)
                .map(|tid| format!("no thread {tid} is known for that time")),
        );
        let of_ends = self.errors || !self.errnos.is_empty() || self.is_timed();
        if of_ends && !self.kinds.has(Kind::SysExit) {
            hints.push(
                "the result of a call is in its sys_exit event: add sys_exit to --event".to_owned(),
            );
        }
        for path in self.paths.iter().filter(|path| path.contains('/') && !is_pattern(path)) {
            let path = path.trim_end_matches('/');
            hints.push(format!(
                "--path {path} matches only that path; --path '{path}/**' matches everything \
                 below it"
            ));
            if let Some(name) = path.rsplit('/').next().filter(|name| !name.is_empty()) {
                hints.push(format!(
                    "--path {name} matches that name in any directory, also where a program opens \
                     it relative to its working directory"
                ));
            }
        }
        if !self.paths.is_empty() && naming != Naming::All {
            hints.push(
                "--fds all also names descriptors that were opened before the window".to_owned(),
            );
        }
        if !self.traces.is_empty() {
            hints.push(
                "which trace a thread works for only marks tell that are in the window, or in the \
                 2 s before it: flightctl dump --event mark, and docs/otlp.md"
                    .to_owned(),
            );
        }
        if !is_all {
            hints.push("a wider window may have some: --last 1m, --since T, --all".to_owned());
        }
        hints
    }
}

/// Nobody had this name, or one like this pattern.
fn of_name(typed: &str, seen: &Seen) -> Option<String> {
    let names = Names::new(&[typed.to_owned()]).ok()?;
    if seen.names.iter().any(|name| names.has(name)) {
        return None;
    }
    // Whoever named a thread may have meant a terminal.
    let printable = |name: &[u8]| {
        let mut text = Vec::new();
        escape(name, &mut text);
        String::from_utf8(text).ok()
    };
    let known: Vec<String> = seen.names.iter().filter_map(|name| printable(name)).collect();
    let which = if is_pattern(typed) { "like" } else { "named" };
    Some(format!(
        "no thread was {which} `{typed}`{}",
        hint(&nearest(typed, known.iter().map(String::as_str)))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::FilterSpec;

    fn seen() -> Seen {
        let mut seen = Seen::default();
        for (tid, tgid, name) in [(7, 7, "nginx"), (8, 7, "worker"), (9, 9, "sl\u{1b}eep")] {
            seen.thread(tid, tgid, name.as_bytes());
        }
        seen
    }

    fn hints(args: FilterSpec, naming: Naming, is_all: bool) -> Vec<String> {
        FilterPlan::new(args).unwrap().hints(&seen(), naming, is_all)
    }

    fn strings(of: &[&str]) -> Vec<String> {
        of.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_and_numbers_that_nobody_had() {
        let of = |args| hints(args, Naming::All, true);
        let comm =
            |names: &[&str]| of(FilterSpec { comm: strings(names), ..FilterSpec::default() });
        assert_eq!(comm(&["ngnix"]), ["no thread was named `ngnix`; did you mean nginx?"]);
        assert_eq!(
            comm(&["nginx", "qqq", "x*"]),
            ["no thread was named `qqq`", "no thread was like `x*`"]
        );
        assert!(comm(&["sleep"])[0].contains("did you mean sl\\33eep?"));
        assert_eq!(comm(&["n*"]), [""; 0]);
        let pid = |pid: u32| of(FilterSpec { pid: vec![pid], ..FilterSpec::default() });
        assert_eq!(pid(8), ["8 is a thread of process 7: --tid 8, or --pid 7"]);
        assert_eq!(
            (pid(4711), pid(7)),
            (strings(&["no process 4711 is known for that time"]), vec![])
        );
        let tid = |tid: u32| of(FilterSpec { tid: vec![tid], ..FilterSpec::default() });
        assert_eq!((tid(1).len(), tid(0).len(), tid(9).len()), (1, 0, 0));
    }

    #[test]
    fn what_else_may_be() {
        let path = || FilterSpec { path: strings(&["/etc/"]), ..FilterSpec::default() };
        let said = hints(path(), Naming::Near, false);
        assert!(
            said[0].contains("'/etc/**'")
                && said[1].contains("--path etc matches that name in any directory")
                && said[2].contains("--fds all")
                && said[3].contains("--all"),
            "{said:?}"
        );
        assert_eq!(hints(path(), Naming::All, true).len(), 2);
        let ends =
            FilterSpec { errors: true, event: strings(&["sys_enter"]), ..FilterSpec::default() };
        assert!(hints(ends, Naming::Near, true)[0].contains("sys_exit"));
        assert_eq!(
            hints(FilterSpec::default(), Naming::Near, false),
            [""; 0],
            "nothing is filtered"
        );
    }
}
