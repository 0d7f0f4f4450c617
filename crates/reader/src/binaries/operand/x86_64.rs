//! As assemblers of x86_64 write it: `-4@%edi 8@-16(%rbp) 4@$7`.

use flightrec_format::abi::function::{BASE, CONSTANT, INDEX, MEMORY};
use flightrec_format::control::NewOperand;

use super::number;

/// Registers by their names for 64, 32, 16 and 8 bits, and their byte offsets in `struct pt_regs`
/// (arch/x86/include/asm/ptrace.h, Linux 6.1).
const REGISTERS: [([&str; 4], u32); 17] = [
    (["r15", "r15d", "r15w", "r15b"], 0),
    (["r14", "r14d", "r14w", "r14b"], 8),
    (["r13", "r13d", "r13w", "r13b"], 16),
    (["r12", "r12d", "r12w", "r12b"], 24),
    (["rbp", "ebp", "bp", "bpl"], 32),
    (["rbx", "ebx", "bx", "bl"], 40),
    (["r11", "r11d", "r11w", "r11b"], 48),
    (["r10", "r10d", "r10w", "r10b"], 56),
    (["r9", "r9d", "r9w", "r9b"], 64),
    (["r8", "r8d", "r8w", "r8b"], 72),
    (["rax", "eax", "ax", "al"], 80),
    (["rcx", "ecx", "cx", "cl"], 88),
    (["rdx", "edx", "dx", "dl"], 96),
    (["rsi", "esi", "si", "sil"], 104),
    (["rdi", "edi", "di", "dil"], 112),
    (["rip", "eip", "ip", "ip"], 128),
    (["rsp", "esp", "sp", "spl"], 152),
];

/// Where a value is.
pub(super) fn place(text: &str) -> Option<NewOperand> {
    let of = |how, base, index, scale, offset| {
        Some(NewOperand { how, shift: 0, base, index, scale, offset })
    };
    if let Some(constant) = text.strip_prefix('$') {
        return of(CONSTANT, 0, 0, 0, number(constant)?);
    }
    if let Some(name) = text.strip_prefix('%') {
        return of(BASE, register(name)?, 0, 0, 0);
    }
    let (offset, inside) = text.strip_suffix(')')?.split_once('(')?;
    let offset = if offset.is_empty() { 0 } else { number(offset)? };
    let mut parts = inside.split(',').map(str::trim);
    let base = match parts.next()? {
        "" => None,
        base => Some(register(base.strip_prefix('%')?)?),
    };
    let index = parts
        .next()
        .map(|index| register(index.strip_prefix('%')?))
        .map_or_else(|| Some(None), |index| index.map(Some))?;
    let scale = match parts.next() {
        None | Some("1") => 0,
        Some("2") => 1,
        Some("4") => 2,
        Some("8") => 3,
        Some(_) => return None,
    };
    if parts.next().is_some() || base.is_none() && index.is_none() {
        return None;
    }
    let how = MEMORY | base.map_or(0, |_| BASE) | index.map_or(0, |_| INDEX);
    of(how, base.unwrap_or(0), index.unwrap_or(0), scale, offset)
}

/// A register's offset.
fn register(name: &str) -> Option<u32> {
    REGISTERS.iter().find(|(names, _)| names.contains(&name)).map(|(_, at)| *at)
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::function::SIGNED;
    use flightrec_format::architecture::Architecture;

    use super::*;

    fn operands(text: &str) -> Result<Vec<NewOperand>, &str> {
        super::super::operands(Architecture::X86_64, text)
    }

    #[test]
    fn what_assemblers_write() {
        let of = |how, shift, base, index, scale, offset| {
            Ok(vec![NewOperand { how, shift, base, index, scale, offset }])
        };
        for (text, wanted) in [
            ("-4@%edi", of(BASE | SIGNED, 32, 112, 0, 0, 0)),
            ("8@%rax", of(BASE, 0, 80, 0, 0, 0)),
            ("%rax", of(BASE, 0, 80, 0, 0, 0)),
            ("1@%r9b", of(BASE, 56, 64, 0, 0, 0)),
            ("-4@$-5", of(CONSTANT | SIGNED, 32, 0, 0, 0, -5)),
            ("8@$0xffffffffffffffff", of(CONSTANT, 0, 0, 0, 0, -1)),
            ("2@-16(%rbp)", of(BASE | MEMORY, 48, 32, 0, 0, -16)),
            ("8@(%rsp)", of(BASE | MEMORY, 0, 152, 0, 0, 0)),
            ("4@8(%rax,%rbx,4)", of(BASE | INDEX | MEMORY, 32, 80, 40, 2, 8)),
            ("4@8(,%rbx,8)", of(INDEX | MEMORY, 32, 0, 40, 3, 8)),
        ] {
            assert_eq!(operands(text), wanted, "{text}");
        }
        for wrong in [
            "8f@%xmm0",
            "8@%xmm0",
            "8@foo(%rip)",
            "3@%rax",
            "8@",
            "8@(%rax",
            "8@(%rax,%rbx,3)",
            "8@()",
        ] {
            assert_eq!(operands(wrong), Err(wrong));
        }
    }
}
