//! What the descriptors in the threads' calls stood for, at the end of the recording.

use flightrec_format::abi::page::Lane;
use flightrec_format::ring::LaneStream;

use crate::fds::Fds;
use crate::pipeline::merge::Merge;
use crate::pipeline::threads_before;
use crate::ps::Blocked;
use crate::source::Recording;

/// Gives these threads' calls the names of their descriptors, as far as they are known.
pub(crate) fn name<'a>(recording: &Recording, wanted: impl Iterator<Item = &'a mut Blocked>) {
    let mut threads = threads_before(recording);
    let mut fds = Fds::of(recording, true);
    let of_lanes = recording.streams.iter().filter(|stream| stream.lane() != Lane::Sched);
    for event in Merge::new(of_lanes.map(LaneStream::events)) {
        fds.advance(event.time.saturating_sub(1));
        fds.apply(&event, &threads);
        threads.apply(&event);
    }
    // What the snapshots tell of the time behind the last event.
    fds.advance(u64::MAX);
    for thread in wanted {
        let Some(call) = &thread.call else { continue };
        let names = fds.names(thread.slot.tid, thread.slot.tgid);
        let args = call.args.iter().take(usize::from(call.nargs)).map(|arg| *arg as i32);
        thread.names = args.filter_map(|fd| Some((fd, names.get(fd)?.into()))).collect();
    }
}
