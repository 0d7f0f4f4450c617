//! Times as programs print them: since 1970.

use jiff::Timestamp;

/// Digits from which on a number without an `@` is a time since 1970, and none of day: 1973 had
/// nine.
const DIGITS_LEAST: usize = 9;
/// Most digits of seconds: jiff's times end in the year 9999.
const SECONDS_MOST: usize = 12;
/// Least digits of nanoseconds: from 1973 on.
const NANOS_LEAST: usize = 18;
/// Digits of a fraction that count.
const FRACTION: usize = 9;

/// Seconds since 1970, also with a fraction, or nanoseconds; an `@` may stand before them, as for
/// date(1). `None`: it looks like neither.
pub fn parse(text: &str) -> Option<Result<Timestamp, String>> {
    let marked = text.strip_prefix('@');
    let number = marked.unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_number =
        !whole.is_empty() && digits(whole) && digits(fraction) && !number.ends_with('.');
    match marked {
        None if !is_number || whole.len() < DIGITS_LEAST => None,
        Some(_) if !is_number => Some(Err(wrong())),
        _ => Some(moment(whole, fraction).ok_or_else(wrong)),
    }
}

fn wrong() -> String {
    "not a time; use seconds since 1970 (1767225600, 1767225600.25) or nanoseconds \
     (1767225600250000000)"
        .to_owned()
}

fn moment(whole: &str, fraction: &str) -> Option<Timestamp> {
    let number: i128 = whole.parse().ok()?;
    match whole.trim_start_matches('0').len() {
        NANOS_LEAST.. if fraction.is_empty() => Timestamp::from_nanosecond(number).ok(),
        ..=SECONDS_MOST => {
            let nanos: String =
                fraction.chars().chain("0".repeat(FRACTION).chars()).take(FRACTION).collect();
            let nanos: i128 = nanos.parse().ok()?;
            Timestamp::from_nanosecond(number.checked_mul(1_000_000_000)?.checked_add(nanos)?).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_nanoseconds() {
        let at = |text: &str| parse(text).unwrap().map(Timestamp::as_nanosecond);
        let second = 1_767_225_600_000_000_000;
        for text in [
            "1767225600",
            "@1767225600",
            "1767225600.0",
            "1767225600000000000",
            "@1767225600000000000",
        ] {
            assert_eq!(at(text), Ok(second), "{text}");
        }
        assert_eq!(at("1767225600.25"), Ok(second + 250_000_000));
        assert_eq!(at("1767225600.0000000019"), Ok(second + 1));
        assert_eq!((at("@0"), at("@0.5")), (Ok(0), Ok(500_000_000)));
    }

    #[test]
    fn what_is_neither_is_refused_or_something_else() {
        for text in [
            "@",
            "@x",
            "@-1",
            "@1.",
            "@1.5.2",
            "1767225600000",
            "1767225600000000",
            "9999999999999999999999",
        ] {
            assert!(parse(text).is_some_and(|moment| moment.is_err()), "{text}");
        }
        for text in [
            "",
            "14:03:07",
            "140307",
            "20260131",
            "2026-01-31",
            "now",
            "1767225600s",
            "1767225600.",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
