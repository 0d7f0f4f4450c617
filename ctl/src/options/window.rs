//! Which time.

use std::time::Duration;

use clap::Args;
use flightrec_reader::window::{Edge, nanos};
use jiff::Zoned;
use thiserror::Error;

use super::around::Around;
use super::time::{TimeArg, Twice, at_offset};
use crate::value::stretch;

/// Length of the window when none is given.
const DEFAULT_LAST_NS: u64 = 10_000_000_000;

/// A window of time: the same for every command that reads what was recorded.
#[derive(Debug, Args)]
pub struct WindowArgs {
    /// The most recent part, for example `10s`, `1m 30s` or `250ms` [default: 10s].
    ///
    /// It counts back from now for the running boot, else from the last moment in the files, as do
    /// times such as -5s. It never reaches into the previous boot.
    #[arg(
        long,
        value_name = "TIME",
        value_parser = stretch,
        allow_hyphen_values = true,
        conflicts_with_all = ["since", "until", "all"]
    )]
    pub last: Option<Duration>,
    /// Start time: RFC 3339, `HH:MM:SS[.frac]` (the latest such time), `-5s` (before now), or
    /// seconds or nanoseconds since 1970.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub since: Option<TimeArg>,
    /// End time, in the same forms as --since.
    #[arg(long, value_name = "T", allow_hyphen_values = true)]
    pub until: Option<TimeArg>,
    /// The time around T, in the same forms as --since: 5 s before and after it, or another length,
    /// for example `14:03:07:30s`.
    #[arg(
        long,
        value_name = "T[:TIME]",
        allow_hyphen_values = true,
        conflicts_with_all = ["last", "since", "until", "all"]
    )]
    pub around: Option<Around>,
    /// Everything that the recording still holds.
    #[arg(long, conflicts_with_all = ["since", "until"])]
    pub all: bool,
}

/// A window that makes no sense.
#[derive(Debug, Error)]
pub enum WindowError {
    /// A time that can't be.
    #[error("--{option}: {reason}")]
    Time {
        /// Which option.
        option: &'static str,
        /// Why.
        reason: String,
    },
    /// `--since` is not before `--until`.
    #[error("the window is empty: --since is not before --until")]
    Empty,
}

impl WindowArgs {
    /// Whether a window is asked for; else files that were saved of one open on theirs.
    pub fn is_given(&self) -> bool {
        self.last.is_some()
            || self.since.is_some()
            || self.until.is_some()
            || self.around.is_some()
            || self.all
    }

    /// Its start and end.
    pub fn edges(&self, now: &Zoned) -> Result<(Edge, Edge), WindowError> {
        let edge = |time: &Option<TimeArg>, option, twice| match time {
            None => Ok(Edge::Open),
            Some(time) => {
                time.edge(now, twice).map_err(|reason| WindowError::Time { option, reason })
            }
        };
        if let Some(around) = &self.around {
            let wrong = |reason| WindowError::Time { option: "around", reason };
            return around.edges(now).map_err(wrong);
        }
        let (since, mut until) = match (&self.since, &self.until, self.all) {
            (None, None, false) => {
                (Edge::Ago(self.last.map_or(DEFAULT_LAST_NS, nanos)), Edge::Open)
            }
            _ => (
                edge(&self.since, "since", Twice::First)?,
                edge(&self.until, "until", Twice::Second)?,
            ),
        };
        if self.until.as_ref().is_some_and(|until| is_ahead(until, self.since.as_ref(), now)) {
            until = Edge::Open;
        }
        let empty = match (since, until) {
            (Edge::Ago(since), Edge::Ago(until)) => since <= until,
            (Edge::Wall(since), Edge::Wall(until)) => since >= until,
            _ => false,
        };
        if empty { Err(WindowError::Empty) } else { Ok((since, until)) }
    }

    /// What the user should know of the times that were typed, a line each: where one does not mean
    /// what it seems to.
    pub fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.remarks_on(["--since", "--until", "--around"], now)
    }

    /// The same where its times were typed under other names.
    pub fn remarks_on(&self, names: [&str; 3], now: &Zoned) -> Vec<String> {
        let Self { since, until, around, .. } = self;
        let around = around.as_ref().map(|around| &around.time);
        let ends = [End::Since, End::Until, End::Around];
        let typed = ends.into_iter().zip(names).zip([since.as_ref(), until.as_ref(), around]);
        let times: Vec<(End, &str, &TimeArg)> =
            typed.filter_map(|((end, name), time)| Some((end, name, time?))).collect();
        let yesterdays = times
            .iter()
            .filter_map(|(end, name, time)| yesterday(*end, name, time, since.as_ref(), now));
        let twices = times.iter().filter_map(|(end, name, time)| twice(*end, name, time, now));
        let mut said: Vec<String> = yesterdays.chain(twices).collect();
        if until.is_some() && since.is_none() {
            said.push(
                "the window is everything that is recorded up to --until, as no --since is given"
                    .to_owned(),
            );
        }
        said
    }
}

/// What a time is to a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Since,
    Until,
    Around,
}

/// Whether the end of a window is a time of day that comes later today, the window having begun
/// today: not yesterday's.
fn is_ahead(until: &TimeArg, since: Option<&TimeArg>, now: &Zoned) -> bool {
    let (TimeArg::TimeOfDay(until, offset), Some(since)) = (until, since) else { return false };
    let now = &at_offset(now, *offset);
    let midnight = now.start_of_day().map_or(i128::MAX, |day| day.timestamp().as_nanosecond());
    let begins = match since.edge(now, Twice::First) {
        Ok(Edge::Ago(ago)) => now.timestamp().as_nanosecond() - i128::from(ago),
        Ok(Edge::Wall(wall)) => i128::from(wall),
        _ => return false,
    };
    begins >= midnight && *until > now.time()
}

/// A time of day that is still to come today is taken as yesterday's.
fn yesterday(
    end: End,
    name: &str,
    time: &TimeArg,
    since: Option<&TimeArg>,
    now: &Zoned,
) -> Option<String> {
    let TimeArg::TimeOfDay(of_day, offset) = time else { return None };
    let now = &at_offset(now, *offset);
    if *of_day <= now.time() || end == End::Until && is_ahead(time, since, now) {
        return None;
    }
    let day = now.date().yesterday().ok()?;
    Some(format!("{name} {of_day} is still to come today: yesterday's is meant, {day} {of_day}"))
}

/// A local time that clocks show twice.
fn twice(end: End, name: &str, time: &TimeArg, now: &Zoned) -> Option<String> {
    let local = time.twice(now)?;
    let meant = match end {
        End::Since => "the window begins with the first",
        End::Until => "the window ends with the second",
        End::Around => "the window has both",
    };
    Some(format!("{name} {local} occurs twice, as clocks are set back: {meant}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_window_may_be_to_come_also_at_an_offset() {
        let now: Zoned = "2026-03-04T14:05:00+01:00[Europe/Berlin]".parse().unwrap();
        let time = |text: &str| text.parse::<TimeArg>().unwrap();
        for (since, until) in [("14:00", "14:10"), ("14:00+01", "14:10+01"), ("13:00Z", "13:10Z")] {
            assert!(is_ahead(&time(until), Some(&time(since)), &now), "{until}");
            assert!(
                yesterday(End::Until, "--until", &time(until), Some(&time(since)), &now).is_none()
            );
            assert!(yesterday(End::Since, "--since", &time(until), None, &now).is_some());
        }
    }
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        window: WindowArgs,
    }

    fn now() -> Zoned {
        "2026-03-04T12:00:00Z[UTC]".parse().unwrap()
    }

    fn window(args: &[&str]) -> WindowArgs {
        Typed::try_parse_from(["test"].iter().chain(args)).unwrap().window
    }

    fn edges(args: &[&str]) -> (Edge, Edge) {
        window(args).edges(&now()).unwrap()
    }

    fn said(args: &[&str]) -> Vec<String> {
        window(args).remarks(&now())
    }

    #[test]
    fn windows_exclude_one_another() {
        for args in [["--last=1s", "--all"], ["--last=1s", "--since=-5s"], ["--all", "--until=-5s"]]
        {
            assert!(Typed::try_parse_from(["test"].into_iter().chain(args)).is_err(), "{args:?}");
        }
    }

    #[test]
    fn ten_seconds_unless_told() {
        assert_eq!(edges(&[]), (Edge::Ago(10_000_000_000), Edge::Open));
        assert_eq!(edges(&["--last", "250ms"]).0, Edge::Ago(250_000_000));
        assert_eq!(edges(&["--all"]), (Edge::Open, Edge::Open));
        assert_eq!(edges(&["--until", "-2s"]), (Edge::Open, Edge::Ago(2_000_000_000)));
    }

    #[test]
    fn an_end_later_today_lies_ahead() {
        let (since, until) = edges(&["--since", "11:00", "--until", "13:00"]);
        assert!(matches!(since, Edge::Wall(_)) && until == Edge::Open, "{since:?} {until:?}");
        assert_eq!(edges(&["--since=-5s", "--until=13:00"]).1, Edge::Open);
        assert!(matches!(edges(&["--since=-20h", "--until=23:00"]).1, Edge::Wall(_)));
        let (since, until) = edges(&["--since", "22:00", "--until", "23:00"]);
        let hours = |edge| {
            if let Edge::Wall(wall) = edge { wall / 3_600_000_000_000 } else { panic!("{edge:?}") }
        };
        assert_eq!(hours(until) - hours(since), 1);
    }

    #[test]
    fn an_empty_window_is_refused() {
        for args in [["--since=-5s", "--until=-6s"], ["--since=10:00:00", "--until=09:00:00"]] {
            let edges = window(&args).edges(&now());
            assert!(matches!(edges, Err(WindowError::Empty)), "{args:?}");
        }
    }

    #[test]
    fn yesterday_is_told() {
        let yesterday =
            "--since 23:59:50 is still to come today: yesterday's is meant, 2026-03-03 23:59:50";
        assert_eq!(said(&["--since", "23:59:50"]), [yesterday]);
        assert_eq!(said(&["--since", "23:59:50", "--until", "00:01"]), [yesterday]);
        assert_eq!(said(&["--around", "13:00"]).len(), 1);
        assert_eq!(said(&["--since", "22:00", "--until", "23:00"]).len(), 2);
        for today in [
            &["--since=11:59"][..],
            &["--since=2026-03-04 23:00"],
            &["--around=-5s"],
            &["--last=1s"],
            &[],
        ] {
            assert_eq!(said(today), [""; 0], "{today:?}");
        }
        assert_eq!(said(&["--since=11:00", "--until=13:00"]), [""; 0], "the end lies ahead");
    }

    #[test]
    fn a_window_in_the_hour_that_occurs_twice_has_both() {
        let now = "2026-10-25T12:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let args = window(&["--since", "02:30:00", "--until", "02:31:00"]);
        let (Edge::Wall(since), Edge::Wall(until)) = args.edges(&now).unwrap() else { panic!() };
        assert_eq!(until - since, 3_660_000_000_000);
        let said = args.remarks(&now);
        assert!(said.len() == 2 && said[0].contains("begins with the first"), "{said:?}");
        let around = window(&["--around", "02:30:00"]);
        let (Edge::Wall(since), Edge::Wall(until)) = around.edges(&now).unwrap() else { panic!() };
        assert_eq!((until - since, around.remarks(&now).len()), (3_610_000_000_000, 1));
    }

    #[test]
    fn an_end_alone_is_told() {
        assert_eq!(said(&["--until", "-5s"]).len(), 1);
        assert_eq!(said(&["--since=-9s", "--until=-5s"]), [""; 0]);
    }
}
