//! Numbers by their names.

use flightrec_reader::names::Set;

use super::number::{hex_or_zero, mode};

/// Writes `number` by the names of a set; what has none as a number, `0` for nothing at all.
pub(crate) fn flags(set: &Set, number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    let rest = set.split(number, |name| {
        bar(start, out);
        out.extend_from_slice(name.as_bytes());
    });
    if rest != 0 || out.len() == start {
        bar(start, out);
        if set.is_octal() {
            mode(rest, out);
        } else {
            hex_or_zero(rest, out);
        }
    }
}

/// What stands between two of them.
fn bar(start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.push(b'|');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_reader::names::{FILE_TYPE, TASK_STATE};

    #[test]
    fn names_are_joined_and_what_has_none_is_a_number() {
        let text = |set: &Set, number| {
            let mut out = b"x".to_vec();
            flags(set, number, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(&TASK_STATE, 0), "xTASK_RUNNING");
        assert_eq!(text(&TASK_STATE, 0x2001), "xTASK_INTERRUPTIBLE|TASK_FREEZABLE");
        assert_eq!(text(&TASK_STATE, 0x1_0001), "xTASK_INTERRUPTIBLE|0x10000");
        assert_eq!(text(&FILE_TYPE, 0o100_644), "xS_IFREG|0644");
        assert_eq!(text(&FILE_TYPE, 0), "x000");
    }
}
