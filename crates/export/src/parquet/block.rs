//! Requests to disks.

use std::fmt::Write as _;

use flightrec_format::abi::kinds::{BlockComplete, BlockIssue, Kind, Names};
use flightrec_format::abi::value_names::{BLOCK_ERRORS, BLOCK_FLAGS, BLOCK_OPS};
use flightrec_format::decode::{Event, Plain};
use flightrec_reader::pipeline::EventContext;
use flightrec_reader::threads::trim;

use super::people::some;
use super::{Details, Parquet, Table, closed};
use crate::exporter::ExportError;
use crate::printable::printable;

/// The name of a value; its number where it has none.
fn named(names: Names, value: u32, text: &mut String) {
    match names.iter().find(|(of, _)| *of == u64::from(value)) {
        Some((_, name)) => text.push_str(name),
        // Writing to a text does not fail.
        None => drop(write!(text, "{value}")),
    }
}

/// Flags by name.
fn flags(names: Names, value: u32, text: &mut String) {
    let mut rest = u64::from(value);
    for (flag, name) in names.iter().filter(|(flag, _)| *flag != 0) {
        if rest & flag == *flag {
            rest &= !flag;
            if !text.is_empty() {
                text.push('|');
            }
            text.push_str(name);
        }
    }
    if rest != 0 {
        let bar = if text.is_empty() { "" } else { "|" };
        let _ = write!(text, "{bar}{rest:#x}");
    }
}

impl Parquet {
    /// The row of an event of a request, and of the request where it is done.
    pub(super) fn block(
        &mut self,
        event: &Event,
        plain: &Plain,
        known: &EventContext<'_>,
    ) -> Result<(), ExportError> {
        // All three begin alike.
        let Some(of) = BlockIssue::read(plain.bytes()) else { return Ok(()) };
        let (mut op, mut how) = (String::new(), String::new());
        named(BLOCK_OPS, of.op, &mut op);
        flags(BLOCK_FLAGS, of.flags, &mut how);
        let device = self.devices.name(of.device);
        let request = known.request.unwrap_or_default();
        let took = request.service_ns.filter(|_| plain.kind() == Kind::BlockComplete);
        let mut fields = std::mem::take(&mut self.text);
        fields.clear();
        // The device's name is printable, but may have a `\` or a `"`.
        fields.push_str("{\"device\":");
        crate::json::string(&device, &mut fields);
        let _ = write!(
            fields,
            ",\"request\":\"{:#010x}\",\"sector\":{},\"bytes\":{}}}",
            of.request, of.sector, of.bytes
        );
        let details = Details {
            name: Some(&op),
            took: took.map(|ns| ns as i64),
            fields: Some(&fields),
            ..Details::default()
        };
        let done = self.row(event, known, &details);
        self.text = fields;
        done?;
        let Some(done) =
            BlockComplete::read(plain.bytes()).filter(|_| plain.kind() == Kind::BlockComplete)
        else {
            return Ok(());
        };
        let mut error = String::new();
        if done.error != 0 {
            named(BLOCK_ERRORS, done.error, &mut error);
        }
        let who = request.issued_by.map(|tid| (tid, self.people.who(tid)));
        let comm = who.and_then(|(_, who)| who).map(|(_, comm)| comm);
        let comm = comm.as_ref().map(|comm| printable(trim(comm)));
        let Self { writer, id, .. } = self;
        let rows = writer.as_mut().ok_or_else(closed)?.rows(Table::BlockIo);
        rows.time(known.wall_ns)
            .int(i32::from(event.cpu))
            .text(&*device)
            .text(&*op)
            .long(of.sector as i64)
            .long(i64::from(of.bytes))
            .long(i64::from(done.left))
            .long(request.queue_ns.map(|ns| ns as i64))
            .long(request.service_ns.map(|ns| ns as i64))
            .int(who.map(|(tid, _)| tid as i32))
            .int(who.and_then(|(_, who)| who).map(|(pid, _)| pid as i32))
            .text(comm.as_deref().and_then(some))
            .text(some(&how))
            .text(some(&error))
            .text(&**id);
        Ok(())
    }
}
