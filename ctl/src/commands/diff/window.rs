//! A window in one word.

use std::str::FromStr;

use flightrec_reader::window::nanos;

use crate::options::time::TimeArg;

/// A window, as typed.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowSpec {
    /// From a time to another; `None`: to now.
    Times(TimeArg, Option<TimeArg>),
    /// The other window, so many ns before.
    Earlier(u64),
}

impl FromStr for WindowSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((since, until)) = text.split_once("..") else {
            return match text.parse::<TimeArg>() {
                Ok(TimeArg::Ago(by)) if !by.is_zero() => Ok(Self::Earlier(nanos(by))),
                _ => Err(
                    "not a window; use SINCE..UNTIL, as 14:00..14:10 or -20m..-10m, or -1d for \
                          the other window a day before"
                        .to_owned(),
                ),
            };
        };
        let until = if until.is_empty() { None } else { Some(until.parse()?) };
        Ok(Self::Times(since.parse()?, until))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn windows_in_one_word() {
        let ago = |seconds| TimeArg::Ago(Duration::from_secs(seconds));
        let window = |text: &str| text.parse::<WindowSpec>();
        assert_eq!(window("-20s..-10s"), Ok(WindowSpec::Times(ago(20), Some(ago(10)))));
        assert_eq!(window("-20s.."), Ok(WindowSpec::Times(ago(20), None)));
        assert_eq!(window("-1d"), Ok(WindowSpec::Earlier(86_400_000_000_000)));
        assert!(matches!(window("14:00..14:10"), Ok(WindowSpec::Times(_, Some(_)))));
        // A fraction of a second has one dot.
        assert!(matches!(window("14:00:00.5..14:10"), Ok(WindowSpec::Times(_, Some(_)))));
        for wrong in ["", "14:00", "now", "..", "x..y", "-5s..-"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }
}
