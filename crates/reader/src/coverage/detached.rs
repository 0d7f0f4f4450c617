//! For how long system calls were detached for the budget's sake, beyond what the recorder's own
//! lines say: a line may be lost, but the headers of all pages say for how long in all.

use flightrec_format::abi::page::DETACHED_SHIFT;
use flightrec_format::decode::Page;
use flightrec_format::ring::LaneStream;

use crate::source::{PageSet, detached as lines};
use crate::window::Window;

/// The lines are not written at the very moment: for each, ns.
const NEAR: u64 = 50_000_000;
/// What the headers say beyond the lines counts from here on, ns: programs are never detached for
/// less than 500 ms.
const LEAST: u64 = 250_000_000;

/// Whether they were detached in a window, or near it, for a time that no line tells.
pub(crate) fn has_untold(recording: &PageSet, window: Window) -> bool {
    let mut headers = recording.streams.iter().flat_map(LaneStream::pages).map(Page::header);
    let first = headers.next().map(|header| header.detached);
    // Mostly they never are: then nothing is decoded for it.
    headers.any(|header| Some(header.detached) != first)
        && untold(recording, &lines(recording), window) != 0
}

/// For how long, ns, they were detached within a window, or near it, beyond what the lines say
/// (`lines`, of the whole recording).
pub(super) fn untold(recording: &PageSet, lines: &[(u64, u64)], window: Window) -> u64 {
    let headers = recording.streams.iter().flat_map(LaneStream::pages).map(Page::header);
    let mut told: Vec<(u64, u32)> =
        headers.map(|header| (header.base_mono, header.detached)).collect();
    told.sort_unstable();
    // The last page opened before the window, and the first one after it; else what there is.
    let first = told.partition_point(|(time, _)| *time <= window.from).saturating_sub(1);
    let last =
        told.partition_point(|(time, _)| *time < window.until).min(told.len().saturating_sub(1));
    let (Some((from, before)), Some((until, after))) = (told.get(first), told.get(last)) else {
        return 0;
    };
    let all = u64::from(after.wrapping_sub(*before)) << DETACHED_SHIFT;
    let within = |(begin, end): &(u64, u64)| (*end).min(*until).saturating_sub((*begin).max(*from));
    let known = lines.iter().map(within).fold(0, u64::saturating_add);
    let near = lines.iter().filter(|line| within(line) != 0).count() as u64 * NEAR;
    Some(all.saturating_sub(known.saturating_add(near))).filter(|ns| *ns >= LEAST).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::testing::detached_recording as recording;

    const S: u64 = 1_000_000_000;

    #[test]
    fn what_the_lines_lost_is_in_the_headers() {
        let recording = recording(&[(10, 3), (12, 3), (20, 9), (30, 9)]);
        let seconds = |lines: &[(u64, u64)], from, until| {
            untold(&recording, lines, Window { from: from * S, until: until * S }) / (S / 10)
        };
        let told = [(13 * S, 19 * S)];
        // All is told; nothing is; half of it is.
        assert_eq!([seconds(&told, 11, 25), seconds(&[], 11, 25)], [0, 59]);
        assert_eq!(seconds(&[(13 * S, 16 * S)], 11, 25), 29);
        // It may lie anywhere between two pages, and nowhere else.
        assert_eq!(
            [
                seconds(&[], 13, 14),
                seconds(&[], 19, 22),
                seconds(&[], 20, 25),
                seconds(&[], 10, 12)
            ],
            [59, 59, 0, 0]
        );
    }
}
