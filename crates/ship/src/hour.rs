//! An hour of the wall clock, UTC: by it everything is kept apart in the storage.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// ns of an hour.
pub const NS: i64 = 3_600_000_000_000;

/// An hour, by how many there were since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(i64);

impl Hour {
    /// The hour of a moment, ns since 1970.
    pub const fn of(wall: i64) -> Self {
        Self(wall.div_euclid(NS))
    }

    /// Its start, ns since 1970.
    pub const fn start(self) -> i64 {
        self.0.saturating_mul(NS)
    }

    /// Its end.
    pub const fn end(self) -> i64 {
        self.next().start()
    }

    /// The one after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one so many hours before.
    #[must_use]
    pub const fn before(self, hours: i64) -> Self {
        Self(self.0.saturating_sub(hours))
    }

    /// Its date, as in `2026-11-25`.
    pub fn date(self) -> String {
        self.format("%Y-%m-%d")
    }

    /// Its number in its day, as in `07`.
    pub fn number(self) -> String {
        self.format("%H")
    }

    fn format(self, form: &str) -> String {
        let at = Timestamp::from_nanosecond(i128::from(self.start()));
        at.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC).strftime(form).to_string()
    }
}

/// As in `2026-11-25T07`.
impl fmt::Display for Hour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", self.date(), self.number())
    }
}

impl FromStr for Hour {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        let at: Timestamp = format!("{text}:00:00Z").parse()?;
        Ok(Self::of(i64::try_from(at.as_nanosecond()).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hours() {
        let hour = Hour::of(1_795_262_703_500_000_000);
        assert_eq!(hour.to_string(), "2026-11-21T12");
        assert_eq!((hour.date(), hour.number()), ("2026-11-21".into(), "12".into()));
        assert_eq!("2026-11-21T12".parse::<Hour>().unwrap(), hour);
        assert_eq!(hour.start() % NS, 0);
        assert_eq!(hour.end(), hour.next().start());
        assert!("2026-11-21".parse::<Hour>().is_err());
        assert_eq!(Hour::of(-1).start(), -NS);
    }
}
