//! What a tracepoint that the configuration names published.

use flightrec_format::abi::record::WakeContext;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::record::tracepoint::Hidden;
use flightrec_format::decode::Tracepoint;
use flightrec_format::meta::Field;
use flightrec_format::published::{Tracepoints, Value};
use flightrec_format::symbols::Symbols;

use super::escape::{escape, quote};
use super::number::{decimal, hex};
use super::stack;

/// Bits of a device's number that are its minor one (`MINORBITS`, include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// `(TRACEPOINT) ext4:ext4_sync_file_exit dev=7:0 ino=12 ret=0`: the fields that the kernel
/// publishes, by their names, in its order; after a bar the stack, where it is recorded. In an
/// interrupt `(TRACEPOINT softirq)`.
pub(super) fn line(event: &Tracepoint, known: &Tracepoints, symbols: &Symbols, out: &mut Vec<u8>) {
    out.extend_from_slice(b"(TRACEPOINT");
    if event.context.is_interrupt() || event.context == WakeContext::Unknown {
        out.push(b' ');
        let unknown = event.context == WakeContext::Unknown;
        out.extend_from_slice(if unknown { "?" } else { event.context.name() }.as_bytes());
    }
    out.extend_from_slice(b") ");
    if let Some(of) = known.find(event.id) {
        escape(of.name.as_bytes(), out);
        for field in &of.fields {
            out.push(b' ');
            escape(field.name.as_bytes(), out);
            out.push(b'=');
            value(field, &field.read(event), symbols, out);
        }
    } else {
        out.extend_from_slice(b"? number=");
        decimal(event.id, out);
    }
    if event.cut {
        out.extend_from_slice(b" (cut)");
    }
    let Some(of) = &event.stack else { return };
    out.extend_from_slice(b" | ");
    match of.status {
        Status::Taken => stack::kernel(&of.frames, of.cut, symbols, out),
        Status::Refused => out.extend_from_slice(b"(stack refused by the budget)"),
        Status::Unreadable => out.extend_from_slice(b"(stack not available)"),
    }
}

/// A field's value; `?`: it is not recorded.
fn value(field: &Field, value: &Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    if let Some(name) = name(field, value) {
        return escape(name.as_bytes(), out);
    }
    match value {
        Value::Unsigned(device) if field.ctype == "dev_t" => {
            decimal(device >> MINOR_BITS, out);
            out.push(b':');
            decimal(device & ((1 << MINOR_BITS) - 1), out);
        }
        Value::Text(text) => quote(text, false, out),
        Value::Array(numbers) => {
            out.push(b'[');
            for (i, number) in numbers.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                one(field, number, symbols, out);
            }
            out.push(b']');
        }
        Value::Bits(bytes) => list(bytes, out),
        number => one(field, number, symbols, out),
    }
}

/// The kernel's name of a number, if it has one.
pub(crate) fn name(field: &Field, value: &Value<'_>) -> Option<String> {
    field.names.as_ref()?.of(value.number()?)
}

/// A number, or what stands for an address of the kernel: `function+0x1f`, `#1a2b3c4d`.
fn one(field: &Field, number: &Value<'_>, symbols: &Symbols, out: &mut Vec<u8>) {
    match number {
        Value::Unsigned(number) if field.hex => hex(*number, out),
        Value::Unsigned(number) => decimal(*number, out),
        // What is negative is printed in as many bits as it has.
        Value::Signed(number) if field.hex => {
            let bits = 8 * u32::from(field.width.clamp(1, 8));
            hex(*number as u64 & (u64::MAX >> (64 - bits)), out);
        }
        Value::Signed(number) => decimal(*number, out),
        Value::Hidden(Hidden::Code(frame)) => {
            if let Some((name, offset)) = place(*frame, symbols) {
                escape(name.as_bytes(), out);
                if offset != 0 {
                    out.push(b'+');
                    hex(offset.into(), out);
                }
            } else {
                out.push(b'?');
                hex((*frame).into(), out);
            }
        }
        Value::Hidden(Hidden::Data(number)) => {
            out.extend_from_slice(format!("#{number:08x}").as_bytes());
        }
        _ => out.push(b'?'),
    }
}

/// The function that a byte of the kernel's code is in, with its module, and which byte of it.
pub(crate) fn place(frame: u32, symbols: &Symbols) -> Option<(String, u32)> {
    let after = frame.wrapping_add(1);
    let offset = symbols.find(after)?.offset;
    Some((symbols.name(after), offset.wrapping_sub(1)))
}

/// `0,2-5`: which bits are set.
fn list(bytes: &[u8], out: &mut Vec<u8>) {
    let mut bits = set_bits(bytes).peekable();
    let start = out.len();
    while let Some(first) = bits.next() {
        let mut last = first;
        while bits.next_if_eq(&(last + 1)).is_some() {
            last += 1;
        }
        if out.len() > start {
            out.push(b',');
        }
        decimal(first as u64, out);
        if last > first {
            out.push(b'-');
            decimal(last as u64, out);
        }
    }
    if out.len() == start {
        out.extend_from_slice(b"none");
    }
}

/// The numbers of the bits that are set.
pub(crate) fn set_bits(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let is_set = |bit: &usize| bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0);
    (0..8 * bytes.len()).filter(is_set)
}

#[cfg(test)]
pub(crate) mod tests {
    use flightrec_format::abi::record::tracepoint::{CODE, DATA};
    use flightrec_format::decode::KernelStack;
    use flightrec_format::meta::{self, Meta, Place, ValueForm, ValueNames};

    use super::super::stack::tests::symbols;
    use super::*;

    /// A tracepoint with a field of each form.
    pub(crate) fn tracepoint() -> meta::Tracepoint {
        let field = |name: &str, at: u16, size: u16| Field {
            name: name.into(),
            at,
            size,
            width: size as u8,
            ..Field::default()
        };
        let fields = vec![
            Field { ctype: "dev_t".into(), ..field("dev", 8, 4) },
            Field { signed: true, ..field("ret", 12, 4) },
            Field {
                names: Some(ValueNames {
                    between: Some("|".into()),
                    list: vec![(1, "A".into()), (2, "B\u{1b}".into())],
                    ..ValueNames::default()
                }),
                ..field("flags", 16, 4)
            },
            Field { value: ValueForm::Text, place: Place::DataLoc, ..field("name", 20, 4) },
            field("code", 24, 8),
            Field { hex: true, ..field("data", 32, 8) },
            Field { value: ValueForm::Array, width: 2, ..field("array", 40, 4) },
            Field { value: ValueForm::Bitmask, width: 1, ..field("cpus", 44, 1) },
            field("far", 60, 4),
        ];
        meta::Tracepoint { id: 3, name: "a:b".into(), fields, ..Default::default() }
    }

    pub(crate) fn described() -> Tracepoints {
        Tracepoints::new(&Meta { tracepoints: vec![tracepoint()], ..Meta::default() })
    }

    /// An event of it.
    pub(crate) fn event() -> Tracepoint {
        let mut bytes = Vec::new();
        for number in [7u32 << 20 | 1, -5i32 as u32, 7, 0x30 | 4 << 16] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (upper, lower) in [(CODE, 104u32), (DATA, 0x1a2b)] {
            bytes.extend_from_slice(&(u64::from(upper) << 32 | u64::from(lower)).to_le_bytes());
        }
        bytes.extend_from_slice(&[1, 0, 2, 1, 0b1011_1001, 0, 0, 0]);
        bytes.extend_from_slice(b"x\"\n\0");
        let stack = KernelStack { status: Status::Taken, cut: true, frames: [110].into() };
        Tracepoint {
            id: 3,
            context: WakeContext::Softirq,
            bytes: bytes.into(),
            cut: true,
            stack: Some(stack),
        }
    }

    fn shown(event: &Tracepoint) -> String {
        let mut out = Vec::new();
        line(event, &described(), &symbols(&["function"]), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn fields_are_shown_by_their_names() {
        assert_eq!(
            shown(&event()),
            "(TRACEPOINT softirq) a:b dev=7:1 ret=-5 flags=A|B\\33|0x4 name=\"x\\\"\\n\" code=function+0x4 \
             data=#00001a2b array=[1,258] cpus=0,3-5,7 far=? (cut) | function <- ..."
        );
        let none =
            Tracepoint { id: 9, context: WakeContext::Thread, cut: false, stack: None, ..event() };
        assert_eq!(shown(&none), "(TRACEPOINT) ? number=9");
        let stack = KernelStack { status: Status::Refused, cut: false, frames: [].into() };
        let refused = Tracepoint { stack: Some(stack), ..none };
        assert_eq!(shown(&refused), "(TRACEPOINT) ? number=9 | (stack refused by the budget)");
    }
}
