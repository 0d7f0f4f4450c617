//! Births, names and ends of threads and processes.

use flightrec_format::decode::{Body, Event};
use flightrec_reader::pipeline::EventContext;

use super::people::{Process, Thread};
use super::{Parquet, Table, closed};
use crate::exporter::ExportError;
use crate::printable::printable;

impl Parquet {
    /// Births, names and ends of threads.
    pub(super) fn life(
        &mut self,
        event: &Event,
        known: &EventContext<'_>,
    ) -> Result<(), ExportError> {
        let Self { people, writer, id, places, offset, .. } = self;
        let writer = writer.as_mut().ok_or_else(closed)?;
        match &event.body {
            Body::Fork(fork) => {
                // Who had the number before.
                if let Some(before) = people.remove_thread(fork.tid) {
                    before.write(fork.tid, places, *offset, id, writer.rows(Table::Threads));
                }
                let thread = Thread {
                    pid: fork.tgid,
                    comm: fork.comm,
                    cgroup: fork.cgroup,
                    started: fork.start_time,
                    ..Thread::default()
                };
                people.threads.insert(fork.tid, thread);
                if fork.tid == fork.tgid {
                    if let Some(before) = people.processes.remove(&fork.tid) {
                        before.write(fork.tid, places, *offset, id, writer.rows(Table::Processes));
                    }
                    let process = Process {
                        parent: fork.parent_tgid,
                        comm: fork.comm,
                        cgroup: fork.cgroup,
                        started: fork.start_time,
                        ..Process::default()
                    };
                    people.processes.insert(fork.tid, process);
                }
            }
            Body::Exec { exec, file, args } => {
                if let Some(thread) = people.threads.get_mut(&exec.tid) {
                    thread.cgroup = exec.cgroup;
                }
                let process = people.processes.entry(exec.tgid).or_default();
                process.comm = exec.comm;
                process.cgroup = exec.cgroup;
                process.file = file.as_ref().map(|file| printable(&file.marked()).into());
                process.args = args.as_ref().map(|args| {
                    let words = args.argument_words(exec.args_len as usize);
                    let words = words.iter().filter(|word| !word.is_empty());
                    words.map(|word| printable(word)).collect::<Vec<_>>().join(" ").into()
                });
            }
            Body::Rename(of) => {
                if let Some(thread) = people.threads.get_mut(&of.tid) {
                    thread.comm = of.new;
                }
                if of.tid == of.tgid {
                    people.processes.entry(of.tgid).or_default().comm = of.new;
                }
            }
            Body::TaskExit(of) => {
                let thread = people.threads.entry(of.tid).or_default();
                thread.ended = Some((known.wall_ns, of.code));
                thread.started = of.start_time;
                if of.tid == of.tgid {
                    let process = people.processes.entry(of.tgid).or_default();
                    process.ended = Some((known.wall_ns, of.code));
                    process.started = of.start_time;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
