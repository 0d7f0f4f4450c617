//! System calls.

use flightrec_format::abi::record::{Abi, NR_INVALID};
use flightrec_format::decode::Call;
use syscalls::Errno;

use super::argument::{self, Kind};
use super::number::{decimal, duration, hex, hex_or_zero, mode};
use super::paint::Paint;
use super::plan::{Plan, Plans, Returns};
use crate::names::errno;

/// Most that an error returns, negated (`MAX_ERRNO`, include/linux/err.h).
const MAX_ERRNO: i64 = 4095;

/// `name(arguments) -->`
pub(super) fn enter(plans: &Plans, call: &Call, out: &mut Vec<u8>) {
    let plan = plans.get(call.abi, call.nr);
    name(plan, call, out);
    arguments(plan, call, out);
    out.extend_from_slice(b" -->");
}

/// `name <-- return value (duration)`
pub(super) fn exit(
    plans: &Plans,
    paint: Paint,
    call: &Call,
    ret: i64,
    with_arguments: bool,
    took: Option<u64>,
    out: &mut Vec<u8>,
) {
    let plan = plans.get(call.abi, call.nr);
    let returns = plan.map_or(Returns::Number, |plan| plan.returns);
    let error = returns != Returns::Restored && (-MAX_ERRNO..0).contains(&ret);
    // From ERESTARTSYS on the kernel talks to itself: the call goes on, or returns EINTR later.
    let failed = error && -ret < i64::from(Errno::ERESTARTSYS.into_raw());
    if failed {
        paint.failure(out);
    }
    name(plan, call, out);
    if with_arguments && (call.nargs > 0 || !call.strings.is_empty()) && call.nr != NR_INVALID {
        arguments(plan, call, out);
    }
    out.extend_from_slice(b" <-- ");
    if error {
        decimal(ret, out);
        if let Some(name) = errno(-ret as i32) {
            out.push(b' ');
            out.extend_from_slice(name.as_bytes());
        }
    } else {
        match returns {
            Returns::Address if call.abi == Abi::Compat => hex(u64::from(ret as u32), out),
            Returns::Address => hex_or_zero(ret as u64, out),
            Returns::Mode => mode(ret as u64, out),
            Returns::Number | Returns::Restored => decimal(ret, out),
        }
    }
    if failed {
        paint.end(out);
    }
    if let Some(ns) = took {
        out.extend_from_slice(b" (");
        duration(ns, out);
        out.push(b')');
    }
}

fn name(plan: Option<&Plan>, call: &Call, out: &mut Vec<u8>) {
    match call.abi {
        Abi::Native => {}
        Abi::Compat => out.extend_from_slice(b"[32-bit] "),
        Abi::X32 => out.extend_from_slice(b"[x32] "),
    }
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

fn arguments(plan: Option<&Plan>, call: &Call, out: &mut Vec<u8>) {
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
            let string = call.strings.iter().any(|text| usize::from(text.index) == index);
            if index >= recorded && !string {
                out.extend_from_slice(b"...");
                // Strings are recorded by themselves: a later one may still be there.
                if call.strings.iter().all(|text| usize::from(text.index) < index) {
                    break;
                }
            } else if !argument::write(*kind, call, index, out) {
                out.truncate(end.max(start));
                break;
            }
        }
    } else {
        for index in 0..recorded {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            argument::write(Kind::Unknown, call, index, out);
        }
    }
    out.push(b')');
}
