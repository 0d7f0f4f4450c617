//! Where a mark's arguments are, as the machine's assemblers write it.

mod aarch64;
mod x86_64;

use flightrec_format::abi::function::{ARGUMENTS, SIGNED};
use flightrec_format::architecture::Architecture;
use flightrec_format::control::NewOperand;

/// The first six of a mark's arguments. The error is the one that is not understood: those in
/// vector registers, and those that the assembler was to find by a symbol.
pub(super) fn operands(architecture: Architecture, text: &str) -> Result<Vec<NewOperand>, &str> {
    let place = match architecture {
        Architecture::X86_64 => x86_64::place,
        Architecture::Aarch64 => aarch64::place,
    };
    words(text).take(ARGUMENTS).map(|of| operand(of, place).ok_or(of)).collect()
}

/// The arguments one by one: blanks part them, but for those in brackets.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    let is_between = move |of: char| {
        match of {
            '[' => is_inside = true,
            ']' => is_inside = false,
            _ => {}
        }
        !is_inside && of.is_ascii_whitespace()
    };
    text.split(is_between).filter(|of| !of.is_empty())
}

/// One argument: how many bytes of what place.
fn operand(text: &str, place: fn(&str) -> Option<NewOperand>) -> Option<NewOperand> {
    let (size, of) = text.split_once('@').unwrap_or(("8", text));
    let (sign, size) = match size.strip_prefix('-') {
        Some(size) => (SIGNED, size),
        None => (0, size),
    };
    let shift = match size {
        "1" => 56,
        "2" => 48,
        "4" => 32,
        "8" => 0,
        _ => return None,
    };
    let place = place(of)?;
    Some(NewOperand { how: place.how | sign, shift, ..place })
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    let value = magnitude as i64;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_six_count() {
        let six = |text| operands(Architecture::X86_64, text).map(|of| of.len());
        assert_eq!(six("8@%rax 8@$1 8@$2 8@$3 8@$4 8@$5 8@%xmm0"), Ok(6));
        assert_eq!(six(""), Ok(0));
    }

    proptest! {
        #[test]
        fn any_text(text: String) {
            for of in [Architecture::X86_64, Architecture::Aarch64] {
                let _ = operands(of, &text);
            }
        }
    }
}
