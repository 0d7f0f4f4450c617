//! What was measured, for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::condition::Condition;
use super::workload::Workload;
use super::{Density, Measured};
use crate::spread;

impl Measured {
    fn of(&self, condition: Condition, workload: Workload) -> &[f64] {
        self.samples.get(&(condition, workload)).map_or(&[], Vec::as_slice)
    }

    /// What a condition adds to the workload's figure; not a number where it was not measured.
    fn added(&self, condition: Condition, workload: Workload) -> f64 {
        spread(self.of(condition, workload)).0 - spread(self.of(Condition::Off, workload)).0
    }

    /// The same by the least disturbed round of each: other machines on this one's processor make
    /// medians of so short loops differ by more than what is compared.
    fn added_at_least(&self, condition: Condition, workload: Workload) -> f64 {
        spread(self.of(condition, workload)).1 - spread(self.of(Condition::Off, workload)).1
    }

    fn all_lanes(&self) -> (u64, u64) {
        self.density
            .iter()
            .fold((0, 0), |(bytes, events), lane| (bytes + lane.bytes, events + lane.events))
    }
}

/// A table for each workload.
pub(super) fn text(measured: &Measured) -> String {
    let mut out = format!(
        "Median of {} interleaved rounds on CPU {} (least to greatest); of loops, the least \
         disturbed repetition of each round.\n`adds` is over off, and compared with what the \
         clock floor and ftrace add; `least`: the same by the least of all rounds.\n",
        measured.rounds, measured.cpu
    );
    for workload in Workload::ALL {
        let _ = writeln!(out, "\n{} ({})", workload.name(), workload.what());
        let heads = [
            "median",
            "(least to greatest)",
            "adds",
            "x off",
            "x clock floor",
            "least",
            "x ftrace",
            "least",
        ];
        let _ = writeln!(
            out,
            "  {:<28}{:>9}  {:<20}{:>8}{:>8}{:>15}{:>7}{:>10}{:>7}",
            "", heads[0], heads[1], heads[2], heads[3], heads[4], heads[5], heads[6], heads[7]
        );
        for condition in Condition::ALL {
            if let Some((_, why)) =
                measured.missing.iter().find(|(missing, _)| *missing == condition)
            {
                let _ = writeln!(out, "  {:<28}not measured: {why}", condition.name());
                continue;
            }
            let (median, least, greatest) = spread(measured.of(condition, workload));
            let range = format!("({least:.0} to {greatest:.0})");
            let _ = write!(out, "  {:<28}{median:>9.0}  {range:<20}", condition.name());
            if condition != Condition::Off {
                let added = measured.added(condition, workload);
                let times = |of: Condition| ratio(added, measured.added(of, workload));
                let off = median / spread(measured.of(Condition::Off, workload)).0;
                let least = measured.added_at_least(condition, workload);
                let at_least = |of: Condition| ratio(least, measured.added_at_least(of, workload));
                let _ = write!(
                    out,
                    "{added:>8.0}{off:>8.2}{:>15}{:>7}{:>10}{:>7}",
                    times(Condition::ClockFloor),
                    at_least(Condition::ClockFloor),
                    times(Condition::Ftrace),
                    at_least(Condition::Ftrace)
                );
            }
            out.push('\n');
        }
    }
    if !measured.of(Condition::Before, Workload::Getppid).is_empty() {
        out.push_str("\nflightrec over the build of --against, of medians and of least:");
        for workload in Workload::ALL {
            let [now, before] = [Condition::Flightrec, Condition::Before]
                .map(|of| spread(measured.of(of, workload)));
            let _ = write!(
                out,
                "  {} x {:.3}, {:.3}",
                workload.name(),
                now.0 / before.0,
                now.1 / before.1
            );
        }
        out.push('\n');
    }
    for (condition, whose) in
        [(Condition::Sharing, "a young process"), (Condition::SharingOlder, "an older process")]
    {
        if measured.of(condition, Workload::Getppid).is_empty() {
            continue;
        }
        let [plenty, short] =
            [Condition::Drawing, condition].map(|of| spread(measured.of(of, Workload::Getppid)));
        let _ = writeln!(
            out,
            "\nA getppid of {whose} where its bucket looks at who draws, over one where it holds \
             plenty: {:+.1} ns, x {:.3}; of the least {:+.1} ns",
            short.0 - plenty.0,
            short.0 / plenty.0,
            short.1 - plenty.1
        );
    }
    out.push_str(
        "\nRing bytes an event, the mix, strings = false (an entry and an exit are two events):\n",
    );
    for lane in &measured.density {
        let _ = writeln!(out, "  {}", density(lane.lane.name(), lane.bytes, lane.events));
    }
    let (bytes, events) = measured.all_lanes();
    let _ = writeln!(out, "  {}", density("all", bytes, events));
    out
}

fn density(name: &str, bytes: u64, events: u64) -> String {
    if events == 0 {
        return format!("{name:<10} no whole page");
    }
    format!("{name:<10} {:>6.1}  ({events} events)", bytes as f64 / events as f64)
}

fn ratio(a: f64, b: f64) -> String {
    if a.is_finite() && b > 0.0 { format!("{:.2}", a / b) } else { "-".into() }
}

/// The same as one object. A figure that was not measured is null.
pub(super) fn json(measured: &Measured) -> Value {
    let mut workloads = serde_json::Map::new();
    for workload in Workload::ALL {
        let mut conditions = serde_json::Map::new();
        for condition in Condition::ALL {
            let samples = measured.of(condition, workload);
            if samples.is_empty() {
                continue;
            }
            let (median, least, greatest) = spread(samples);
            let added = measured.added(condition, workload);
            let at_least = measured.added_at_least(condition, workload);
            let least_of = |other| at_least / measured.added_at_least(other, workload);
            let figure = json!({
                "least_of_clock_floor": least_of(Condition::ClockFloor),
                "least_of_ftrace": least_of(Condition::Ftrace),
                "median": median, "least": least, "greatest": greatest, "added": added,
                "samples": samples,
                "of_clock_floor": added / measured.added(Condition::ClockFloor, workload),
                "of_ftrace": added / measured.added(Condition::Ftrace, workload),
            });
            conditions.insert(condition.key().into(), figure);
        }
        let described = json!({ "what": workload.what(), "conditions": conditions });
        workloads.insert(workload.name().into(), described);
    }
    let missing: serde_json::Map<String, Value> = measured
        .missing
        .iter()
        .map(|(condition, why)| (condition.key().into(), json!(why)))
        .collect();
    let lane = |lane: &Density| {
        let figure =
            json!({ "bytes": lane.bytes, "events": lane.events, "bytes_an_event": lane.ratio() });
        (lane.lane.name().to_owned(), figure)
    };
    let (bytes, events) = measured.all_lanes();
    json!({
        "cpu": measured.cpu, "rounds": measured.rounds, "workloads": workloads,
        "not_measured": missing,
        "density": measured.density.iter().map(lane).collect::<serde_json::Map<_, _>>(),
        "bytes_an_event": (events != 0).then(|| bytes as f64 / events as f64),
    })
}
