//! System calls.

use std::sync::Arc;

use flightrec_format::abi::record::{Abi, NR_INVALID};
use flightrec_format::architecture::Architecture;
use flightrec_format::decode::Call;
use flightrec_reader::fds::FdNames;
use flightrec_reader::names::{NUMBERS, errno};

use super::{escape, value};
use crate::text::argument::{self, Kind, Number};
use crate::text::call::{Result, bare_name};
use crate::text::devices::Devices;
use crate::text::number::decimal;
use crate::text::piece::Piece;
use crate::text::plan::{Plan, Plans};

/// What is always the same of each call, written once per recording.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    plans: Arc<Plans>,
    native: Arc<[Option<Head>]>,
    compat: Arc<[Option<Head>]>,
    x32: Arc<[Option<Head>]>,
}

/// The beginnings of a call.
#[derive(Debug)]
struct Head {
    /// `sys_enter","syscall":"openat","nr":257,"abi":"native","args":[`
    enter: Piece<BEGINNING>,
    /// `sys_exit","syscall":"openat","nr":257,"abi":"native"`
    exit: Piece<BEGINNING>,
    /// `{"name":"dfd","value":`, with a comma before it where it is not the first.
    arguments: Box<[Piece<NAME>]>,
}

/// Room for what most calls' beginnings are, and for that of an argument.
const BEGINNING: usize = 80;
const NAME: usize = 32;

/// How each kind of event begins.
const ENTER: &[u8] = b"sys_enter\"";
const EXIT: &[u8] = b"sys_exit\"";
/// What stands before the arguments.
const ARGUMENTS: &[u8] = b",\"args\":[";

impl Calls {
    pub(super) fn new(plans: Arc<Plans>) -> Self {
        let table = |abi| {
            (0..NUMBERS as u16)
                .map(|nr| plans.get(abi, nr).map(|plan| Head::new(nr, abi, plan)))
                .collect()
        };
        let [native, compat, x32] = [Abi::Native, Abi::Compat, Abi::X32].map(table);
        Self { plans, native, compat, x32 }
    }

    /// Names of block devices.
    pub(super) fn devices(&self) -> &Devices {
        &self.plans.devices
    }

    /// `sys_enter","syscall":…,"nr":…,"abi":…,"args":[…]`
    pub(super) fn enter(&self, call: &Call, fds: FdNames<'_>, out: &mut Vec<u8>) {
        match self.table(call) {
            Some(head) => head.enter.write(out),
            None => unknown(ENTER, call, ARGUMENTS, out),
        }
        self.arguments(call, fds, out);
    }

    /// The same of its end, with what came of the call. Arguments only where the exit has them.
    pub(super) fn exit(
        &self,
        call: &Call,
        (ret, took): (i64, Option<u64>),
        whole: bool,
        fds: FdNames<'_>,
        out: &mut Vec<u8>,
    ) {
        match self.table(call) {
            Some(head) => head.exit.write(out),
            None => unknown(EXIT, call, b"", out),
        }
        if whole || (call.nargs > 0 || !call.strings.is_empty()) && call.nr != NR_INVALID {
            out.extend_from_slice(ARGUMENTS);
            self.arguments(call, fds, out);
        }
        let result = Result::new(self.plans.get(call.abi, call.nr), call, ret);
        out.extend_from_slice(b",\"ret\":");
        let number = match (result.is_address(), call.abi) {
            (true, Abi::Compat) => Number::Unsigned(u64::from(ret as u32)),
            (true, _) => Number::Unsigned(ret as u64),
            (false, _) => Number::Signed(ret),
        };
        value::number(number, out);
        if let Some(error) = result.error() {
            out.extend_from_slice(b",\"errno\":\"");
            match errno(error) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => decimal(error, out),
            }
            out.push(b'"');
        }
        if let Some(ns) = took {
            out.extend_from_slice(b",\"duration_ns\":");
            decimal(ns, out);
        }
    }

    #[inline]
    fn table(&self, call: &Call) -> Option<&Head> {
        let table = match call.abi {
            Abi::Native => &self.native,
            Abi::Compat => &self.compat,
            Abi::X32 => &self.x32,
        };
        table.get(usize::from(call.nr))?.as_ref().filter(|_| call.nr != NR_INVALID)
    }

    /// The arguments, and the bracket after them.
    fn arguments(&self, call: &Call, fds: FdNames<'_>, out: &mut Vec<u8>) {
        let recorded = usize::from(call.nargs).min(call.args.len());
        let (machine, plan) = (self.plans.architecture, self.plans.get(call.abi, call.nr));
        if call.nr == NR_INVALID {
            // The only argument is the number itself.
        } else if let (Some(plan), Some(head)) = (plan, self.table(call))
            && let Some(kinds) = &plan.arguments
        {
            for (index, ((kind, label), head)) in
                kinds.iter().zip(&plan.labels).zip(&head.arguments).enumerate()
            {
                let string = call.strings.iter().any(|text| text.argument() == index);
                // Strings are recorded by themselves: a later one may still be there.
                if index >= recorded && call.strings.iter().all(|text| text.argument() < index) {
                    break;
                }
                let end = out.len();
                head.write(out);
                let known =
                    (index < recorded).then(|| argument::number(*kind, label.signed, call, index));
                let kind = (machine, *kind);
                if !one(kind, call, index, known, known.is_some() || string, fds, out) {
                    out.truncate(end);
                    break;
                }
            }
        } else {
            for index in 0..recorded {
                if index > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(b"{\"name\":\"arg");
                decimal(index, out);
                out.extend_from_slice(b"\",\"value\":");
                let known = argument::number(Kind::Unknown, false, call, index);
                one((machine, Kind::Unknown), call, index, Some(known), true, fds, out);
            }
        }
        out.push(b']');
    }
}

impl Head {
    fn new(nr: u16, table: Abi, plan: &Plan) -> Self {
        let mut call = b",\"syscall\":".to_vec();
        value::printed(|out| out.extend_from_slice(&plan.name), &mut call);
        call.extend_from_slice(b",\"nr\":");
        decimal(nr, &mut call);
        call.extend_from_slice(abi(table));
        let arguments = plan.labels.iter().enumerate().map(|(index, label)| {
            let mut argument =
                if index == 0 { b"{\"name\":".to_vec() } else { b",{\"name\":".to_vec() };
            value::printed(|out| out.extend_from_slice(&label.name), &mut argument);
            argument.extend_from_slice(b",\"value\":");
            Piece::new(&argument)
        });
        let [enter, exit] = [[ENTER, &call, ARGUMENTS].concat(), [EXIT, &call].concat()]
            .map(|text| Piece::new(&text));
        Self { enter, exit, arguments: arguments.collect() }
    }
}

fn abi(table: Abi) -> &'static [u8] {
    match table {
        Abi::Native => b",\"abi\":\"native\"",
        Abi::Compat => b",\"abi\":\"compat\"",
        Abi::X32 => b",\"abi\":\"x32\"",
    }
}

/// What [`Head`] has, of a call that none is known of.
fn unknown(kind: &[u8], call: &Call, end: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(kind);
    out.extend_from_slice(b",\"syscall\":");
    value::printed(|out| bare_name(None, call, out), out);
    out.extend_from_slice(b",\"nr\":");
    match call.args.first() {
        _ if call.nr != NR_INVALID => decimal(call.nr, out),
        Some(number) if call.nargs > 0 => value::number(Number::Signed(*number as i64), out),
        _ => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(abi(call.abi));
    out.extend_from_slice(end);
}

/// `1,"text":"O_WRONLY"}`; `false`: the call does not take this argument, nor what stands after
/// it.
fn one(
    (machine, kind): (Architecture, Kind),
    call: &Call,
    index: usize,
    known: Option<Number>,
    text: bool,
    fds: FdNames<'_>,
    out: &mut Vec<u8>,
) -> bool {
    // Most arguments are numbers that read as what they are.
    if let Some(short) =
        known.filter(|number| text && argument::reads_as(kind, *number)).and_then(Number::short)
    {
        short.write(out);
        out.extend_from_slice(b",\"text\":\"");
        short.write(out);
        if matches!(kind, Kind::Descriptor | Kind::Directory) {
            let start = out.len();
            argument::name(kind, call, index, fds, out);
            escape::ascii(start, out);
        }
        out.extend_from_slice(b"\"}");
        return true;
    }
    let start = out.len();
    match known {
        Some(number) => value::number(number, out),
        None => out.extend_from_slice(b"null"),
    }
    let end = out.len();
    out.extend_from_slice(b",\"text\":\"");
    let string = match kind {
        Kind::Pointer | Kind::Unknown => argument::recorded_string(call, index),
        _ => None,
    };
    if let Some(string) = string {
        // As in the text, but that printable characters beyond ASCII stand for themselves.
        let (head, tail) = string.parts();
        escape::quoted(head, out);
        if string.is_cut() {
            out.extend_from_slice(b"...");
        }
        if let Some(tail) = tail {
            escape::quoted(tail, out);
        }
    } else if text
        && known.is_some_and(|number| argument::reads_as(kind, number) && value::is_plain(number))
    {
        out.extend_from_within(start..end);
        let start = out.len();
        argument::name(kind, call, index, fds, out);
        escape::ascii(start, out);
    } else if text {
        let start = out.len();
        if !argument::write_named(kind, machine, call, index, fds, out) {
            return false;
        }
        escape::ascii(start, out);
    } else {
        out.extend_from_slice(b"...");
    }
    out.extend_from_slice(b"\"}");
    true
}
