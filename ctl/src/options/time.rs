//! Times as they are typed.

use std::str::FromStr;
use std::time::Duration;

use flightrec_reader::window::{Edge, nanos};
use jiff::civil::{DateTime, Time};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::epoch;

/// A point in time as typed.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeArg {
    /// A moment, with its time zone.
    Moment(Timestamp),
    /// A local date and time.
    Local(DateTime),
    /// A time of day, local or at an offset from UTC: the latest that is not in the future.
    TimeOfDay(Time, Option<Offset>),
    /// This long before now.
    Ago(Duration),
}

impl FromStr for TimeArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "now" {
            return Ok(Self::Ago(Duration::ZERO));
        }
        if let Some(ago) = text.strip_prefix('-') {
            return humantime::parse_duration(ago)
                .map(Self::Ago)
                .map_err(|e| format!("{e} (a time before now: -5s)"));
        }
        if let Some(moment) = epoch::parse(text) {
            return moment.map(Self::Moment);
        }
        if let Ok(moment) = text.parse::<Timestamp>() {
            return Ok(Self::Moment(moment));
        }
        // With the name of its zone.
        if let Ok(moment) = text.parse::<Zoned>() {
            return Ok(Self::Moment(moment.timestamp()));
        }
        if let Some((time, offset)) = with_offset(text) {
            return Ok(Self::TimeOfDay(time, Some(offset)));
        }
        // A date first: a time of day is also found inside a date and time, and both in a text with
        // a zone, which is read above.
        let is_whole = |rest: char| rest.is_ascii_digit() || "-T:., ".contains(rest);
        if !text.chars().all(is_whole) {
            return Err(NO_TIME.to_owned());
        }
        if text.contains('-') {
            if let Ok(local) = text.parse::<DateTime>() {
                return Ok(Self::Local(local));
            }
        } else if let Ok(time) = text.parse::<Time>() {
            return Ok(Self::TimeOfDay(time, None));
        }
        Err(NO_TIME.to_owned())
    }
}

const NO_TIME: &str = "not a time; use 2026-01-31T14:03:07Z, \"2026-01-31 14:03:07\", \
                       14:03:07[.25], 14:03:07+01, -5s or seconds since 1970";

/// A time of day with an offset from UTC after it: `14:03:07+01`, `14:03:07Z`.
fn with_offset(text: &str) -> Option<(Time, Offset)> {
    let hour = text.find(':').filter(|at| *at <= 2)?;
    let at = text.get(hour..)?.find(['+', '-', 'Z', 'z'])? + hour;
    let (time, offset) = text.split_at_checked(at)?;
    // What a clock at that offset shows as midnight.
    let midnight: Timestamp = format!("1970-01-01T00:00:00{offset}").parse().ok()?;
    let seconds = i32::try_from(midnight.as_second()).ok()?;
    Some((time.parse().ok()?, Offset::from_seconds(-seconds).ok()?))
}

/// Which of two moments is meant by a local time that occurs twice, as clocks are set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twice {
    /// The first: where a window begins.
    First,
    /// The second: where one ends.
    Second,
    /// Neither can be meant alone.
    Refuse,
}

impl TimeArg {
    /// What it means at `now`. Fails for a local time that no clock ever shows, or twice where that
    /// is refused, or that is out of range.
    pub fn edge(&self, now: &Zoned, twice: Twice) -> Result<Edge, String> {
        let moment = match self {
            Self::Ago(ago) => return Ok(Edge::Ago(nanos(*ago))),
            Self::Moment(moment) => *moment,
            Self::Local(_) | Self::TimeOfDay(..) => {
                let (local, first, second) = self.moments(now)?;
                match twice {
                    _ if first == second => first,
                    Twice::First => first,
                    Twice::Second => second,
                    Twice::Refuse => {
                        let zone = now.time_zone();
                        let [first, second] =
                            [first, second].map(|of| of.to_zoned(zone.clone()).offset());
                        return Err(format!(
                            "{local} occurs twice, as clocks are set back: type it with {first} \
                             or {second} after it, as in 14:03:07+01"
                        ));
                    }
                }
            }
        };
        i64::try_from(moment.as_nanosecond())
            .map(Edge::Wall)
            .map_err(|_| "the time is out of range".to_owned())
    }

    /// Of a local time that occurs twice: itself.
    pub fn twice(&self, now: &Zoned) -> Option<DateTime> {
        let (local, first, second) = self.moments(now).ok()?;
        (first != second).then_some(local)
    }

    /// A local date and time, and the first and the last moment at which clocks show it; of a time
    /// of day, the latest day on which that is not in the future.
    fn moments(&self, now: &Zoned) -> Result<(DateTime, Timestamp, Timestamp), String> {
        let offset = if let Self::TimeOfDay(_, offset) = self { *offset } else { None };
        let now = &at_offset(now, offset);
        let local = match self {
            Self::Local(local) => *local,
            Self::TimeOfDay(time, _) => {
                let today = now.date().to_datetime(*time);
                let is_past = shown(today, now).is_ok_and(|(first, _)| first <= now.timestamp());
                // A time that does not occur today is an error, not yesterday's.
                if is_past || *time <= now.time() {
                    today
                } else {
                    now.date().yesterday().map_err(|e| e.to_string())?.to_datetime(*time)
                }
            }
            Self::Moment(_) | Self::Ago(_) => return Err("no local time".to_owned()),
        };
        let (first, second) = shown(local, now)?;
        // The second moment may be in the future.
        let second = if matches!(self, Self::TimeOfDay(..)) && second > now.timestamp() {
            first
        } else {
            second
        };
        Ok((local, first, second))
    }
}

/// The present time at an offset from UTC, if there is one.
pub(super) fn at_offset(now: &Zoned, offset: Option<Offset>) -> Zoned {
    let zone = offset.map(TimeZone::fixed);
    zone.map_or_else(|| now.clone(), |zone| now.with_time_zone(zone))
}

/// The first and the last moment at which clocks show a local time.
fn shown(local: DateTime, now: &Zoned) -> Result<(Timestamp, Timestamp), String> {
    let moments = now.time_zone().to_ambiguous_zoned(local);
    if let AmbiguousOffset::Gap { before, after } = moments.offset() {
        return Err(format!(
            "{local} does not occur: clocks are set from UTC{before} to UTC{after} then"
        ));
    }
    let moment = |of: Result<Zoned, jiff::Error>| of.map(|of| of.timestamp());
    let first = moment(moments.clone().earlier()).map_err(|e| e.to_string())?;
    let second = moment(moments.later()).map_err(|e| e.to_string())?;
    Ok((first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Zoned {
        "2026-03-04T00:05:00+01:00[Europe/Berlin]".parse().unwrap()
    }

    fn wall(text: &str) -> Edge {
        Edge::Wall(text.parse::<Timestamp>().unwrap().as_nanosecond() as i64)
    }

    #[test]
    fn every_form() {
        let edge =
            |text: &str| text.parse::<TimeArg>().unwrap().edge(&now(), Twice::Refuse).unwrap();
        assert_eq!(edge("-5s"), Edge::Ago(5_000_000_000));
        assert_eq!(edge("now"), Edge::Ago(0));
        assert_eq!(edge("2026-03-04T00:01:00+01:00"), wall("2026-03-03T23:01:00Z"));
        assert_eq!(edge("2026-03-03T23:01:00.5Z"), wall("2026-03-03T23:01:00.5Z"));
        assert_eq!(edge("2026-03-04 00:01:00"), wall("2026-03-03T23:01:00Z"));
        assert_eq!(edge("00:01:00.25"), wall("2026-03-03T23:01:00.25Z"));
        assert_eq!(edge("04:01:00+05"), wall("2026-03-03T23:01:00Z"));
        assert_eq!(edge("18:01:00.5-05:00"), wall("2026-03-03T23:01:00.5Z"));
        assert_eq!(edge("23:01:00Z"), wall("2026-03-03T23:01:00Z"));
        assert_eq!(
            edge("2026-03-03T18:01:00-05:00[America/New_York]"),
            wall("2026-03-03T23:01:00Z")
        );
        for wrong in ["10:51:00+x", "10:51:00[Mars]", "2026-03-04 00:01:00 CET", "10:51:00 +05"] {
            assert!(wrong.parse::<TimeArg>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_of_day_is_never_in_the_future() {
        assert_eq!(
            "23:59:50".parse::<TimeArg>().unwrap().edge(&now(), Twice::Refuse).unwrap(),
            wall("2026-03-03T22:59:50Z")
        );
    }

    #[test]
    fn a_local_time_that_occurs_twice_or_never() {
        let now = |text: &str| text.parse::<Zoned>().unwrap();
        let noon = now("2026-10-25T12:00:00+01:00[Europe/Berlin]");
        for text in ["02:30:00", "2026-10-25 02:30:00"] {
            let time: TimeArg = text.parse().unwrap();
            assert_eq!(time.edge(&noon, Twice::First).unwrap(), wall("2026-10-25T00:30:00Z"));
            assert_eq!(time.edge(&noon, Twice::Second).unwrap(), wall("2026-10-25T01:30:00Z"));
            let refused = time.edge(&noon, Twice::Refuse).unwrap_err();
            assert!(refused.contains("occurs twice") && refused.contains("+02"), "{refused}");
            assert!(time.twice(&noon).is_some());
        }
        // During the first of the two hours, the second is in the future.
        let time: TimeArg = "02:30:00".parse().unwrap();
        let before = now("2026-10-25T02:40:00+02:00[Europe/Berlin]");
        assert_eq!(time.edge(&before, Twice::Second).unwrap(), wall("2026-10-25T00:30:00Z"));
        assert_eq!(time.twice(&before), None);
        let spring = now("2026-03-29T12:00:00+02:00[Europe/Berlin]");
        for text in ["02:30:00", "2026-03-29 02:30:00"] {
            let time: TimeArg = text.parse().unwrap();
            let never = time.edge(&spring, Twice::First).unwrap_err();
            assert!(never.contains("does not occur") && never.contains("UTC+01"), "{never}");
        }
    }

    #[test]
    fn nonsense_is_told() {
        for text in ["", "yesterdayish", "25:00:00", "-", "-5", "12:00:00 noon"] {
            assert!(text.parse::<TimeArg>().is_err(), "{text:?} was taken");
        }
    }
}
