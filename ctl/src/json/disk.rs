//! Requests to disks: what is known of one, and what those of a call or a wait come to.

use flightrec_reader::pipeline::{DiskUse, Request};

use crate::text::number::decimal;

/// `,"queue_ns":…,"service_ns":…,"issued_by":…`, of which what is not known is absent.
pub(super) fn request(request: Option<&Request>, out: &mut Vec<u8>) {
    let Some(Request { issued_by, queue_ns, service_ns }) = request else { return };
    let by = issued_by.map(u64::from);
    let fields = [("queue_ns", *queue_ns), ("service_ns", *service_ns), ("issued_by", by)];
    for (name, value) in fields {
        if let Some(value) = value {
            field(name, value, out);
        }
    }
}

/// `,"disk_requests":…,"disk_busy_ns":…,"disk_queue_ns":…,"disk_service_ns":…`
pub(super) fn of_call(disk: Option<&DiskUse>, out: &mut Vec<u8>) {
    let Some(DiskUse { requests, busy_ns, queue_ns, service_ns }) = disk else { return };
    field("disk_requests", u64::from(*requests), out);
    field("disk_busy_ns", *busy_ns, out);
    field("disk_queue_ns", *queue_ns, out);
    field("disk_service_ns", *service_ns, out);
}

/// `,"next_disk_requests":…,"next_disk_busy_ns":…,"next_disk_queue_ns":…,"next_disk_service_ns":…`
pub(super) fn of_wait(disk: Option<&DiskUse>, out: &mut Vec<u8>) {
    let Some(DiskUse { requests, busy_ns, queue_ns, service_ns }) = disk else { return };
    field("next_disk_requests", u64::from(*requests), out);
    field("next_disk_busy_ns", *busy_ns, out);
    field("next_disk_queue_ns", *queue_ns, out);
    field("next_disk_service_ns", *service_ns, out);
}

fn field(name: &str, value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    decimal(value, out);
}
