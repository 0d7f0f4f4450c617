//! A tracepoint's `format` in tracefs: its fields, and what its `print fmt` tells of them.

use flightrec_format::abi::record::tracepoint::COMMON;
use flightrec_format::meta::{Field, Place, ValueForm};

use super::print;

/// Most fields that a tracepoint may have; the kernel's have some dozens.
const FIELDS_MAX: usize = 128;

/// The fields of a format, in their order, but for the common ones; `None`: it is no such text.
pub(super) fn fields(text: &str) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    for line in text.lines() {
        let Some(line) = line.trim_start().strip_prefix("field:") else { continue };
        let field = field(line)?;
        if usize::from(field.at) >= COMMON && fields.len() < FIELDS_MAX {
            fields.push(field);
        }
    }
    let print = text.split_once("\nprint fmt:").map_or("", |(_, print)| print);
    print::annotate(&mut fields, print);
    Some(fields)
}

/// The fields that the kernel prints as functions.
pub(super) fn functions(text: &str) -> Vec<String> {
    text.split_once("\nprint fmt:").map_or_else(Vec::new, |(_, print)| print::functions(print))
}

/// `char comm[16]; offset:8; size:16; signed:0;`
fn field(line: &str) -> Option<Field> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?;
    let (mut at, mut size, mut signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", v)) => at = v.parse().ok(),
            Some(("size", v)) => size = v.parse().ok(),
            Some(("signed", v)) => signed = v == "1",
            _ => {}
        }
    }
    let (at, size): (u16, u16) = (at?, size?);
    let (place, declaration) = match declaration.split_once(' ') {
        Some(("__data_loc", rest)) => (Place::DataLoc, rest),
        Some(("__rel_loc", rest)) => (Place::RelLoc, rest),
        _ => (Place::Here, declaration),
    };
    let (ctype, name) = declaration.rsplit_once(' ')?;
    let (name, is_array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, place != Place::Here),
    };
    let ctype = ctype.trim_end_matches("[]").trim();
    let width = width(ctype).unwrap_or(1);
    let is_scalar = !is_array && matches!(size, 1 | 2 | 4 | 8);
    let (value, width) = match (is_scalar, is_text(ctype)) {
        (true, _) => (ValueForm::Number, size as u8),
        (false, true) => (ValueForm::Text, 1),
        (false, false) if ctype.starts_with("cpumask_t") => (ValueForm::Bitmask, 8),
        (false, false) => (ValueForm::Array, width),
    };
    let (name, ctype) = (name.to_owned(), ctype.to_owned());
    // Of an array it is the compiler's word on the array.
    let signed = signed && (is_scalar || is_signed(&ctype));
    let hex = ctype.contains('*');
    Some(Field { name, ctype, at, size, signed, place, value, width, hex, names: None })
}

/// Whether an array of this type is a text.
fn is_text(ctype: &str) -> bool {
    ["char", "const char"].contains(&ctype)
}

/// Whether numbers of an array of this type have a sign.
fn is_signed(ctype: &str) -> bool {
    let first = ctype.trim_start_matches("const ").split(' ').next().unwrap_or_default();
    ["int", "long", "short", "s8", "s16", "s32", "s64", "int32_t", "int64_t"].contains(&first)
}

/// Bytes of a value of a type, as far as it is known by its name: on x86_64.
fn width(ctype: &str) -> Option<u8> {
    if ctype.contains('*') {
        return Some(8);
    }
    let words = ctype.split(' ').filter(|word| !["const", "volatile"].contains(word));
    let words: Vec<&str> = words.collect();
    match *words.as_slice() {
        ["enum", _] => Some(4),
        [] | ["struct" | "union", ..] => None,
        _ if words.contains(&"long") => Some(8),
        _ if words.contains(&"short") => Some(2),
        _ if words.contains(&"char") => Some(1),
        ["unsigned" | "signed" | "int", ..] => Some(4),
        [of, ..] => match of.trim_start_matches("__") {
            "u8" | "s8" | "uint8_t" | "int8_t" | "bool" => Some(1),
            "u16" | "s16" | "uint16_t" | "int16_t" | "be16" | "le16" => Some(2),
            "u32" | "s32" | "uint32_t" | "int32_t" | "be32" | "le32" | "gfp_t" | "dev_t"
            | "pid_t" | "uid_t" | "gid_t" => Some(4),
            "u64" | "s64" | "uint64_t" | "int64_t" | "be64" | "le64" | "size_t" | "loff_t"
            | "ino_t" | "sector_t" | "dma_addr_t" | "phys_addr_t" => Some(8),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON_FIELDS: &str = "name: t\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

    fn read(lines: &[&str]) -> Vec<Field> {
        fields(&format!("{COMMON_FIELDS}{}\nprint fmt: \"\"", lines.join("\n"))).unwrap()
    }

    fn one(line: &str) -> Field {
        let [field] = &read(&[line])[..] else { panic!("{line}") };
        field.clone()
    }

    #[test]
    fn fields_are_taken_apart() {
        let of = |line| {
            let Field { name, ctype, at, size, signed, place, value, width, .. } = one(line);
            (name, ctype, (at, size, signed), (place, value, width))
        };
        let here = Place::Here;
        let expected = |name: &str, ctype: &str, numbers, form| {
            (name.to_owned(), ctype.to_owned(), numbers, form)
        };
        let cases = [
            (
                "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;",
                expected("prev_comm", "char", (8, 16, false), (here, ValueForm::Text, 1)),
            ),
            (
                "\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;",
                expected("prev_state", "long", (32, 8, true), (here, ValueForm::Number, 8)),
            ),
            (
                "\tfield:const void * ptr;\toffset:16;\tsize:8;\tsigned:0;",
                expected("ptr", "const void *", (16, 8, false), (here, ValueForm::Number, 8)),
            ),
            (
                "\tfield:__u8 saddr[4];\toffset:24;\tsize:4;\tsigned:0;",
                expected("saddr", "__u8", (24, 4, false), (here, ValueForm::Array, 1)),
            ),
            (
                "\tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;",
                expected("args", "unsigned long", (16, 48, false), (here, ValueForm::Array, 8)),
            ),
            (
                "\tfield:__data_loc char[] name;\toffset:12;\tsize:4;\tsigned:0;",
                expected("name", "char", (12, 4, false), (Place::DataLoc, ValueForm::Text, 1)),
            ),
            (
                "\tfield:__rel_loc int[] numbers;\toffset:12;\tsize:4;\tsigned:1;",
                expected("numbers", "int", (12, 4, true), (Place::RelLoc, ValueForm::Array, 4)),
            ),
            (
                "\tfield:__data_loc cpumask_t[] cpumask;\toffset:8;\tsize:4;\tsigned:0;",
                expected(
                    "cpumask",
                    "cpumask_t",
                    (8, 4, false),
                    (Place::DataLoc, ValueForm::Bitmask, 8),
                ),
            ),
            (
                "\tfield:enum zone_type idx;\toffset:8;\tsize:4;\tsigned:0;",
                expected("idx", "enum zone_type", (8, 4, false), (here, ValueForm::Number, 4)),
            ),
            (
                "\tfield:struct in6_addr addr;\toffset:8;\tsize:16;\tsigned:0;",
                expected("addr", "struct in6_addr", (8, 16, false), (here, ValueForm::Array, 1)),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(of(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_format_is_none() {
        assert_eq!(fields("field:x;"), None);
        assert_eq!(fields("field:int x;\toffset:999999;\tsize:4;\tsigned:0;"), None);
        assert_eq!(fields(""), Some(Vec::new()));
    }

    /// Every format of this machine's kernel, where it can be read.
    #[test]
    fn formats_of_the_running_kernel_are_understood() {
        let mut seen = 0;
        for entry in walk("/sys/kernel/tracing/events") {
            let Ok(text) = std::fs::read_to_string(&entry) else { continue };
            let fields = fields(&text).unwrap_or_else(|| panic!("{}", entry.display()));
            for of in fields {
                assert!(
                    of.value != ValueForm::Number || of.size > 0,
                    "{}: {of:?}",
                    entry.display()
                );
                assert!(of.place == Place::Here || of.size == 4, "{}: {of:?}", entry.display());
            }
            seen += 1;
        }
        eprintln!("{seen} formats");
    }

    fn walk(events: &str) -> Vec<std::path::PathBuf> {
        let dirs = |path: &std::path::Path| {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let subsystems = dirs(std::path::Path::new(events));
        let events = subsystems.iter().flat_map(|path| dirs(path));
        events.map(|path| path.join("format")).filter(|path| path.is_file()).collect()
    }
}
