//! Why a thread was slow. Events become a story (`ingest`) that the model of causes
//! (`flightrec_analysis::why`) is asked about (`question`), with the names of the recording
//! ([`words`]); of a snapshot about its cause (`cause`); the answer is text ([`text`]) or JSON
//! ([`json`]).

pub mod args;
mod cause;
mod contexts;
pub(crate) mod hidden;
mod ingest;
pub mod json;
pub mod plan;
mod question;
pub mod run;
pub mod text;
pub mod words;

pub use self::args::{WhyArgs, WhyFormat};
pub use self::plan::WhyPlan;
pub(crate) use self::run::about;
pub use self::run::of_thread;
