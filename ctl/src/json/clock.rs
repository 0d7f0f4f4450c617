//! Times as RFC 3339 has them, in UTC with nanoseconds.

use jiff::Timestamp;

use crate::text::number::eight;

const SECOND: i64 = 1_000_000_000;
/// `2026-01-31T14:03:07.`
const LENGTH: usize = 20;

/// Writes times; the text of the present second is kept.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    /// When the present second began, ns.
    start: Option<i64>,
    text: [u8; LENGTH],
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { start: None, text: *b"1970-01-01T00:00:00." }
    }

    /// Appends `2026-01-31T14:03:07.123456789Z`.
    pub(crate) fn write(&mut self, wall_ns: i64, out: &mut Vec<u8>) {
        let within = self.start.and_then(|start| wall_ns.checked_sub(start)).filter(|ns| (0..SECOND).contains(ns));
        let ns = within.unwrap_or_else(|| self.turn(wall_ns)) as u32;
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&eight(ns / 10));
        out.extend_from_slice(&[b'0' + (ns % 10) as u8, b'Z']);
    }

    /// Another second: returns how far in it is.
    #[cold]
    fn turn(&mut self, wall_ns: i64) -> i64 {
        let second = wall_ns.div_euclid(SECOND);
        self.start = second.checked_mul(SECOND);
        self.text = spelled(second);
        wall_ns.rem_euclid(SECOND)
    }

    /// The same as a string of its own.
    pub(crate) fn string(&mut self, wall_ns: i64) -> String {
        let mut out = Vec::new();
        self.write(wall_ns, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }
}

/// The second as far as its point.
fn spelled(second: i64) -> [u8; LENGTH] {
    // 64 bits of nanoseconds reach from 1677 to 2262: four digits, and in jiff's range.
    let moment = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
    let text = moment.strftime("%Y-%m-%dT%H:%M:%S.").to_string();
    text.as_bytes().try_into().unwrap_or(*b"1970-01-01T00:00:00.")
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn times() {
        let mut clock = Clock::new();
        assert_eq!(clock.string(0), "1970-01-01T00:00:00.000000000Z");
        assert_eq!(clock.string(1_767_225_600_123_456_789), "2026-01-01T00:00:00.123456789Z");
        assert_eq!(clock.string(1_767_225_600_999_999_999), "2026-01-01T00:00:00.999999999Z");
        assert_eq!(clock.string(-1), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(clock.string(i64::MAX), "2262-04-11T23:47:16.854775807Z");
        assert_eq!(clock.string(i64::MIN), "1677-09-21T00:12:43.145224192Z");
    }
}
