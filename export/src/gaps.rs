//! Gaps and coverage in words and numbers, for every format.

use flightrec_format::abi::counts::Counts;
use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::page::{Lane, Refusal};
use flightrec_format::ring::{Gap, Reason};
use flightrec_reader::coverage::Report;

/// What a gap lost: each kind's name with its count, and what was refused, by reason.
pub fn lost(gap: &Gap) -> impl Iterator<Item = (String, u64)> + '_ {
    // What the probes refused was never recorded: none of it is missing from the rings.
    let kinds = gap.lost.filter(|_| gap.reason != Reason::Refused);
    let kinds = kinds.into_iter().flat_map(|lost: Counts| {
        let named = |(index, n): (usize, u64)| {
            let name = Kind::counted(gap.lane, index).map_or("unknown", Kind::name);
            (format!("lost_{name}"), n)
        };
        lost.present().map(named).collect::<Vec<_>>()
    });
    let refused = [(Refusal::Busy, "refused_busy"), (Refusal::Throttled, "refused_throttled")];
    let refused = refused.into_iter().filter_map(|(reason, name)| {
        let n = *gap.refused.get(reason as usize)?;
        (n != 0).then(|| (name.to_owned(), n))
    });
    kinds.chain(refused)
}

/// How many events a gap lacks, refused ones included; `None`: nobody can tell.
pub fn missing(gap: &Gap) -> Option<u64> {
    let refused = [Refusal::Busy, Refusal::Throttled]
        .into_iter()
        .filter_map(|reason| gap.refused.get(reason as usize))
        .fold(0u64, |sum, n| sum.saturating_add(*n));
    match gap.reason {
        Reason::Refused => Some(refused),
        _ => gap.missing().map(|lost| lost.saturating_add(refused)),
    }
}

/// What each lane has of a window: `complete`, `complete on CPUs 0, 2 of 4`, `left out`.
pub fn lanes(report: &Report) -> impl Iterator<Item = (&'static str, String)> + '_ {
    Lane::RINGS.into_iter().map(|lane| {
        let (complete, all) = (report.complete_cpus(lane), report.cpus(lane));
        let text = if report.is_off(lane) {
            "left out by the configuration".to_owned()
        } else if complete.len() == all {
            "complete".to_owned()
        } else if complete.is_empty() {
            format!("incomplete on all {all} CPUs")
        } else {
            let cpus: Vec<String> = complete.iter().map(ToString::to_string).collect();
            format!("complete on CPUs {} of {all}", cpus.join(", "))
        };
        (lane.name(), text)
    })
}
