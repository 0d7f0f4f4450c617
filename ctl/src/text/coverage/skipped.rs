//! What a follower skipped, in words.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::ring::{Gap, Reason};

use flightrec_format::human::counted;
use flightrec_reader::kind::Kind;
use flightrec_reader::wall::WallClock;

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
        _ => "overwritten before they could be read",
    };
    match (gap.missing(), gap.lost) {
        (Some(n), Some(lost)) => {
            format!("skipped {} {place} ({}): {why}", events(n), kinds(gap.lane, &lost))
        }
        _ => format!("skipped an unknown number of events {place}: {why}"),
    }
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

/// `4 lane busy, 1 by the budget`
pub fn reasons(refused: &[u64; 2]) -> String {
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
                "skipped 3 events {place} (2 sys_enter, 1 sys_exit): overwritten before they \
                 could be read"
            )
        );
        let unknown = format!("skipped an unknown number of events {place}: a damaged page");
        assert_eq!(gap(Reason::Damaged, None, [0; 3]), unknown);
        let refused = format!("not recorded: 5 events {place} (4 lane busy, 1 by the budget)");
        assert_eq!(gap(Reason::Refused, Some(Counts::ZERO), [4, 1, 77]), refused);
    }
}
