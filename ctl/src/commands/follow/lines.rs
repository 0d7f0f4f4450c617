//! What a follower says beside the events.

use std::fmt::Write as _;

use super::tally::Tally;
use crate::text::coverage::{reasons, why};
use flightrec_format::human::{counted, span};

/// What it all came to: the first line adds up.
pub fn summary(tally: &Tally) -> Vec<String> {
    let Tally { shown, filtered, recorded, .. } = *tally;
    let skipped = tally.skipped.saturating_add(tally.cut);
    let mut first =
        format!("followed for {}: {} recorded = {shown} shown", span(tally.time), events(recorded));
    // Writing to a string can't fail.
    let _ = write!(first, " + {filtered} filtered out + {skipped} skipped");
    let known = shown.saturating_add(filtered).saturating_add(skipped);
    if recorded > known {
        let _ = write!(first, " + {} of kinds that this release does not know", recorded - known);
    }
    let mut lines = vec![first];
    if tally.cut != 0 {
        lines
            .push(format!("{} of those skipped were read, and left out to end in time", tally.cut));
    }
    if tally.unknown != 0 {
        lines
            .push(format!("{} in damaged pages, of unknown length", counted(tally.unknown, "gap")));
    }
    for (part, n) in &tally.undecided {
        lines.push(format!("{} filtered out undecided: {}", events(*n), why(*part, tally.strings)));
    }
    if tally.refused != [0; 2] {
        lines.push(format!(
            "not recorded: {} ({})",
            events(tally.refused.iter().sum()),
            reasons(&tally.refused)
        ));
    }
    if tally.no_ring != 0 {
        lines.push(format!("not recorded: {} on CPUs without rings", events(tally.no_ring)));
    }
    if tally.missed != 0 {
        lines.push(format!(
            "not recorded: {} skipped by the kernel (recursion)",
            events(tally.missed)
        ));
    }
    lines
}

fn events(n: u64) -> String {
    counted(n, "event")
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_summary_adds_up() {
        let tally = Tally {
            time: 60 * S,
            recorded: 20,
            shown: 9,
            filtered: 4,
            skipped: 5,
            cut: 1,
            ..Tally::default()
        };
        assert_eq!(
            summary(&tally),
            [
                "followed for 1m 0s: 20 events recorded = 9 shown + 4 filtered out + 6 skipped + \
                 1 of kinds that this release does not know",
                "1 of those skipped were read, and left out to end in time",
            ]
        );
        let tally =
            Tally { refused: [1, 2], no_ring: 3, missed: 4, unknown: 5, ..Tally::default() };
        assert_eq!(summary(&tally).len(), 5);
    }
}
