//! Names and numbers of what is probed, in the recording's metadata.

use std::collections::HashMap;

use flightrec_format::abi::function::FUNCTIONS;
use flightrec_format::control::NewProbe;
use flightrec_format::meta::{Meta, Probed};

/// Most bytes of the metadata that they take. Nothing else may have them.
pub const BYTES_MAX: usize = 96 << 10;
/// Longest name of a function, bytes: as long as readers take names of.
const NAME_MAX: usize = 512;

/// Functions and marks of a file.
#[derive(Debug)]
pub struct Names<'a> {
    path: &'a str,
    build_id: &'a str,
    /// In the order of the request: functions, then marks.
    pub all: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Those of a request.
    pub fn of(new: &'a NewProbe) -> Self {
        let marks = new.marks.iter().map(|mark| &*mark.name);
        let all = new.functions.iter().map(|name| &**name).chain(marks).collect();
        Self { path: &new.path, build_id: &new.build_id, all }
    }

    /// Enters them into a recording's metadata, those that are not there yet; their
    /// numbers. The error is for the user.
    pub fn enter(&self, meta: &mut Meta) -> Result<Vec<u32>, String> {
        let taken = bytes(meta);
        let mut next = meta.probed.iter().map(|of| of.functions.len() as u32).sum::<u32>();
        if !meta.probed.iter().any(|of| of.path == self.path && of.build_id == self.build_id) {
            let (path, build_id) = (self.path.into(), self.build_id.into());
            meta.probed.push(Probed { path, build_id, functions: Vec::new() });
        }
        let mut files = meta.probed.iter_mut();
        let file = files
            .find(|of| of.path == self.path && of.build_id == self.build_id)
            .ok_or("its file has no name")?;
        let mut known: HashMap<String, u32> =
            file.functions.iter().map(|(number, name)| (name.clone(), *number)).collect();
        let mut numbers = Vec::with_capacity(self.all.len());
        for name in &self.all {
            if name.len() > NAME_MAX {
                return Err(format!("a function's name has {} bytes: too long", name.len()));
            }
            // Functions of one name, such as static ones, are one to who reads of them.
            let number = *known.entry((*name).to_owned()).or_insert_with(|| {
                file.functions.push((next, (*name).to_owned()));
                next += 1;
                next - 1
            });
            numbers.push(number);
        }
        if next as usize > FUNCTIONS {
            return Err(format!(
                "a recording can name {FUNCTIONS} functions that were probed, and this one has \
                 named nearly as many: narrow the pattern, or restart flightd without \
                 --keep-recording, which begins another recording"
            ));
        }
        let bytes = bytes(meta);
        if bytes > BYTES_MAX {
            return Err(format!(
                "the names of these functions take {} bytes of the recording's description, and \
                 {} are left: narrow the pattern",
                bytes.saturating_sub(taken),
                BYTES_MAX.saturating_sub(taken)
            ));
        }
        Ok(numbers)
    }
}

/// What those that are there take in a document.
pub fn bytes(meta: &Meta) -> usize {
    meta.probed.iter().map(bytes_of).sum()
}

/// What those of a file take.
fn bytes_of(of: &Probed) -> usize {
    let escaped = |byte| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    let text = |text: &str| text.bytes().map(escaped).sum::<usize>();
    let functions = of.functions.iter().map(|(_, name)| 10 + text(name)).sum::<usize>();
    48 + text(&of.path) + of.build_id.len() + functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(path: &str, names: &[&str]) -> NewProbe {
        NewProbe {
            path: path.into(),
            functions: names.iter().map(|name| (*name).into()).collect(),
            ..NewProbe::default()
        }
    }

    #[test]
    fn a_function_keeps_its_number() {
        let mut meta = Meta::default();
        let mut enter = |path, names: &[&str]| Names::of(&new(path, names)).enter(&mut meta);
        assert_eq!(enter("/a", &["f", "g"]), Ok(vec![0, 1]));
        assert_eq!(enter("/b", &["f"]), Ok(vec![2]));
        assert_eq!(enter("/a", &["h", "f"]), Ok(vec![3, 0]));
        assert_eq!(meta.probed.len(), 2);
    }

    #[test]
    fn names_are_bounded() {
        let names: Vec<String> = (0..=FUNCTIONS).map(|i| format!("f{i}")).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let enter = |names: &[&str]| {
            Names::of(&new("/a", names)).enter(&mut Meta::default()).map(|all| all.len())
        };
        assert_eq!(enter(&names[..FUNCTIONS]), Ok(FUNCTIONS));
        assert!(enter(&names).unwrap_err().contains("narrow"));
        let long: Vec<String> = (0..300).map(|i| format!("{i:0400}")).collect();
        let long: Vec<&str> = long.iter().map(|name| &**name).collect();
        assert!(enter(&long).unwrap_err().contains("are left"));
        let long = "x".repeat(NAME_MAX + 1);
        assert!(enter(&[&*long]).is_err());
        let long = "x".repeat(NAME_MAX);
        assert!(enter(&[&*long; 300]).is_ok(), "one name");
    }
}
