//! Names of functions and binaries, which become more in the course of a recording.

use flightrec_format::meta::{Binary, Meta, Probed, Symbol};

/// What was named in the course of a recording.
pub(super) struct Named {
    symbols: Vec<Symbol>,
    binaries: Vec<Binary>,
    probed: Vec<Probed>,
}

impl Named {
    pub(super) fn of(meta: &Meta) -> Self {
        Self {
            symbols: meta.symbols.clone(),
            binaries: meta.binaries.clone(),
            probed: meta.probed.clone(),
        }
    }

    /// Enters them, where they are more.
    pub(super) fn add_to(&self, meta: &mut Meta) {
        if self.symbols.len() > meta.symbols.len() {
            meta.symbols.clone_from(&self.symbols);
        }
        // Some have a number first, and their names later.
        let named = |all: &[Binary]| {
            (all.len(), all.iter().filter(|binary| !binary.path.is_empty()).count())
        };
        if named(&self.binaries) > named(&meta.binaries) {
            meta.binaries.clone_from(&self.binaries);
        }
        let functions = |all: &[Probed]| all.iter().map(|of| of.functions.len()).sum::<usize>();
        if functions(&self.probed) > functions(&meta.probed) {
            meta.probed.clone_from(&self.probed);
        }
    }
}
