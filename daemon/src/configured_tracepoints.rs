//! Tracepoints that the configuration names: what the running kernel publishes of them, and what
//! the program that records them is told.

mod condition;
mod expression;
mod format;
mod print;

use std::io;
use std::path::Path;

use flightrec_format::abi::record::tracepoint::{BYTES_MAX, COMMON};
use flightrec_format::abi::tracepoint::{ADDRESSES, FUNCTION, PARTS, RELATIVE, TracepointPlan};
use flightrec_format::meta::{self, Field, Place, ValueForm};
use serde::{Deserialize, Serialize};

pub use condition::Condition;

use crate::syscalls::{TracefsError, events_dir, read_bounded, tracepoint_id};

/// What the names of pins begin with.
const PIN: &str = "tracepoint-";
/// Most names that are suggested for a wrong one.
const SUGGESTIONS: usize = 3;
/// Least likeness of a name that is suggested (`strsim::jaro_winkler`).
const SIMILAR: f64 = 0.85;

/// `[[tracepoint]]` of the configuration: a tracepoint that is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfiguredTracepoint {
    /// `SUBSYSTEM:NAME`, as `perf list` has it.
    pub event: String,
    /// The condition under which an event is recorded, by its fields; none: always.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether with the kernel's stack.
    pub stack: bool,
}

/// The name of the pin of a tracepoint's link, by its number in the recording.
pub fn pin(id: u16) -> String {
    format!("{PIN}{id}")
}

/// Whether a link of this name is a configured tracepoint's.
pub fn is_pin(name: &str) -> bool {
    name.starts_with(PIN)
}

/// What the kernel publishes of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Its number, by which it is attached to.
    pub id: u32,
    /// Its `format`.
    pub format: String,
}

/// Looks a tracepoint up. The error says in words what the kernel has not.
pub fn look_up(tracefs: &Path, event: &str) -> Result<Result<Published, String>, TracefsError> {
    let Some((subsystem, name)) = event.split_once(':') else {
        return Ok(Err(format!("`{event}` is not SUBSYSTEM:NAME")));
    };
    let id = match tracepoint_id(tracefs, subsystem, name) {
        Err(TracefsError::NoEvent { .. }) => {
            let near = nearest(tracefs, subsystem, name);
            let hint = if near.is_empty() {
                "; `perf list tracepoint` has all".to_owned()
            } else {
                format!("; did you mean {}?", near.join(" or "))
            };
            return Ok(Err(format!("this kernel has no tracepoint {event}{hint}")));
        }
        other => other?,
    };
    let path = events_dir(tracefs)?.join(subsystem).join(name).join("format");
    let format = read_bounded(&path);
    let format = format.map_err(|source| TracefsError::Read { path, source })?;
    Ok(Ok(Published { id, format }))
}

/// The names most like a wrong one: in its subsystem, or the same in another.
fn nearest(tracefs: &Path, subsystem: &str, name: &str) -> Vec<String> {
    let names = |path: &Path| -> io::Result<Vec<String>> {
        let dirs = path.read_dir()?.flatten().filter(|of| of.path().is_dir());
        Ok(dirs.map(|of| of.file_name().to_string_lossy().into_owned()).collect())
    };
    let Ok(events) = events_dir(tracefs) else { return Vec::new() };
    let mut found: Vec<(f64, String)> = Vec::new();
    for of in names(&events).unwrap_or_default() {
        for event in names(&events.join(&of)).unwrap_or_default() {
            let likeness = strsim::jaro_winkler(name, &event);
            let same = strsim::jaro_winkler(subsystem, &of);
            if likeness.min(same) >= SIMILAR || event == name {
                found.push((likeness + same, format!("{of}:{event}")));
            }
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    found.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
}

/// What is to be recorded of a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// Its number in the kernel.
    pub id: u32,
    /// For the metadata; without its number in the recording.
    pub described: meta::Tracepoint,
    /// For the program.
    pub event: TracepointPlan,
}

/// What the configuration says of a tracepoint, by what the kernel publishes of it. The error says
/// in words what is wrong; `key`: in which of the table's keys.
pub fn prepare(table: &ConfiguredTracepoint, published: &Published) -> Result<Prepared, Wrong> {
    let event = |message: String| Wrong { key: "event", message };
    let name = &table.event;
    let Some(mut fields) = format::fields(&published.format) else {
        return Err(event(format!("the kernel's format of {name} is not understood")));
    };
    if name.starts_with("syscalls:") {
        // Programs do not get the strings that Linux 6.19 puts after the arguments
        // (`perf_call_bpf_enter`, kernel/trace/trace_syscalls.c).
        fields.retain(|field| field.place == Place::Here);
    }
    let here = |field: &Field| u32::from(field.at) - COMMON as u32;
    let fixed = fields.iter().map(|field| here(field) + u32::from(field.size)).max().unwrap_or(0);
    let mut out =
        TracepointPlan { there: 1, fixed, stack: table.stack.into(), ..TracepointPlan::NONE };
    let parts = fields.iter().filter(|field| field.place != Place::Here);
    // Where a word is after what is recorded, so is its part.
    let parts = parts.filter(|field| here(field) as usize + 4 <= BYTES_MAX);
    let parts: Vec<u32> = parts
        .map(|field| here(field) | if field.place == Place::RelLoc { RELATIVE } else { 0 })
        .collect();
    if parts.len() > PARTS {
        let count = parts.len();
        return Err(event(format!(
            "{name} has {count} fields of variable length, more than the {PARTS} there may be"
        )));
    }
    let functions = format::functions(&published.format);
    let of_field = |field: &Field| {
        let function = if functions.contains(&field.name) { FUNCTION } else { 0 };
        addresses(field).into_iter().map(move |at| at | function)
    };
    let addresses: Vec<u32> = fields.iter().flat_map(of_field).collect();
    if addresses.len() > ADDRESSES {
        let count = addresses.len();
        return Err(event(format!(
            "{name} has {count} words that may be addresses of the kernel, more than the \
             {ADDRESSES} that can be hidden"
        )));
    }
    (out.parts, out.addresses) = (parts.len() as u32, addresses.len() as u32);
    out.part.iter_mut().zip(&parts).for_each(|(out, part)| *out = *part);
    out.address.iter_mut().zip(&addresses).for_each(|(out, address)| *out = *address);
    if let Some(when) = &table.when {
        let tests = Condition::parse(when).and_then(|condition| condition.compile(&fields));
        let tests = tests.map_err(|message| Wrong { key: "when", message })?;
        out.tests = tests.len() as u32;
        out.test.iter_mut().zip(&tests).for_each(|(out, test)| *out = *test);
    }
    let described = meta::Tracepoint {
        name: name.clone(),
        when: table.when.clone().unwrap_or_default(),
        stack: table.stack,
        fields,
        ..meta::Tracepoint::default()
    };
    Ok(Prepared { id: published.id, described, event: out })
}

/// What is wrong with a table of the configuration, on this kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Its key.
    pub key: &'static str,
    /// What it is, in words.
    pub message: String,
}

/// Where a field has words that may be addresses of the kernel: pointers, and numbers of 64 bits
/// without a sign, as which some tracepoints publish them.
fn addresses(field: &Field) -> Vec<u32> {
    let here = u32::from(field.at) - COMMON as u32;
    let is_word = field.width == 8 && !field.signed && field.place == Place::Here;
    if !is_word || !matches!(field.value, ValueForm::Number | ValueForm::Array) {
        return Vec::new();
    }
    let words = (0..u32::from(field.size) / 8).map(|i| here + 8 * i);
    words.filter(|at| *at as usize + 8 <= BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: t\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:void * ptr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n\
        \tfield:unsigned long args[2];\toffset:24;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] name;\toffset:40;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc u8[] bytes;\toffset:44;\tsize:4;\tsigned:0;\n\n\
        print fmt: \"%p\", REC->ptr\n";

    fn published() -> Published {
        Published { id: 7, format: FORMAT.into() }
    }

    fn table(event: &str, when: Option<&str>) -> ConfiguredTracepoint {
        ConfiguredTracepoint { event: event.into(), when: when.map(str::to_owned), stack: true }
    }

    #[test]
    fn the_program_is_told_what_there_is() {
        let prepared =
            prepare(&table("a:t", Some("ret < 0 && name == 'x'")), &published()).unwrap();
        let TracepointPlan { there, fixed, stack, parts, addresses, tests, .. } = prepared.event;
        assert_eq!((there, fixed, stack), (1, 40, 1));
        assert_eq!((parts, &prepared.event.part[..2]), (2, &[0x20, 0x24 | RELATIVE][..]));
        assert_eq!((addresses, &prepared.event.address[..3]), (3, &[0, 16, 24][..]));
        assert_eq!((tests, prepared.event.test[0].at), (2, 8));
        assert_eq!(prepared.described.fields.len(), 5);
        assert!(prepared.described.fields[0].hex);
        let of_calls = prepare(&table("syscalls:t", None), &published()).unwrap();
        assert_eq!((of_calls.event.parts, of_calls.event.fixed), (0, 32));
    }

    #[test]
    fn what_is_wrong_names_its_key() {
        let wrong = prepare(&table("a:t", Some("error == 1")), &published()).unwrap_err();
        assert_eq!(wrong.key, "when");
        assert!(wrong.message.starts_with("it has no field `error`; its fields are: ptr, ret, "));
        let bad = Published { format: "field:x;".into(), ..published() };
        assert_eq!(prepare(&table("a:t", None), &bad).unwrap_err().key, "event");
    }

    #[test]
    fn near_names_are_suggested() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["ext4/ext4_sync_file_exit", "ext4/ext4_da_write", "sched/sched_switch"] {
            std::fs::create_dir_all(dir.path().join("events").join(name)).unwrap();
        }
        let known = dir.path().join("events/sched/sched_switch");
        std::fs::write(known.join("id"), "7\n").unwrap();
        std::fs::write(known.join("format"), FORMAT).unwrap();
        let found = |event| look_up(dir.path(), event).unwrap();
        assert_eq!(found("sched:sched_switch"), Ok(published()));
        let hints = [
            ("ext4:ext4_sync_file_exti", "did you mean ext4:ext4_sync_file_exit?"),
            ("ext3:ext4_da_write", "did you mean ext4:ext4_da_write?"),
            ("what:ever", "`perf list tracepoint` has all"),
            ("sched", "`sched` is not SUBSYSTEM:NAME"),
        ];
        for (event, hint) in hints {
            let error = found(event).unwrap_err();
            assert!(error.ends_with(hint), "{error}");
        }
        assert!(look_up(&dir.path().join("none"), "a:b").is_err());
    }
}
