//! System calls.

use flightrec_analysis::is_restart;
use flightrec_format::abi::record::{self, Abi, NR_INVALID};
use flightrec_format::decode::Call;
use flightrec_reader::fds::FdNames;
use flightrec_reader::names::{PERSONALITY, errno};

use super::argument::{self, Kind};
use super::names::flags;
use super::number::{decimal, duration, hex, hex_or_zero, mode};
use super::paint::Paint;
use super::plan::{Plan, Plans, Returns};

/// `name(arguments)`
pub(super) fn bare(plans: &Plans, call: &Call, fds: FdNames<'_>, out: &mut Vec<u8>) {
    let plan = plans.get(call.abi, call.nr);
    name(plan, call, out);
    arguments(plans, call, fds, out);
}

/// `name(arguments) -->`
pub(super) fn enter(plans: &Plans, call: &Call, fds: FdNames<'_>, out: &mut Vec<u8>) {
    let plan = plans.get(call.abi, call.nr);
    name(plan, call, out);
    arguments(plans, call, fds, out);
    out.extend_from_slice(b" -->");
}

/// How long a call took.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    Unknown,
    Ns(u64),
    AtLeast(u64),
}

/// `name <-- return value (duration)`
pub(super) fn exit(
    plans: &Plans,
    paint: Paint,
    call: &Call,
    (ret, took): (i64, Length),
    with_arguments: bool,
    fds: FdNames<'_>,
    out: &mut Vec<u8>,
) {
    let plan = plans.get(call.abi, call.nr);
    let result = Result::new(plan, call, ret);
    if result.failed() {
        paint.failure(out);
    }
    name(plan, call, out);
    if with_arguments && (call.nargs > 0 || !call.strings.is_empty()) && call.nr != NR_INVALID {
        arguments(plans, call, fds, out);
    }
    out.extend_from_slice(b" <-- ");
    result.write(call.abi, paint, took, fds, out);
}

/// `name(arguments) = return value (duration)`
pub(super) fn whole(
    plans: &Plans,
    paint: Paint,
    call: &Call,
    (ret, took): (i64, Length),
    fds: FdNames<'_>,
    out: &mut Vec<u8>,
) {
    let plan = plans.get(call.abi, call.nr);
    let result = Result::new(plan, call, ret);
    if result.failed() {
        paint.failure(out);
    }
    name(plan, call, out);
    arguments(plans, call, fds, out);
    out.extend_from_slice(b" = ");
    result.write(call.abi, paint, took, fds, out);
}

/// A return value and what it means.
pub(crate) struct Result {
    ret: i64,
    returns: Returns,
}

impl Result {
    pub(crate) fn new(plan: Option<&Plan>, call: &Call, ret: i64) -> Self {
        let command = || call.args.get(1).filter(|_| call.nargs > 1).map(|command| *command as i32);
        let returns = match plan.map_or(Returns::Number, |plan| plan.returns) {
            Returns::Fcntl if matches!(command(), Some(libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)) => {
                Returns::Descriptor
            }
            returns => returns,
        };
        Self { ret, returns }
    }

    /// The error that it is, if it is one.
    pub(crate) fn error(&self) -> Option<i32> {
        record::errno(self.ret).filter(|_| self.returns != Returns::Restored)
    }

    /// Whether it returns an address.
    pub(crate) fn is_address(&self) -> bool {
        self.returns == Returns::Address && self.error().is_none()
    }

    /// A call that goes on, or returns EINTR later, has not failed.
    fn failed(&self) -> bool {
        self.error().is_some_and(|error| !is_restart(error))
    }

    /// Ends the colour of a failure, too.
    fn write(&self, abi: Abi, paint: Paint, took: Length, fds: FdNames<'_>, out: &mut Vec<u8>) {
        let ret = self.ret;
        match (self.error(), self.returns) {
            (Some(error), _) => {
                decimal(ret, out);
                if let Some(name) = errno(error) {
                    out.push(b' ');
                    out.extend_from_slice(name.as_bytes());
                }
            }
            (None, Returns::Address) if abi == Abi::Compat => hex(u64::from(ret as u32), out),
            (None, Returns::Address) => hex_or_zero(ret as u64, out),
            (None, Returns::Mode) => mode(ret as u64, out),
            (None, Returns::Personality) => {
                hex_or_zero(ret as u64, out);
                out.extend_from_slice(b" (");
                flags(&PERSONALITY, ret as u64, out);
                out.push(b')');
            }
            (None, Returns::Number | Returns::Fcntl | Returns::Restored) => decimal(ret, out),
            (None, Returns::Descriptor) => {
                argument::descriptor(ret as i32, fds.made(ret as i32), out);
            }
        }
        if self.failed() {
            paint.end(out);
        }
        let (before, ns): (&[u8], u64) = match took {
            Length::Unknown => return,
            Length::Ns(ns) => (b" (", ns),
            Length::AtLeast(ns) => (b" (>= ", ns),
        };
        out.extend_from_slice(before);
        paint.time(ns, out, |out| duration(ns, out));
        out.push(b')');
    }
}

/// `name`, with its table where that is not the machine's own.
fn name(plan: Option<&Plan>, call: &Call, out: &mut Vec<u8>) {
    match call.abi {
        Abi::Native => {}
        Abi::Compat => out.extend_from_slice(b"[32-bit] "),
        Abi::X32 => out.extend_from_slice(b"[x32] "),
    }
    bare_name(plan, call, out);
}

/// `name`, or `syscall_N`.
pub(crate) fn bare_name(plan: Option<&Plan>, call: &Call, out: &mut Vec<u8>) {
    match plan {
        Some(plan) if call.nr != NR_INVALID => out.extend_from_slice(&plan.name),
        _ => {
            out.extend_from_slice(b"syscall_");
            match call.args.first() {
                _ if call.nr != NR_INVALID => decimal(call.nr, out),
                Some(number) if call.nargs > 0 => decimal(*number as i64, out),
                _ => out.push(b'?'),
            }
        }
    }
}

fn arguments(plans: &Plans, call: &Call, fds: FdNames<'_>, out: &mut Vec<u8>) {
    let (machine, plan) = (plans.architecture, plans.get(call.abi, call.nr));
    out.push(b'(');
    let recorded = usize::from(call.nargs).min(call.args.len());
    if call.nr == NR_INVALID {
        out.extend_from_slice(b"...");
    } else if let Some(kinds) = plan.and_then(|plan| plan.arguments.as_deref()) {
        let start = out.len();
        for (index, kind) in kinds.iter().enumerate() {
            let end = out.len();
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            let string = call.strings.iter().any(|text| text.argument() == index);
            if index >= recorded && !string {
                out.extend_from_slice(b"...");
                // Strings are recorded by themselves: a later one may still be there.
                if call.strings.iter().all(|text| text.argument() < index) {
                    break;
                }
            } else if !argument::write_named(*kind, machine, call, index, fds, out) {
                out.truncate(end.max(start));
                break;
            }
        }
    } else {
        for index in 0..recorded {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            argument::write(Kind::Unknown, machine, call, index, out);
        }
    }
    out.push(b')');
}
