//! Requests to disks that were not done when the machine died.

use flightrec_format::abi::kinds::Names;
use flightrec_format::abi::value_names::BLOCK_OPS;
use flightrec_reader::pipeline::requests::in_flight;
use flightrec_reader::source::PageSet;
use serde::Serialize;

use crate::text::devices::Devices;
use flightrec_format::human::span;

/// A request at the moment of death.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RequestInFlight {
    /// Its disk, by name, or as `major:minor`.
    device: String,
    /// What was to be done.
    op: String,
    /// Its first sector that is not done.
    sector: u64,
    /// Its bytes that are not done.
    bytes: u32,
    /// Whether the driver has it; else it is queued in the I/O scheduler.
    issued: bool,
    /// The thread that queued it, or issued it where it was not queued; none: not known.
    issued_by: Option<u32>,
    /// For how long it was under way.
    ns: u64,
}

/// Those of a recording that ends at `now`, oldest first.
pub(crate) fn requests(recording: &PageSet, now: u64) -> Vec<RequestInFlight> {
    let devices = Devices::new(&recording.meta);
    let flights = in_flight(recording).into_iter();
    let one = |flight: flightrec_reader::pipeline::Flight| {
        let mut device = Vec::new();
        devices.write(flight.device, &mut device);
        RequestInFlight {
            device: String::from_utf8_lossy(&device).into_owned(),
            op: named(flight.op, BLOCK_OPS),
            sector: flight.sector,
            bytes: flight.bytes,
            issued: flight.issued.is_some(),
            issued_by: flight.by,
            ns: now.saturating_sub(flight.began()),
        }
    };
    flights.map(one).collect()
}

/// A value's name; in hexadecimal digits where it has none.
fn named(value: u32, names: Names) -> String {
    let name = names.iter().find(|(of, _)| *of == u64::from(value));
    name.map_or_else(|| format!("{value:#x}"), |(_, name)| (*name).to_owned())
}

impl RequestInFlight {
    /// What stands over the lines.
    pub(crate) const HEAD: &str =
        "         FOR  DEVICE           OP                 BYTES          SECTOR  BY\n";

    /// `      2.1 ms  vda              write               4096        12581408  4711, at the disk`
    pub(crate) fn line(&self) -> String {
        let Self { device, op, sector, bytes, issued, issued_by, ns } = self;
        let by = issued_by.map_or_else(|| "?".to_owned(), |by| by.to_string());
        let place = if *issued { "at the disk" } else { "queued" };
        format!(
            "{:>12}  {device:<15}  {op:<12}  {bytes:>10}  {sector:>14}  {by}, {place}\n",
            span(*ns)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_line() {
        let request = RequestInFlight {
            device: "vda".into(),
            op: named(1, BLOCK_OPS),
            sector: 12_581_408,
            bytes: 4096,
            issued: true,
            issued_by: Some(4711),
            ns: 2_100_000,
        };
        let line = "      2.1 ms  vda              write               4096        12581408  4711, \
                    at the disk\n";
        assert_eq!(request.line(), line);
        let queued = RequestInFlight { issued: false, issued_by: None, ..request };
        assert!(queued.line().ends_with("  ?, queued\n"), "{}", queued.line());
        let end = |head: &str, word: &str| head.find(word).unwrap() + word.len();
        assert_eq!(end(RequestInFlight::HEAD, "SECTOR"), end(line, "12581408"));
        assert_eq!(end(RequestInFlight::HEAD, "BYTES"), end(line, "4096"));
        assert_eq!(named(99, BLOCK_OPS), "0x63");
    }
}
