//! The pages of one CPU's ring of one lane, from any source, put back together: events in order,
//! and what is missing, exactly.

mod coverage;
mod gap;
mod rings;
mod sequence;
mod stream;

pub use coverage::{RingCoverage, Scope};
pub use gap::{Gap, Reason, is_loss};
pub use rings::Rings;
pub use sequence::Sequence;
pub use stream::{Events, IntoEvents, LaneStream};
