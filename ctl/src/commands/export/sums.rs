//! Which sums of minutes an export has beside its events.

use flightrec_export::parquet::Sums;

use super::plan::ExportPlan;
use crate::filter::FilterPlan;
use crate::report::minutes;

/// Those of the window; where there can be none, why.
pub(super) fn of(plan: &ExportPlan) -> Sums {
    let past = &plan.events.past;
    if plan.events.shown.filter != FilterPlan::all() {
        return Sums::None("sums of minutes are of all events, and a filter was given");
    }
    if past.history.boot.is_some() {
        return Sums::None("sums of minutes are of all boots, and --boot was given");
    }
    let place = if plan.dump.is_none() { minutes::place(past) } else { None };
    match place {
        Some((state_dir, window)) => Sums::Of(state_dir, window),
        None => {
            Sums::None("only a recorder and its state directory (--store) have sums of minutes")
        }
    }
}
