//! OTLP: snapshots as log records, metrics, and waits as spans, to a collector of OpenTelemetry.
//!
//! - [`record`], [`spans`] and [`metrics`] make the messages ([`message`]) of what `flightctl` says
//!   ([`answer`], [`exposition`]), and of this machine ([`resource`]).
//! - A [`client`] sends them, over HTTP or gRPC, and says what became of each.
//! - [`diary`] remembers which snapshots were told, and counts.

pub mod answer;
pub mod client;
pub mod diary;
pub mod exposition;
#[cfg(test)]
pub(crate) mod fake;
mod grpc;
mod http;
pub mod message;
pub mod metrics;
pub mod record;
pub mod resource;
pub mod spans;
#[cfg(test)]
mod tests;
