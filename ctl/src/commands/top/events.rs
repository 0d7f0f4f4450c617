//! A thread's last events, as `dump --tid` has them.

use std::collections::VecDeque;
use std::io::{self, Write};

use jiff::tz::TimeZone;

use flightrec_format::live::clock::monotonic;
use flightrec_reader::source::PageSet;
use flightrec_reader::window::Window;

use crate::filter::FilterPlan;
use crate::follow::follower::Follower;
use crate::print;
use crate::text::{Options, Renderer};

/// How far back is looked, ns: a busy thread has its last events within a moment, others need all
/// that is still there.
const BACK_NS: [u64; 4] = [100_000_000, 1_000_000_000, 10_000_000_000, u64::MAX];
/// With so many lines, it need not be looked further back.
const ENOUGH: usize = 200;
/// Most lines that are kept.
const LINES: usize = 1000;

/// The thread's last events as lines, oldest first. Reads the recording anew.
pub fn last(follower: &mut Follower, tid: u32, zone: &TimeZone) -> anyhow::Result<Vec<String>> {
    let mut lines = Vec::new();
    for back in BACK_NS {
        let now = monotonic();
        let window = Window { from: now.saturating_sub(back), until: now };
        // Nothing before: what is at hand at once is worth more here than the durations of the
        // first calls.
        let (recording, wall_offset) = follower.read(window)?;
        lines = of_thread(&recording, wall_offset, window, tid, zone)?;
        if lines.len() >= ENOUGH {
            break;
        }
    }
    Ok(lines)
}

fn of_thread(
    recording: &PageSet,
    wall_offset: i64,
    window: Window,
    tid: u32,
    zone: &TimeZone,
) -> anyhow::Result<Vec<String>> {
    let filter = FilterPlan::thread(tid).resolve(&recording.meta)?;
    let renderer =
        Renderer::new(&recording.meta, Options { time_zone: zone.clone(), ..Options::default() });
    let mut last = LastLines::default();
    let wall = recording.wall_clock(wall_offset);
    print::run(recording, window, &filter, wall, renderer, &mut last)?;
    Ok(last.finish())
}

/// Keeps the last [`LINES`] lines of what is written to it.
#[derive(Debug, Default)]
struct LastLines {
    lines: VecDeque<String>,
    /// A line that has no end yet.
    rest: Vec<u8>,
}

impl LastLines {
    fn finish(self) -> Vec<String> {
        self.lines.into()
    }
}

impl Write for LastLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.rest.extend_from_slice(part);
            if self.rest.pop_if(|b| *b == b'\n').is_some() {
                if self.lines.len() == LINES {
                    self.lines.pop_front();
                }
                self.lines.push_back(String::from_utf8_lossy(&self.rest).into_owned());
                self.rest.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept() {
        let mut last = LastLines::default();
        for i in 0..LINES + 5 {
            write!(last, "line ").unwrap();
            writeln!(last, "{i}").unwrap();
        }
        write!(last, "no end").unwrap();
        let lines = last.finish();
        assert_eq!((lines.len(), &*lines[0], &*lines[LINES - 1]), (LINES, "line 5", "line 1004"));
    }
}
