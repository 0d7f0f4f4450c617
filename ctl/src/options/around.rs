//! A window around a moment, as typed.

use std::str::FromStr;
use std::time::Duration;

use flightrec_reader::window::{Edge, nanos};
use jiff::Zoned;

use super::time::{TimeArg, Twice};

/// On either side, when nothing else is typed.
const RADIUS: Duration = Duration::from_secs(5);

/// A moment, and how far the window reaches on either side.
#[derive(Debug, Clone, PartialEq)]
pub struct Around {
    /// The moment.
    pub time: TimeArg,
    /// How far.
    pub radius: Duration,
}

impl FromStr for Around {
    type Err = String;

    /// `T`, or `T:30s`. A time of day has colons, too, but no unit.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((time, radius)) = text.rsplit_once(':')
            && let Ok(radius) = humantime::parse_duration(radius)
            && text.ends_with(|last: char| last.is_ascii_alphabetic())
        {
            if radius.is_zero() {
                return Err("an empty window; use for example 14:03:07:30s, or 14:03:07 for 5 s \
                            on either side"
                    .to_owned());
            }
            return Ok(Self { time: time.parse()?, radius });
        }
        Ok(Self { time: text.parse()?, radius: RADIUS })
    }
}

impl Around {
    /// The window's edges at `now`.
    pub fn edges(&self, now: &Zoned) -> Result<(Edge, Edge), String> {
        let radius = nanos(self.radius);
        let last = self.time.edge(now, Twice::Second)?;
        Ok(match self.time.edge(now, Twice::First)? {
            Edge::Open => (Edge::Open, Edge::Open),
            Edge::Ago(ago) => {
                // What lies ahead is not there yet.
                let until =
                    ago.checked_sub(radius).filter(|ago| *ago != 0).map_or(Edge::Open, Edge::Ago);
                (Edge::Ago(ago.saturating_add(radius)), until)
            }
            Edge::Wall(first) => {
                let last = if let Edge::Wall(last) = last { last } else { first };
                (
                    Edge::Wall(first.saturating_sub_unsigned(radius)),
                    Edge::Wall(last.saturating_add_unsigned(radius)),
                )
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(text: &str) -> (Edge, Edge) {
        let now = "2026-03-04T12:00:00Z[UTC]".parse().unwrap();
        text.parse::<Around>().unwrap().edges(&now).unwrap()
    }

    #[test]
    fn five_seconds_unless_told() {
        let s = 1_000_000_000;
        let wall = 1_772_622_187 * s; // 2026-03-04 11:03:07 UTC
        let five = (Edge::Wall(wall - 5 * s), Edge::Wall(wall + 5 * s));
        for text in [
            "11:03:07",
            "2026-03-04T11:03:07Z",
            "2026-03-04 11:03:07",
            "1772622187",
            "2026-03-04T12:03:07+01:00",
        ] {
            assert_eq!(edges(text), five, "{text}");
        }
        let half = (Edge::Wall(wall - 30 * s), Edge::Wall(wall + 30 * s));
        for text in [
            "11:03:07:30s",
            "2026-03-04T11:03:07Z:30s",
            "1772622187:30s",
            "2026-03-04 11:03:07: 30s",
        ] {
            assert_eq!(edges(text), half, "{text}");
        }
        assert_eq!(
            edges("11:03:07:1m 30s"),
            (Edge::Wall(wall - 90 * s), Edge::Wall(wall + 90 * s))
        );
    }

    #[test]
    fn nothing_is_asked_of_what_lies_ahead() {
        let s = 1_000_000_000;
        assert_eq!(edges("-20s:5s"), (Edge::Ago(25 * s), Edge::Ago(15 * s)));
        assert_eq!(edges("-2s"), (Edge::Ago(7 * s), Edge::Open));
        assert_eq!(edges("now:250ms"), (Edge::Ago(250_000_000), Edge::Open));
    }

    #[test]
    fn nonsense_is_told() {
        for text in ["", ":5s", "noon:5s", "11:03:07:0s", "11:03:07:5", "11:03:07:5 parsecs"] {
            assert!(text.parse::<Around>().is_err(), "{text}");
        }
    }
}
