//! Classes of events: what each holds, found as events come, and written down at the end (TSDL, the
//! language of CTF 1.8's metadata).

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Type {
    /// A number of 32 bits.
    Int,
    /// One of 64 bits.
    Long,
    /// One of 64 bits that is never below 0.
    Unsigned,
    /// Text, ended by NUL.
    Text,
    /// A thread's name, of 16 bytes.
    Comm,
}

impl Type {
    /// A field of this type, by its name.
    fn declare(self, name: &str, out: &mut String) {
        // Writing to a text does not fail.
        let _ = match self {
            Self::Int => write!(out, "{} _{name};", integer(32, true)),
            Self::Long => write!(out, "{} _{name};", integer(64, true)),
            Self::Unsigned => write!(out, "{} _{name};", integer(64, false)),
            Self::Text => write!(out, "string _{name};"),
            Self::Comm => write!(
                out,
                "integer {{ size = 8; align = 8; signed = 0; encoding = UTF8; base = 10; }} \
                 _{name}[16];"
            ),
        };
    }
}

fn integer(bits: u32, signed: bool) -> String {
    let signed = u32::from(signed);
    format!(
        "integer {{ size = {bits}; align = 8; signed = {signed}; encoding = none; base = 10; }}"
    )
}

/// All classes.
#[derive(Debug, Default)]
pub(super) struct Classes {
    /// By name and fields, as declared.
    ids: FxHashMap<String, u32>,
    texts: String,
    key: String,
}

/// Most classes: names of calls and of fields are of the recording.
const CLASSES_MAX: usize = 65_536;
const NAME_MAX: usize = 64;

/// Appends what is a name in TSDL, whatever it was.
pub(super) fn name(of: &str, out: &mut String) {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    out.extend(of.chars().map(plain).take(NAME_MAX));
}

impl Classes {
    /// The number of the class of this name and these fields; several may have one name. `None`:
    /// there are too many.
    pub(super) fn id(&mut self, event: &str, fields: &[(String, Type)]) -> Option<u32> {
        let Self { ids, texts, key } = self;
        key.clear();
        key.push_str(event);
        for (name, of) in fields {
            key.push('\0');
            key.push_str(name);
            key.push(match of {
                Type::Int => 'i',
                Type::Long => 'l',
                Type::Unsigned => 'u',
                Type::Text => 't',
                Type::Comm => 'c',
            });
        }
        if let Some(id) = ids.get(key.as_str()) {
            return Some(*id);
        }
        if ids.len() >= CLASSES_MAX {
            return None;
        }
        let id = ids.len() as u32;
        ids.insert(key.clone(), id);
        let mut plain = String::new();
        name(event, &mut plain);
        let _ = write!(
            texts,
            "event {{ name = \"{plain}\"; id = {id}; stream_id = 0; fields := struct {{ "
        );
        for (of, kind) in fields {
            plain.clear();
            name(of, &mut plain);
            kind.declare(&plain, texts);
            texts.push(' ');
        }
        texts.push_str("}; };\n");
        Some(id)
    }

    /// Their declarations.
    pub(super) fn text(&self) -> &str {
        &self.texts
    }
}
