//! Times as RFC 3339 has them, in UTC with nanoseconds.

use jiff::Timestamp;

use crate::text::number::{EIGHT, decimal, eight};

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
        let ns = self.within(wall_ns);
        out.extend_from_slice(&self.text);
        out.extend_from_slice(&eight(ns / 10));
        out.extend_from_slice(&[b'0' + (ns % 10) as u8, b'Z']);
    }

    /// How far in its second a time is, ns; that second's text is there then.
    #[inline]
    fn within(&mut self, wall_ns: i64) -> u32 {
        let within = self
            .start
            .and_then(|start| wall_ns.checked_sub(start))
            .filter(|ns| (0..SECOND).contains(ns));
        within.unwrap_or_else(|| self.turn(wall_ns)) as u32
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

/// `{"time":"2026-01-31T14:03:07.123456789Z","mono_ns":`, and what is after it of a time below
/// 10^20.
const STAMP: usize = 51 + 20;
/// Where the time stands in it, its nanoseconds, and the monotonic time.
const TIME: usize = 9;
const NANOS: usize = TIME + LENGTH;
const MONO: usize = 51;

/// Writes the beginnings of lines, two times each; what they share with the one before is kept.
#[derive(Debug, Clone)]
pub(super) struct Stamps {
    clock: Clock,
    /// The second that the line has.
    second: Option<i64>,
    line: [u8; STAMP],
    /// The monotonic time of the line without its last eight digits, and where these stand.
    upper: u64,
    end: usize,
}

impl Stamps {
    pub(super) fn new() -> Self {
        let mut line = [b' '; STAMP];
        let parts: [(usize, &[u8]); 2] = [(0, b"{\"time\":\""), (NANOS + 9, b"Z\",\"mono_ns\":")];
        for (at, part) in parts {
            put(&mut line, at, part);
        }
        Self { clock: Clock::new(), second: None, line, upper: 0, end: MONO }
    }

    /// Appends `{"time":"2026-01-31T14:03:07.123456789Z","mono_ns":1234567890`.
    #[inline]
    pub(super) fn write(&mut self, wall_ns: i64, mono: u64, out: &mut Vec<u8>) {
        let ns = self.clock.within(wall_ns);
        if self.clock.start != self.second || self.second.is_none() {
            self.second = self.clock.start;
            put(&mut self.line, TIME, &self.clock.text);
        }
        put(&mut self.line, NANOS, &eight(ns / 10));
        put(&mut self.line, NANOS + 8, &[b'0' + (ns % 10) as u8]);
        let (upper, lower) = (mono / EIGHT, mono % EIGHT);
        if upper != self.upper {
            self.turn(upper);
        }
        let start = out.len();
        if upper == 0 {
            out.extend_from_slice(&self.line);
            out.truncate(start + MONO);
            return decimal(lower, out);
        }
        put(&mut self.line, self.end, &eight(lower as u32));
        // A known number of bytes takes no call; what is too much is taken away.
        out.extend_from_slice(&self.line);
        out.truncate(start + self.end + 8);
    }

    /// Appends a time as [`Clock::write`] does.
    pub(super) fn time(&mut self, wall_ns: i64, out: &mut Vec<u8>) {
        self.clock.write(wall_ns, out);
    }

    /// Other upper digits of the monotonic time.
    #[cold]
    fn turn(&mut self, upper: u64) {
        let mut text = Vec::new();
        decimal(upper, &mut text);
        put(&mut self.line, MONO, &text);
        (self.upper, self.end) = (upper, MONO + text.len());
    }
}

/// Puts bytes where there is room for them.
#[inline]
fn put(line: &mut [u8; STAMP], at: usize, bytes: &[u8]) {
    if let Some(place) = line.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
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
    use proptest::prelude::*;

    use super::*;

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

    proptest! {
        #[test]
        fn stamps_have_both_times(
            times in prop::collection::vec((any::<i64>(), any::<u64>(), 0u32..64, 0u32..3), 1..20),
        ) {
            let (mut stamps, mut clock, mut before) = (Stamps::new(), Clock::new(), (0, 0));
            for (wall, mono, shift, near) in times {
                // Some of the same second as the one before, and with the same upper digits.
                let (wall, mono) = match near {
                    0 => (wall, mono >> shift),
                    1 => (before.0 ^ (wall & 0xffff), before.1 ^ (mono & 0xffff)),
                    _ => (before.0, mono >> shift),
                };
                before = (wall, mono);
                let mut out = b"x".to_vec();
                stamps.write(wall, mono, &mut out);
                let expected = format!("x{{\"time\":\"{}\",\"mono_ns\":{mono}", clock.string(wall));
                prop_assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }
}
