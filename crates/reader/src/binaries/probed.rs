//! Functions that were probed, by their numbers in a recording.

use flightrec_format::abi::function::FUNCTIONS;
use flightrec_format::meta::{Meta, Probed};
use rustc_hash::FxHashMap;

/// Names of what was probed.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    by_number: FxHashMap<u32, (usize, String)>,
    files: Vec<Probed>,
}

impl Functions {
    /// Those that a recording's metadata name, as many as a recorder names.
    pub fn new(meta: &Meta) -> Self {
        let mut by_number = FxHashMap::default();
        let mut files = Vec::new();
        let mut left = FUNCTIONS;
        for (i, file) in meta.probed.iter().take(FUNCTIONS).enumerate() {
            for (number, name) in file.functions.iter().take(left) {
                by_number.insert(*number, (i, name.clone()));
            }
            left -= file.functions.len().min(left);
            files.push(Probed { functions: Vec::new(), ..file.clone() });
        }
        Self { by_number, files }
    }

    /// Name and file of a number; the file without its functions.
    pub fn find(&self, number: u32) -> Option<(&str, &Probed)> {
        let (file, name) = self.by_number.get(&number)?;
        Some((name, self.files.get(*file)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_known_as_a_recorder_names() {
        let file = |from: u32, names: u32| Probed {
            path: format!("/{from}"),
            functions: (from..from + names).map(|number| (number, format!("f{number}"))).collect(),
            ..Probed::default()
        };
        let meta = Meta { probed: vec![file(0, 3), file(3, 5000)], ..Meta::default() };
        let functions = Functions::new(&meta);
        let found = |number| functions.find(number).map(|(name, file)| (name, &*file.path));
        assert_eq!(found(2), Some(("f2", "/0")));
        assert_eq!(found(3), Some(("f3", "/3")));
        assert_eq!(found(FUNCTIONS as u32), None);
    }
}
