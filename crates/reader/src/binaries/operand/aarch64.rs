//! As assemblers of aarch64 write it: `-4@w1 8@[sp, 16] 4@7`.

use flightrec_format::abi::function::{BASE, CONSTANT, INDEX, MEMORY};
use flightrec_format::control::NewOperand;

use super::number;

/// General registers.
const GENERAL: u32 = 31;
/// The byte offset of the stack pointer in `struct user_pt_regs`, after the general registers
/// (arch/arm64/include/uapi/asm/ptrace.h, Linux 6.1).
const STACK: u32 = GENERAL * 8;

/// Where a value is: in a register, in memory at a register, with an offset or another register
/// (which may be shifted), or nowhere, as it is a constant.
pub(super) fn place(text: &str) -> Option<NewOperand> {
    let of = |how, base, index, scale, offset| {
        Some(NewOperand { how, shift: 0, base, index, scale, offset })
    };
    let Some(inside) = text.strip_prefix('[') else {
        return match constant(text) {
            Some(constant) => of(CONSTANT, 0, 0, 0, constant),
            None => of(BASE, register(text)?, 0, 0, 0),
        };
    };
    let mut parts = inside.strip_suffix(']')?.split(',').map(str::trim);
    let base = register(parts.next().filter(|name| is_wide(name))?)?;
    let at = match (parts.next(), parts.next()) {
        (None, _) => of(BASE | MEMORY, base, 0, 0, 0),
        (Some(part), None) if constant(part).is_some() => {
            of(BASE | MEMORY, base, 0, 0, constant(part)?)
        }
        (Some(index), scale) => {
            // Of a register of 32 bits, the other half of the place does not count.
            let index = register(Some(index).filter(|name| is_wide(name))?)?;
            of(BASE | INDEX | MEMORY, base, index, scale.map_or(Some(0), shift)?, 0)
        }
    };
    at.filter(|_| parts.next().is_none())
}

/// A number, with or without the sign of constants. The register of zeros is one.
fn constant(text: &str) -> Option<i64> {
    match text {
        "xzr" | "wzr" => Some(0),
        _ => number(text.strip_prefix('#').unwrap_or(text)),
    }
}

/// By how many bits an index is shifted: `lsl #3`.
fn shift(text: &str) -> Option<u32> {
    let by = constant(text.strip_prefix("lsl")?.trim_start())?;
    u32::try_from(by).ok().filter(|by| *by <= 3)
}

/// Whether a register's name means all of its 64 bits.
fn is_wide(name: &str) -> bool {
    name == "sp" || name.starts_with('x')
}

/// A register's offset, by one of its names.
fn register(name: &str) -> Option<u32> {
    if matches!(name, "sp" | "wsp") {
        return Some(STACK);
    }
    let digits = name.strip_prefix(['x', 'w'])?;
    let number = digits.parse::<u32>().ok().filter(|number| *number < GENERAL)?;
    // No sign, and no zero that leads.
    (number.to_string() == digits).then_some(number * 8)
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::function::SIGNED;
    use flightrec_format::architecture::Architecture;

    use super::*;

    fn operands(text: &str) -> Result<Vec<NewOperand>, &str> {
        super::super::operands(Architecture::Aarch64, text)
    }

    #[test]
    fn what_assemblers_write() {
        let of = |how, shift, base, index, scale, offset| {
            Ok(vec![NewOperand { how, shift, base, index, scale, offset }])
        };
        for (text, wanted) in [
            ("-4@w1", of(BASE | SIGNED, 32, 8, 0, 0, 0)),
            ("8@x30", of(BASE, 0, 240, 0, 0, 0)),
            ("x0", of(BASE, 0, 0, 0, 0, 0)),
            ("8@sp", of(BASE, 0, 248, 0, 0, 0)),
            ("-4@-5", of(CONSTANT | SIGNED, 32, 0, 0, 0, -5)),
            ("8@#7", of(CONSTANT, 0, 0, 0, 0, 7)),
            ("8@xzr", of(CONSTANT, 0, 0, 0, 0, 0)),
            ("2@[x29, -16]", of(BASE | MEMORY, 48, 232, 0, 0, -16)),
            ("8@[sp,#96]", of(BASE | MEMORY, 0, 248, 0, 0, 96)),
            ("1@[x3]", of(BASE | MEMORY, 56, 24, 0, 0, 0)),
            ("4@[x0, x1]", of(BASE | INDEX | MEMORY, 32, 0, 8, 0, 0)),
            ("4@[x0, x1, lsl #2]", of(BASE | INDEX | MEMORY, 32, 0, 8, 2, 0)),
            ("8@[x0, x1, lsl 3]", of(BASE | INDEX | MEMORY, 0, 0, 8, 3, 0)),
        ] {
            assert_eq!(operands(text), wanted, "{text}");
        }
        assert_eq!(operands("4@[sp, 12] -8@x4  4@5").map(|of| of.len()), Ok(3));
        for wrong in [
            "8f@d0",
            "8@v0",
            "8@x31",
            "8@x01",
            "8@x+1",
            "3@x0",
            "8@",
            "8@[x0",
            "8@[]",
            "8@[w0]",
            "8@[x0, w1, sxtw]",
            "8@[x0, x1, lsl #4]",
            "8@[x0, 8, lsl #1]",
            "8@[x0, x1, lsl #1, 2]",
            "8@[x0], 8",
        ] {
            assert_eq!(operands(wrong), Err(wrong.split_once("], ").map_or(wrong, |_| "8@[x0],")));
        }
    }
}
