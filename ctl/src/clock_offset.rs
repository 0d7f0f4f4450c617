//! By how much another host's clock differs, asked over the connection of `flightctl collect`.
//!
//! `flightctl save --frames --clock` answers each [`ASK`] on its standard input by a frame with the
//! time there, before it saves anything, until [`GO`] or the end. Who asks knows only that the
//! answer was made between question and answer: so the time there less the time here is known to
//! the round trip, and of several the shortest counts.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::frames::Frames;

/// A question.
pub const ASK: u8 = b'?';
/// There are no more questions.
pub const GO: u8 = b'\n';
/// What an answer's frame begins with; no recording does.
const HEAD: [u8; 8] = *b"\0\0clock\0";
/// Most questions that are answered.
const QUESTIONS_MAX: usize = 64;

/// Answers the questions that come in.
///
/// # Errors
/// Reading or writing fails.
pub fn answer(mut questions: impl Read, mut out: impl Write) -> io::Result<()> {
    let mut question = [0];
    for _ in 0..QUESTIONS_MAX {
        match questions.read(&mut question) {
            Ok(1) if question == [ASK] => {}
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        let mut frame = Vec::from(HEAD);
        frame.extend_from_slice(&unix_ns(SystemTime::now()).to_le_bytes());
        Frames::new(&mut out).write_all(&frame)?;
        out.flush()?;
    }
    Ok(())
}

/// The time in a frame, ns since 1970; `None`: it is no answer.
pub fn answered(frame: &[u8]) -> Option<i64> {
    let (head, time) = frame.split_first_chunk()?;
    (*head == HEAD).then_some(i64::from_le_bytes(time.try_into().ok()?))
}

/// A moment at which a question is put.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    wall: i64,
    at: Instant,
}

impl Asked {
    /// Now.
    pub fn now() -> Self {
        Self { wall: unix_ns(SystemTime::now()), at: Instant::now() }
    }

    /// What an answer that arrives now says.
    pub fn answered(self, there: i64) -> Ahead {
        self.answered_after(self.at.elapsed(), there)
    }

    fn answered_after(self, took: Duration, there: i64) -> Ahead {
        let half = i64::try_from(took.as_nanos() / 2).unwrap_or(i64::MAX);
        let here = self.wall.saturating_add(half);
        // A ns for what halving leaves out.
        Ahead { ns: there.saturating_sub(here), within: half.unsigned_abs().saturating_add(1) }
    }
}

/// The clock of another host less that of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    /// ns; below 0: it is behind.
    pub ns: i64,
    /// By how much that may be wrong, ns.
    pub within: u64,
}

impl Ahead {
    /// The one that is known better.
    #[must_use]
    pub fn better(self, other: Option<Self>) -> Self {
        other.filter(|other| other.within < self.within).unwrap_or(self)
    }

    /// By how much it differs at least, ns.
    pub fn least(self) -> u64 {
        self.ns.unsigned_abs().saturating_sub(self.within)
    }

    /// By how much it differs at most, ns.
    pub fn most(self) -> u64 {
        self.ns.unsigned_abs().saturating_add(self.within)
    }
}

/// ns since 1970.
fn unix_ns(time: SystemTime) -> i64 {
    let ns = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(length) => ns(length),
        Err(before) => -ns(before.duration()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Next, next};

    /// The times in what was written.
    fn times(questions: &[u8]) -> Vec<i64> {
        let mut out = Vec::new();
        answer(questions, &mut out).unwrap();
        let (mut stream, mut times, mut buffer) = (&out[..], Vec::new(), Vec::new());
        while !stream.is_empty() {
            assert_eq!(next(&mut stream, &mut buffer, true).unwrap(), Next::Bytes);
            times.push(answered(&buffer).unwrap());
        }
        times
    }

    #[test]
    fn each_question_has_an_answer_until_there_are_no_more() {
        let before = unix_ns(SystemTime::now());
        let told = times(b"??\n?");
        assert_eq!(told.len(), 2);
        assert!(told.is_sorted() && told[0] >= before && told[1] <= unix_ns(SystemTime::now()));
        assert_eq!(times(b"").len(), 0);
        assert_eq!(times(&[ASK; 100]).len(), QUESTIONS_MAX);
        assert_eq!(answered(b"\0\0clock\0"), None);
        assert_eq!(answered(b"FLIGHTRC12345678"), None);
    }

    #[test]
    fn the_difference_is_known_to_the_round_trip() {
        let asked = Asked { wall: 1_000_000, at: Instant::now() };
        // Wherever between question and answer it was made.
        for made in [0, 1, 77, 200] {
            for ahead in [-500_000, 0, 3_000_000_000] {
                let there = 1_000_000 + made + ahead;
                let told = asked.answered_after(Duration::from_nanos(200), there);
                assert!(told.ns.abs_diff(ahead) <= told.within, "{told:?}");
                assert_eq!(told.within, 101);
                assert!(
                    told.least() <= ahead.unsigned_abs() && told.most() >= ahead.unsigned_abs()
                );
            }
        }
        let (close, far) = (Ahead { ns: 5, within: 2 }, Ahead { ns: 9, within: 7 });
        assert_eq!((close.better(Some(far)), far.better(Some(close))), (close, close));
        assert_eq!(far.better(None), far);
    }
}
