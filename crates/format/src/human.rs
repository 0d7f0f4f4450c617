//! Numbers for people.

use std::fmt::Write as _;

/// `1.5 MiB`
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut scaled = n as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    let text = format!("{scaled:.1}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// `1 event`, `2 events`
pub fn counted(n: u64, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `12.3 s`, `4m 10s`, `2d 3h`
pub fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{:.1} ms", ns as f64 / 1e6),
        1..60 => format!("{:.1} s", ns as f64 / 1e9),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// `0-3, 5`: numbers in ascending order.
pub fn ranges(numbers: impl IntoIterator<Item = u16>) -> String {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(n) => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let mut out = String::new();
    for (i, (first, last)) in runs.iter().enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        // Writing to a string can't fail.
        let _ = if first == last {
            write!(out, "{comma}{first}")
        } else {
            write!(out, "{comma}{first}-{last}")
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(16 << 20), "16 MiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }

    #[test]
    fn spans() {
        assert_eq!(span(1_500_000), "1.5 ms");
        assert_eq!(span(12_345_000_000), "12.3 s");
        assert_eq!(span(250_000_000_000), "4m 10s");
        assert_eq!(span(3_660_000_000_000), "1h 1m");
        assert_eq!(span(180_000_000_000_000), "2d 2h");
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(ranges([0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
        assert_eq!(ranges([]), "");
        assert_eq!(ranges([u16::MAX]), "65535");
    }
}
