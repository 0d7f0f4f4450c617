//! What a tracepoint's `print fmt` tells of its fields: names of flags and of values
//! (`__print_flags`, `__print_symbolic`), sets of CPUs, and what is printed in hexadecimal.
//!
//! The text is C as the kernel's preprocessor left it, with the numbers of enumerators that it
//! publishes (`TRACE_DEFINE_ENUM`). What is more than is understood here leaves its field a number.

use flightrec_format::meta::{Field, Mask, ValueForm, ValueNames};

use super::expression::{Expression, parse};

/// Most names of a field.
const NAMES_MAX: usize = 256;
/// Calls that give names, and whether of bits.
const CALLS: [(&str, bool); 4] = [
    ("__print_flags(", true),
    ("__print_flags_u64(", true),
    ("__print_symbolic(", false),
    ("__print_symbolic_u64(", false),
];
/// Calls that print a set of bits.
const BITMASKS: [&str; 4] =
    ["__get_bitmask(", "__get_rel_bitmask(", "__get_cpumask(", "__get_rel_cpumask("];

/// Enters what the text after `print fmt:` tells into the fields.
pub(super) fn annotate(fields: &mut [Field], print: &str) {
    for (call, is_flags) in CALLS {
        for (at, _) in print.match_indices(call) {
            let Some(arguments) = group(print.get(at + call.len()..).unwrap_or_default()) else {
                continue;
            };
            if let Some((name, names)) = names(&arguments, is_flags)
                && let Some(field) = fields.iter_mut().find(|field| field.name == name)
                && field.names.is_none()
            {
                field.names = Some(names);
            }
        }
    }
    for call in BITMASKS {
        for (at, _) in print.match_indices(call) {
            let Some(arguments) = group(print.get(at + call.len()..).unwrap_or_default()) else {
                continue;
            };
            let name = arguments.first().copied().unwrap_or_default().trim();
            for field in fields.iter_mut().filter(|field| field.name == name) {
                (field.value, field.width) = (ValueForm::Bitmask, 8);
            }
        }
    }
    for name in printed_in_hex(print) {
        for field in fields.iter_mut().filter(|field| field.name == name) {
            field.hex = true;
        }
    }
}

/// The arguments of a call, from after its parenthesis up to where that is closed.
fn group(text: &str) -> Option<Vec<&str>> {
    let end = split(text, |depth, c| depth == 0 && c == ')').next()?.len();
    let inside = text.get(..end).filter(|inside| inside.len() < text.len())?;
    Some(split(inside, |depth, c| depth == 0 && c == ',').collect())
}

/// Splits a text where `is_end` says so of a character outside of literals, told in how many
/// brackets it stands.
fn split(text: &str, is_end: impl Fn(usize, char) -> bool) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let (mut depth, mut quote, mut escaped) = (0usize, None, false);
        for (at, c) in text.char_indices() {
            if let Some(of) = quote {
                match c {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    _ if c == of => quote = None,
                    _ => {}
                }
                continue;
            }
            if is_end(depth, c) {
                rest = text.get(at + c.len_utf8()..);
                return text.get(..at);
            }
            match c {
                '"' | '\'' => quote = Some(c),
                '(' | '{' | '[' => depth += 1,
                ')' | '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        rest = None;
        Some(text)
    })
}

/// A field's name, and the names of its values or bits.
fn names(arguments: &[&str], is_flags: bool) -> Option<(String, ValueNames)> {
    let (of, rest) = arguments.split_first()?;
    let (between, rest) = if is_flags {
        let (between, rest) = rest.split_first()?;
        (Some(literal(between)?), rest)
    } else {
        (None, rest)
    };
    let (name, shift, mask) = parse(of)?.of_field()?;
    let mut list = Vec::new();
    for entry in rest.iter().take(NAMES_MAX) {
        let Some(entry) = entry.trim().strip_prefix('{').and_then(|e| e.strip_suffix('}')) else {
            continue;
        };
        let parts: Vec<&str> = split(entry, |depth, c| depth == 0 && c == ',').collect();
        let [value, name] = parts.as_slice() else { continue };
        // The last one has none.
        if let (Some(Expression::Number(value)), Some(name)) = (parse(value), literal(name)) {
            list.push((value, name));
        }
    }
    (!list.is_empty()).then_some((name, ValueNames { between, shift, mask: Mask(mask), list }))
}

/// The text of string literals in a row.
fn literal(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let mut chars = rest.strip_prefix('"')?.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => out.push('\n'),
                    't' => out.push('\t'),
                    c => out.push(c),
                },
                (_, c) => out.push(c),
            }
        };
        rest = rest.get(end + 2..)?.trim_start();
    }
    (!text.trim().is_empty()).then_some(out)
}

/// Fields that are printed as functions: `%ps`, `%pS` and the like (`symbol_string`,
/// lib/vsprintf.c, Linux 6.18).
pub(super) fn functions(print: &str) -> Vec<String> {
    printed(print, |conversion| conversion == Conversion::Function)
}

/// Fields that are printed by themselves, in hexadecimal.
fn printed_in_hex(print: &str) -> Vec<String> {
    printed(print, |conversion| conversion != Conversion::Other)
}

/// Fields that are printed by themselves, by such a conversion.
fn printed(print: &str, is_wanted: impl Fn(Conversion) -> bool) -> Vec<String> {
    let mut arguments = split(print.trim(), |depth, c| depth == 0 && c == ',');
    let Some(format) = arguments.next().and_then(literal) else { return Vec::new() };
    let mut found = Vec::new();
    for conversion in conversions(&format) {
        let Some(argument) = arguments.next() else { break };
        let field = parse(argument).and_then(Expression::of_field);
        if let Some((name, 0, u64::MAX)) = field
            && is_wanted(conversion)
        {
            found.push(name);
        }
    }
    found
}

/// How an argument is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conversion {
    Hex,
    Function,
    Other,
}

/// Of each argument that a format prints, how.
fn conversions(format: &str) -> Vec<Conversion> {
    let mut found = Vec::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            continue;
        }
        while let Some(c) = chars.next() {
            match c {
                '*' => found.push(Conversion::Other),
                '%' => break,
                'x' | 'X' | 'p' => {
                    let is_function =
                        c == 'p' && chars.peek().is_some_and(|next| "sSfFB".contains(*next));
                    found.push(if is_function { Conversion::Function } else { Conversion::Hex });
                    break;
                }
                'a'..='z' if !"hlzjtq".contains(c) => {
                    found.push(Conversion::Other);
                    break;
                }
                'A'..='Z' if c != 'L' => {
                    found.push(Conversion::Other);
                    break;
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str) -> Field {
        Field { name: name.into(), ..Field::default() }
    }

    fn annotated(names: &[&str], print: &str) -> Vec<Field> {
        let mut fields: Vec<Field> = names.iter().map(|name| field(name)).collect();
        annotate(&mut fields, print);
        fields
    }

    #[test]
    fn names_come_from_the_kernels_own_words() {
        let print = " \"state=%s%s gfp=%s mode=%s\", (REC->state & (((0x0|0x1|0x2)+1)<<1)-1) ? \
                     __print_flags(REC->state & ((0x1|0x2)), \"|\", { 0x1, \"S\" }, { 0x02, \"D\" \
                     }) : \"R\", \"+\", (REC->gfp) ? __print_flags((unsigned long)(REC->gfp), \
                     \"|\", {( unsigned long)((((1UL))) << (6)), \"IO\"}, {(unsigned \
                     long)((gfp_t)0x400u|(gfp_t)(0x800u)), \"A,B\"}, { 0, ((void *)0) } ) : \
                     \"none\", __print_symbolic((REC->mode >> 4) & 0xf, { 0, \"zero\" }, { ONE, \
                     \"one\" }, { -1, \"minus\" })";
        let [state, gfp, mode] = &annotated(&["state", "gfp", "mode"], print)[..] else { panic!() };
        let names = |field: &Field| field.names.clone().expect("names");
        let list = |field: &Field| {
            let names = names(field).list;
            names.into_iter().map(|(value, name)| format!("{value:#x} {name}")).collect::<Vec<_>>()
        };
        assert_eq!(list(state), ["0x1 S", "0x2 D"]);
        assert_eq!((names(state).between.as_deref(), names(state).mask.0), (Some("|"), 3));
        assert_eq!(list(gfp), ["0x40 IO", "0xc00 A,B"]);
        assert_eq!(list(mode), ["0x0 zero", "0xffffffffffffffff minus"]);
        let ValueNames { between, shift, mask, .. } = names(mode);
        assert_eq!((between, shift, mask.0), (None, 4, 15));
    }

    #[test]
    fn what_is_printed_in_hexadecimal_is_told() {
        let print = " \"%% a=%d b=0x%lx c=%#llX d=%p e=%*pbl f=%s g=%08x\", REC->a, (unsigned \
                     long)REC->b, (u64)(REC->c), REC->d, 3, __get_bitmask(e), __get_str(f), \
                     REC->g >> 1";
        let fields = annotated(&["a", "b", "c", "d", "e", "f", "g"], print);
        let hex: Vec<&str> = fields.iter().filter(|of| of.hex).map(|of| &*of.name).collect();
        assert_eq!(hex, ["b", "c", "d"]);
        assert_eq!(fields[4].value, ValueForm::Bitmask);
        let print = " \"%p %pS %ps %pI4 %d\", REC->a, (void *)REC->b, REC->c, REC->d, REC->e";
        assert_eq!(functions(print), ["b", "c"]);
    }

    #[test]
    fn any_text_is_taken() {
        let all = "__print_flags(REC->a, \"|\", { 1, \"A\" })\"%x\", REC->a";
        for (at, _) in all.char_indices() {
            annotated(&["a"], &all[at..]);
            annotated(&["a"], &all[..at]);
        }
        for text in ["__print_flags(", "__print_symbolic(((((", "\"%", "__print_flags({,\"\\"] {
            annotated(&["a"], text);
        }
    }
}
