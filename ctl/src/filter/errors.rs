//! Errors by name.

use flightrec_reader::names::errno;

use super::FilterError;
use crate::suggest::{hint, nearest};

/// Greatest error number that has a name, the kernel's internal ones included.
const LAST: i32 = 530;
/// Other names of the same numbers.
const ALIASES: [(&str, i32); 3] = [
    ("EWOULDBLOCK", libc::EWOULDBLOCK),
    ("EDEADLOCK", libc::EDEADLOCK),
    ("ENOTSUP", libc::ENOTSUP),
];

/// The number of an error given by name or number.
pub(super) fn number(name: &str) -> Result<i32, FilterError> {
    let upper = name.to_ascii_uppercase();
    let known = || (1..=LAST).filter_map(|number| Some((errno(number)?, number))).chain(ALIASES);
    if let Some((_, number)) = known().find(|(name, _)| *name == upper) {
        return Ok(number);
    }
    match upper.trim_start_matches('-').parse() {
        Ok(number @ 1..=4095) => Ok(number),
        _ => Err(FilterError::Errno {
            name: name.to_owned(),
            hint: hint(&nearest(&upper, known().map(|(name, _)| name))),
        }),
    }
}
