//! Boots: how one is named on the command line, as journalctl(1) has it, and which one is meant.

use std::str::FromStr;

use flightrec_format::meta::Meta;
use thiserror::Error;

/// A boot's id, as in `/proc/sys/kernel/random/boot_id`.
pub type BootId = [u8; 16];

/// A boot as typed: `ID`, a number, or an `ID` and a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BootArg {
    /// The boot that is running; where there is nothing of it, the last.
    Present,
    /// Counted from the first, which is 1.
    FromFirst(usize),
    /// Counted back from the last, which is 0.
    FromLast(usize),
    /// So many after (or, negative, before) the one of this id.
    Id(BootId, i64),
}

/// A boot that is not there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BootError {
    /// None has the id.
    #[error(
        "there is no recording of boot {0}: `flightctl dump --list-boots` lists those that there \
         are"
    )]
    Unknown(String),
    /// Fewer boots than that.
    #[error("there are recordings of {0} boots only: `flightctl dump --list-boots` lists them")]
    Beyond(usize),
}

impl FromStr for BootArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::Present);
        }
        if let Some((id, offset)) = split(text) {
            let id = parse_id(id).ok_or_else(|| wrong(text))?;
            return Ok(Self::Id(
                id,
                if offset.is_empty() { 0 } else { number(offset).ok_or_else(|| wrong(text))? },
            ));
        }
        let n = number(text).ok_or_else(|| wrong(text))?;
        let count = usize::try_from(n.unsigned_abs()).map_err(|_| wrong(text))?;
        Ok(if n > 0 { Self::FromFirst(count) } else { Self::FromLast(count) })
    }
}

/// An id with what stands after it: 32 digits, or 36 characters with hyphens between.
fn split(text: &str) -> Option<(&str, &str)> {
    [36, 32].into_iter().find_map(|length| {
        let (id, rest) = text.split_at_checked(length)?;
        parse_id(id).map(|_| (id, rest))
    })
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn wrong(text: &str) -> String {
    format!(
        "{text:?} is not a boot; use an id of 32 hexadecimal digits, a number (0 the last, -1 the \
         one before) or both"
    )
}

/// An id from its digits, with or without hyphens.
pub fn parse_id(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b'-').collect();
    if digits.len() != 32 {
        return None;
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

/// The id as journalctl(1) prints it.
pub fn id_text(id: &BootId) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

/// The boot of a recording; zeros where its metadata do not tell.
pub fn of_meta(meta: &Meta) -> BootId {
    parse_id(&meta.boot_id).unwrap_or_default()
}

/// The boot that is running on this machine.
pub fn present() -> Option<BootId> {
    parse_id(&std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?)
}

impl BootArg {
    /// Which of `boots` (the first first) it means; `present` is the one that is running.
    ///
    /// # Errors
    /// There is no such boot, or more than one that the id may mean.
    pub fn choose(&self, boots: &[BootId], present: Option<BootId>) -> Result<usize, BootError> {
        let beyond = || BootError::Beyond(boots.len());
        let at = |id: &BootId| boots.iter().position(|boot| boot == id);
        match self {
            Self::Present => match present.as_ref().and_then(at) {
                Some(index) => Ok(index),
                None => boots.len().checked_sub(1).ok_or_else(beyond),
            },
            Self::FromFirst(n) => n.checked_sub(1).filter(|n| *n < boots.len()).ok_or_else(beyond),
            Self::FromLast(n) => {
                n.checked_add(1).and_then(|n| boots.len().checked_sub(n)).ok_or_else(beyond)
            }
            Self::Id(id, offset) => {
                let index = at(id).ok_or_else(|| BootError::Unknown(id_text(id)))?;
                let index = i64::try_from(index).ok().and_then(|index| index.checked_add(*offset));
                index
                    .and_then(|index| usize::try_from(index).ok())
                    .filter(|n| *n < boots.len())
                    .ok_or_else(beyond)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    fn boots() -> [BootId; 3] {
        [[1; 16], [2; 16], [3; 16]]
    }

    fn choose(text: &str) -> Result<usize, BootError> {
        text.parse::<BootArg>().unwrap().choose(&boots(), Some([2; 16]))
    }

    #[test]
    fn as_journalctl_counts_them() {
        assert_eq!(choose(""), Ok(1), "the one that is running");
        assert_eq!(
            (choose("0"), choose("-0"), choose("-1"), choose("-2")),
            (Ok(2), Ok(2), Ok(1), Ok(0))
        );
        assert_eq!((choose("1"), choose("+2"), choose("3")), (Ok(0), Ok(1), Ok(2)));
        assert_eq!(
            (choose("-3"), choose("4")),
            (Err(BootError::Beyond(3)), Err(BootError::Beyond(3)))
        );
        let id = "02".repeat(16);
        assert_eq!(
            (choose(&id), choose(&format!("{id}-1")), choose(&format!("{id}+1"))),
            (Ok(1), Ok(0), Ok(2))
        );
        assert_eq!(choose(&format!("{id}-2")), Err(BootError::Beyond(3)));
        assert_eq!(choose(ID), Err(BootError::Unknown(ID.into())));
    }

    #[test]
    fn without_anything_of_the_running_boot_the_last_is_meant() {
        assert_eq!(BootArg::Present.choose(&boots(), Some([9; 16])), Ok(2));
        assert_eq!(BootArg::Present.choose(&[], None), Err(BootError::Beyond(0)));
    }

    #[test]
    fn ids_have_hyphens_or_not() {
        let id = parse_id(ID).unwrap();
        assert_eq!(parse_id("01234567-89ab-cdef-0123-456789abcdef\n"), Some(id));
        assert_eq!(id_text(&id), ID);
        assert_eq!("01234567-89ab-cdef-0123-456789abcdef-1".parse(), Ok(BootArg::Id(id, -1)));
        assert!(present().is_some());
    }

    #[test]
    fn what_is_no_boot_is_refused() {
        for text in ["x", "--1", "1.5", &ID[1..], &format!("{ID}x"), "99999999999999999999"] {
            assert!(text.parse::<BootArg>().is_err(), "{text:?}");
        }
    }
}
