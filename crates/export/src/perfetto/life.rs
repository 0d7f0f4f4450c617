//! Births, names and ends of threads.

use flightrec_format::decode::{Body, Event, Text};
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;

use super::field::event as ftrace;
use super::proto::{bytes, number};
use super::tracks::{tell_process, tell_thread};
use super::{Perfetto, TIME_MAX};
use crate::exporter::Words;
use crate::printable::printable;

impl Perfetto {
    /// Births, names and ends of threads: for the tree of processes.
    pub(super) fn life(&mut self, event: &Event, known: &EventContext<'_>, words: &mut dyn Words) {
        let time = event.time.min(TIME_MAX);
        let at = (time, event.tid);
        match &event.body {
            Body::Fork(fork) => {
                const CLONE_THREAD: u64 = 0x10000;
                self.tracks.born(fork.tid, fork.parent_tgid, &fork.comm, time);
                self.sched.other(event.cpu, at, ftrace::NEWTASK, |out| {
                    number(1, u64::from(fork.tid), out);
                    bytes(2, printable(trim(&fork.comm)).as_bytes(), out);
                    let is_thread = fork.tid != fork.tgid;
                    number(3, if is_thread { CLONE_THREAD } else { 0 }, out);
                });
            }
            Body::Exec { exec, file, args } => {
                let file = file.as_ref().map(Text::marked).unwrap_or_default();
                let file = printable(&file);
                self.sched.other(event.cpu, at, ftrace::EXEC, |out| {
                    bytes(1, file.as_bytes(), out);
                    number(2, u64::from(exec.tid), out);
                    number(3, u64::from(exec.old_tid), out);
                });
                let args = args.as_ref().map(|args| args.argument_words(exec.args_len as usize));
                let args: Vec<String> = args
                    .iter()
                    .flatten()
                    .filter(|argument| !argument.is_empty())
                    .map(|argument| printable(argument).into_owned())
                    .collect();
                if let (false, Some(parent)) = (args.is_empty(), self.tracks.parent(exec.tgid)) {
                    let words = args.iter().map(String::as_str);
                    tell_process(time, (exec.tgid, parent), words, &mut self.packets);
                }
            }
            Body::Rename(rename) => {
                self.sched.other(event.cpu, at, ftrace::RENAME, |out| {
                    number(1, u64::from(rename.tid), out);
                    bytes(2, printable(trim(&rename.old)).as_bytes(), out);
                    bytes(3, printable(trim(&rename.new)).as_bytes(), out);
                });
                let who = (rename.tid, rename.tgid);
                tell_thread(time, who, &rename.new, &mut self.packets);
            }
            Body::TaskExit(exit) => {
                self.sched.other(event.cpu, at, ftrace::EXIT, |out| {
                    bytes(1, printable(trim(&exit.comm)).as_bytes(), out);
                    number(2, u64::from(exit.tid), out);
                    number(3, u64::from(exit.tgid), out);
                });
            }
            _ => {}
        }
        self.instant(event, known, words, (event.body.kind().name(), ""), None);
    }
}
