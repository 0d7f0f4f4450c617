//! The time of day with microseconds.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::number::{eight, two};

const SECOND: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// `HH:MM:SS.uuuuuu`
const LENGTH: usize = 15;

/// Writes times of day of one time zone; the text of the present second is kept.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    zone: TimeZone,
    /// When the present second began, ns.
    start: Option<i64>,
    /// The time that was written last.
    text: [u8; LENGTH],
}

impl Clock {
    pub(super) fn new(zone: TimeZone) -> Self {
        Self { zone, start: None, text: *b"00:00:00.000000" }
    }

    /// Appends `HH:MM:SS.uuuuuu`.
    #[inline]
    pub(super) fn write(&mut self, wall_ns: i64, out: &mut Vec<u8>) {
        let within = self
            .start
            .and_then(|start| wall_ns.checked_sub(start))
            .filter(|ns| (0..SECOND).contains(ns));
        let ns = within.unwrap_or_else(|| self.turn(wall_ns)) as u32;
        let [_, _, micros @ ..] = eight(ns / 1000);
        if let Some(end) = self.text.last_chunk_mut() {
            *end = micros;
        }
        out.extend_from_slice(&self.text);
    }

    /// Another second: returns how far in it is.
    #[cold]
    fn turn(&mut self, wall_ns: i64) -> i64 {
        let second = wall_ns.div_euclid(SECOND);
        self.start = second.checked_mul(SECOND);
        let hms = self.hms(second);
        if let Some(begin) = self.text.first_chunk_mut() {
            *begin = hms;
        }
        wall_ns.rem_euclid(SECOND)
    }

    fn hms(&self, second: i64) -> [u8; 8] {
        // Every i64 of nanoseconds is in jiff's range; were it not, the time would be UTC.
        let offset =
            Timestamp::from_second(second).map_or(0, |at| self.zone.to_offset(at).seconds());
        let of_day = (second + i64::from(offset)).rem_euclid(DAY) as u32;
        let mut text = *b"00:00:00";
        for (place, value) in text.chunks_mut(3).zip([of_day / 3600, of_day / 60 % 60, of_day % 60])
        {
            let [tens, ones] = two(value);
            if let [a, b, ..] = place {
                (*a, *b) = (tens, ones);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    fn text(clock: &mut Clock, ns: i64) -> String {
        let mut out = Vec::new();
        clock.write(ns, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_of_day() {
        let mut utc = Clock::new(TimeZone::UTC);
        assert_eq!(text(&mut utc, 0), "00:00:00.000000");
        assert_eq!(text(&mut utc, 50_587_123_456_999), "14:03:07.123456");
        assert_eq!(text(&mut utc, 50_587_999_999_999), "14:03:07.999999");
        assert_eq!(text(&mut utc, -1), "23:59:59.999999");
        text(&mut utc, i64::MAX);
        text(&mut utc, i64::MIN);
        let mut east = Clock::new(TimeZone::fixed(Offset::constant(2)));
        assert_eq!(text(&mut east, 0), "02:00:00.000000");
    }
}
