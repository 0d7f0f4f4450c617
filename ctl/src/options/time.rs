//! Times as they are typed.

use std::str::FromStr;
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, Zoned};

use super::epoch;
use crate::window::{Edge, nanos};

/// A point in time as typed.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeArg {
    /// A moment, with its time zone.
    Moment(Timestamp),
    /// A local date and time.
    Local(DateTime),
    /// A local time of day: the latest that is not in the future.
    TimeOfDay(Time),
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
        // A date first: a time of day is also found inside a date and time.
        if text.contains('-') {
            if let Ok(local) = text.parse::<DateTime>() {
                return Ok(Self::Local(local));
            }
        } else if let Ok(time) = text.parse::<Time>() {
            return Ok(Self::TimeOfDay(time));
        }
        Err("not a time; use 2026-01-31T14:03:07Z, \"2026-01-31 14:03:07\", 14:03:07[.25], -5s or \
             seconds since 1970"
            .to_owned())
    }
}

impl TimeArg {
    /// What it means at `now`. Fails for a local time that no clock ever shows or that is out of
    /// range.
    pub fn edge(&self, now: &Zoned) -> Result<Edge, String> {
        let moment = match self {
            Self::Ago(ago) => return Ok(Edge::Ago(nanos(*ago))),
            Self::Moment(moment) => *moment,
            Self::Local(local) => {
                local.to_zoned(now.time_zone().clone()).map_err(|e| e.to_string())?.timestamp()
            }
            Self::TimeOfDay(time) => {
                let today = now
                    .date()
                    .to_datetime(*time)
                    .to_zoned(now.time_zone().clone())
                    .map_err(|e| e.to_string())?;
                let latest = if today > *now {
                    let yesterday = now.date().yesterday().map_err(|e| e.to_string())?;
                    yesterday
                        .to_datetime(*time)
                        .to_zoned(now.time_zone().clone())
                        .map_err(|e| e.to_string())?
                } else {
                    today
                };
                latest.timestamp()
            }
        };
        i64::try_from(moment.as_nanosecond())
            .map(Edge::Wall)
            .map_err(|_| "the time is out of range".to_owned())
    }
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
        let edge = |text: &str| text.parse::<TimeArg>().unwrap().edge(&now()).unwrap();
        assert_eq!(edge("-5s"), Edge::Ago(5_000_000_000));
        assert_eq!(edge("now"), Edge::Ago(0));
        assert_eq!(edge("2026-03-04T00:01:00+01:00"), wall("2026-03-03T23:01:00Z"));
        assert_eq!(edge("2026-03-03T23:01:00.5Z"), wall("2026-03-03T23:01:00.5Z"));
        assert_eq!(edge("2026-03-04 00:01:00"), wall("2026-03-03T23:01:00Z"));
        assert_eq!(edge("00:01:00.25"), wall("2026-03-03T23:01:00.25Z"));
    }

    #[test]
    fn a_time_of_day_is_never_in_the_future() {
        assert_eq!(
            "23:59:50".parse::<TimeArg>().unwrap().edge(&now()).unwrap(),
            wall("2026-03-03T22:59:50Z")
        );
    }

    #[test]
    fn nonsense_is_told() {
        for text in ["", "yesterdayish", "25:00:00", "-", "-5", "12:00:00 noon"] {
            assert!(text.parse::<TimeArg>().is_err(), "{text:?} was taken");
        }
    }
}
