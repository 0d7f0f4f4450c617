//! Distributed traces: which of them, and whether events are shown with them.

use clap::Args;

use crate::filter::FilterPlan;
use crate::value::trace;

/// The same for every command that shows events.
#[derive(Debug, Default, Args)]
pub struct TraceArgs {
    /// Events of threads while they work for these distributed traces, according to marks with a
    /// W3C trace context or to thread contexts (docs/otlp.md): 32 hexadecimal digits, or a whole
    /// traceparent. Implies --traces.
    #[arg(
        long,
        value_name = "ID",
        value_delimiter = ',',
        value_parser = trace,
        help_heading = "Filters (separate values by commas; an event must match all filters)"
    )]
    pub trace: Vec<[u8; 16]>,
    /// Show the trace and the span that the thread of each event works for, where a mark or a
    /// thread context in the window, or in the 2 s before it, says so. The whole window is read
    /// for that.
    #[arg(long, help_heading = "Output")]
    pub traces: bool,
}

impl TraceArgs {
    /// Whether events are shown with their spans; the filter with the traces that are asked for.
    pub fn plan(self, filter: FilterPlan) -> (bool, FilterPlan) {
        let Self { trace, traces } = self;
        (traces || !trace.is_empty(), filter.of_traces(trace))
    }
}
