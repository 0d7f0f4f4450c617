//! What a follower says beside the events.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::ring::{Gap, Reason};

use super::show::Tally;
use crate::coverage::why;
use crate::human::{counted, span};
use crate::kind::Kind;
use crate::pipeline::wall::WallClock;

/// Why events were refused, by [`Refusal`]; the recorder's own are no loss.
const REFUSED: [&str; Refusal::Own as usize] = ["lane busy", "by the budget"];

/// `skipped 12 events of CPU 1, lane syscall, 14:03:07.123456 to 14:03:07.323456 (6 sys_enter, 6
/// sys_exit): why`
pub fn skipped(gap: &Gap, wall: &mut WallClock, zone: &TimeZone) -> String {
    let mut time = |mono| time(wall.wall(mono), zone);
    let place = format!(
        "of CPU {}, lane {}, {} to {}",
        gap.cpu,
        gap.lane.name(),
        time(gap.from),
        time(gap.until)
    );
    if gap.reason == Reason::Refused {
        return format!(
            "not recorded: {} {place} ({})",
            events(refused(gap).iter().sum()),
            reasons(&refused(gap))
        );
    }
    let why = match gap.reason {
        Reason::Damaged => "a damaged page",
        _ => "written over before they could be read",
    };
    match (gap.missing(), gap.lost) {
        (Some(n), Some(lost)) => {
            format!("skipped {} {place} ({}): {why}", events(n), kinds(gap.lane, &lost))
        }
        _ => format!("skipped an unknown number of events {place}: {why}"),
    }
}

/// What it all came to: the first line adds up.
pub fn summary(tally: &Tally) -> Vec<String> {
    let Tally { shown, filtered, recorded, .. } = *tally;
    let skipped = tally.skipped.saturating_add(tally.cut);
    let mut first =
        format!("followed for {}: {} recorded = {shown} shown", span(tally.time), events(recorded));
    // Writing to a string can't fail.
    let _ = write!(first, " + {filtered} filtered out + {skipped} skipped");
    let known = shown.saturating_add(filtered).saturating_add(skipped);
    if recorded > known {
        let _ = write!(first, " + {} of kinds that this release does not know", recorded - known);
    }
    let mut lines = vec![first];
    if tally.cut != 0 {
        lines
            .push(format!("{} of those skipped were read, and left out to end in time", tally.cut));
    }
    if tally.unknown != 0 {
        lines
            .push(format!("{} in damaged pages, of unknown length", counted(tally.unknown, "gap")));
    }
    for (part, n) in &tally.undecided {
        lines.push(format!("{} filtered out undecided: {}", events(*n), why(*part, tally.strings)));
    }
    if tally.refused != [0; 2] {
        lines.push(format!(
            "not recorded: {} ({})",
            events(tally.refused.iter().sum()),
            reasons(&tally.refused)
        ));
    }
    if tally.no_ring != 0 {
        lines.push(format!("not recorded: {} on CPUs without rings", events(tally.no_ring)));
    }
    if tally.missed != 0 {
        lines.push(format!(
            "not recorded: {} skipped by the kernel (recursion)",
            events(tally.missed)
        ));
    }
    lines
}

/// Refusals of a gap that are a loss.
pub fn refused(gap: &Gap) -> [u64; 2] {
    let [busy, throttled, _own] = gap.refused;
    [busy, throttled]
}

/// `14:03:07.123456`
pub fn time(wall_ns: i64, zone: &TimeZone) -> String {
    let moment = Timestamp::from_nanosecond(i128::from(wall_ns)).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.to_zoned(zone.clone()).strftime("%H:%M:%S%.6f").to_string()
}

fn events(n: u64) -> String {
    counted(n, "event")
}

fn reasons(refused: &[u64; 2]) -> String {
    let all =
        refused.iter().zip(REFUSED).filter(|(n, _)| **n != 0).map(|(n, why)| format!("{n} {why}"));
    all.collect::<Vec<_>>().join(", ")
}

/// `6 sys_enter, 6 sys_exit`
fn kinds(lane: Lane, counts: &Counts) -> String {
    let name = |i| Kind::counted(lane, i).map_or("of unknown kind", Kind::name);
    let all = counts.present().map(|(i, n)| format!("{n} {}", name(i)));
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::meta::Meta;

    const S: u64 = 1_000_000_000;

    fn gap(reason: Reason, lost: Option<Counts>, refused: [u64; 3]) -> String {
        let gap =
            Gap { lane: Lane::Syscall, cpu: 1, from: 2 * S, until: 3 * S, lost, refused, reason };
        let mut wall = WallClock::of(std::iter::empty(), &Meta::default(), 0);
        skipped(&gap, &mut wall, &TimeZone::UTC)
    }

    #[test]
    fn what_is_missing_is_told_with_its_place_and_reason() {
        let place = "of CPU 1, lane syscall, 00:00:02.000000 to 00:00:03.000000";
        assert_eq!(
            gap(Reason::Overwritten, Some(Counts::first([2, 1])), [0; 3]),
            format!(
                "skipped 3 events {place} (2 sys_enter, 1 sys_exit): written over before they \
                 could be read"
            )
        );
        let unknown = format!("skipped an unknown number of events {place}: a damaged page");
        assert_eq!(gap(Reason::Damaged, None, [0; 3]), unknown);
        let refused = format!("not recorded: 5 events {place} (4 lane busy, 1 by the budget)");
        assert_eq!(gap(Reason::Refused, Some(Counts::ZERO), [4, 1, 77]), refused);
    }

    #[test]
    fn the_summary_adds_up() {
        let tally = Tally {
            time: 60 * S,
            recorded: 20,
            shown: 9,
            filtered: 4,
            skipped: 5,
            cut: 1,
            ..Tally::default()
        };
        assert_eq!(
            summary(&tally),
            [
                "followed for 1m 0s: 20 events recorded = 9 shown + 4 filtered out + 6 skipped + \
                 1 of kinds that this release does not know",
                "1 of those skipped were read, and left out to end in time",
            ]
        );
        let tally =
            Tally { refused: [1, 2], no_ring: 3, missed: 4, unknown: 5, ..Tally::default() };
        assert_eq!(summary(&tally).len(), 5);
    }
}
