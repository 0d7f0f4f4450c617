//! When system calls were detached for the budget's sake: no counter knows what happened then.
//!
//! Two witnesses: the recorder's own lines say from when to when, but a line may be lost; headers
//! of all pages say for how long in all.

use flightrec_format::abi::page::{DETACHED_SHIFT, Lane};
use flightrec_format::abi::record::Act;
use flightrec_format::decode::{Body, Event, Page};
use flightrec_format::ring::LaneStream;

use crate::source::Recording;
use crate::window::Window;

/// The lines are not written at the very moment: for each, ns.
const NEAR: u64 = 50_000_000;
/// What the headers say beyond the lines counts from here on, ns: programs are never detached for
/// less than 500 ms.
const LEAST: u64 = 250_000_000;

/// From when to when, in order, ns of `CLOCK_MONOTONIC`. A time whose beginning is not there began
/// before all that is, one whose end is not there lasts.
pub fn detached(recording: &Recording) -> Vec<(u64, u64)> {
    let tasks = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
    let act = |event: Event| match event.body {
        Body::Act(act, _) if act == Act::Detached as u16 => Some((event.time, true)),
        Body::Act(act, _) if act == Act::Attached as u16 => Some((event.time, false)),
        _ => None,
    };
    let mut acts: Vec<(u64, bool)> =
        tasks.flat_map(|stream| stream.events().filter_map(act)).collect();
    acts.sort_unstable();
    between(&acts)
}

/// For how long, ns, they were detached within a window, or near it, beyond what the lines say
/// (`lines`, of the whole recording).
pub(super) fn untold(recording: &Recording, lines: &[(u64, u64)], window: Window) -> u64 {
    let headers = recording.streams.iter().flat_map(LaneStream::pages).map(Page::header);
    let mut told: Vec<(u64, u32)> =
        headers.map(|header| (header.base_mono, header.detached)).collect();
    told.sort_unstable();
    // The last page opened before the window, and the first one behind it; else what there is.
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

fn between(acts: &[(u64, bool)]) -> Vec<(u64, u64)> {
    let (mut out, mut since) = (Vec::new(), None);
    for (i, (time, detached)) in acts.iter().enumerate() {
        match (*detached, since) {
            (true, None) => since = Some(*time),
            (false, Some(from)) => {
                out.push((from, *time));
                since = None;
            }
            (false, None) if i == 0 => out.push((0, *time)),
            _ => {}
        }
    }
    out.extend(since.map(|from| (from, u64::MAX)));
    out
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::counts::Counts;
    use flightrec_format::abi::layout::Layout;
    use flightrec_format::abi::page::{
        COPY_MAGIC, HEADER_LEN, PAGE_SIZE, PageHeader, REFUSALS, VERSION,
    };
    use flightrec_format::control::Totals;
    use flightrec_format::encode::write_header;
    use flightrec_format::meta::Meta;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::coverage::Report;
    use crate::source::Collector;

    #[test]
    fn from_each_act_to_the_next_other_one() {
        assert_eq!(between(&[]), []);
        assert_eq!(
            between(&[(3, true), (5, false), (8, true), (9, true)]),
            [(3, 5), (8, u64::MAX)]
        );
        assert_eq!(between(&[(5, false), (6, false), (8, true), (9, false)]), [(0, 5), (8, 9)]);
    }

    const S: u64 = 1_000_000_000;

    /// A recording of one lane whose pages were opened at these seconds, system calls having been
    /// detached for so many until then.
    fn recording(pages: &[(u64, u64)]) -> Recording {
        let mut collector = Collector::new(Meta { session: 1, cpus: vec![0], ..Meta::default() });
        for (seq, (time, detached)) in (1..).zip(pages) {
            let header = PageHeader {
                magic: COPY_MAGIC,
                session: 1,
                version: VERSION,
                lane: Lane::Sched as u8,
                flags: 0,
                cpu: 0,
                header_len: HEADER_LEN as u16,
                seq,
                base_mono: time * S,
                base_tai: time * S,
                used: (HEADER_LEN / Layout::of(VERSION).unit()) as u32,
                detached: ((detached * S) >> DETACHED_SHIFT) as u32,
                events: Counts::ZERO,
                refused: [0; REFUSALS],
            };
            let mut page = [0; PAGE_SIZE];
            page[..HEADER_LEN].copy_from_slice(&write_header(&header));
            collector.add(&page).unwrap();
        }
        collector.finish(Totals::default())
    }

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

    #[test]
    fn a_window_with_an_untold_stretch_has_no_system_calls_complete() {
        let recording = recording(&[(10, 0), (12, 0), (20, 6)]);
        let report = Report::new(&recording, Window { from: 11 * S, until: 19 * S }, 21 * S);
        let lines = report.lines(&mut recording.wall_clock(0), &TimeZone::UTC).join("\n");
        assert!(
            !report.is_complete() && lines.contains("system calls were detached for 6.0 s more"),
            "{lines}"
        );
        let json = report.json(&recording.meta, &mut recording.wall_clock(0));
        assert!(json.contains("\"detached_untold_ns\":5"), "{json}");
    }
}
