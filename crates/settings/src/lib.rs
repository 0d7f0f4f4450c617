//! Configuration files of flightrec's services: TOML in which every key is known, sizes and spans
//! of time in human units, and errors that name the file, the line and the nearest right key.
//!
//! [`log`] is where a service's messages go.
//!
//! What may stand in a file, and what it means, is the service's own: it gives its defaults, and
//! which keys there are follows from them.

mod document;
mod error;
pub mod log;
mod size;
mod span;

pub use document::{Document, Keys};
pub use error::{ConfigError, Service, read};
pub use size::Size;
pub use span::Span;
