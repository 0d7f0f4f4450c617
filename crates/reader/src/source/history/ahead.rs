//! What is known of a window of several stretches before they are read.

use std::sync::Arc;

use flightrec_format::abi::page::Lane;

use super::chapter::Foretold;
use super::unread::Unread;
use super::visitor::{Needs, Visitor};
use crate::source::PageSet;
use crate::source::files::name_index::Names;
use crate::source::files::narrow::Chosen;

/// What is known of the window whose stretches are being read. Of most windows nothing is.
#[derive(Default)]
pub(super) struct Ahead {
    /// The visitor was given the window, so its stretches may be read in part.
    pub(super) is_foretold: bool,
    /// As [`Foretold::is_even`].
    is_even: bool,
    /// What of the stretches after the first is read; `None`: all that the visitor needs.
    pub(super) chosen: Option<Arc<Chosen>>,
}

impl Ahead {
    /// Gives the visitor the window of the next part, if it wants that and it can be foretold.
    /// `rings`: those that go on with that window.
    pub(super) fn look<E>(
        &mut self,
        next: &mut Unread,
        rings: Option<&PageSet>,
        visitor: &mut impl Visitor<E>,
    ) -> Result<(), E> {
        if !next.goes_on() {
            *self = Self::default();
        }
        let doubts = visitor.doubts();
        if self.is_foretold || !visitor.listens() || doubts && !next.goes_on() {
            return Ok(());
        }
        let Some(foretold) = next.foretold() else { return Ok(()) };
        if doubts {
            self.ask(&foretold, next, rings, visitor)
        } else {
            self.tell(&foretold, next, rings, visitor)
        }
    }

    /// Of who doubts: the window is given only if that saves reading.
    fn ask<E>(
        &mut self,
        foretold: &Foretold,
        next: &mut Unread,
        rings: Option<&PageSet>,
        visitor: &mut impl Visitor<E>,
    ) -> Result<(), E> {
        if !foretold.is_even {
            return Ok(());
        }
        visitor.ask(foretold);
        let names = next.names(rings);
        let blocks = names.and_then(|names| choose(next, rings, &names, visitor));
        let Some(blocks) = blocks else { return Ok(()) };
        visitor.ahead(foretold)?;
        // Where it could not tell of the window, it needs all of it.
        if visitor.wants_names() {
            visitor.chosen(&blocks);
            self.chosen = Some(Arc::new(blocks));
        }
        (self.is_foretold, self.is_even) = (true, true);
        Ok(())
    }

    fn tell<E>(
        &mut self,
        foretold: &Foretold,
        next: &mut Unread,
        rings: Option<&PageSet>,
        visitor: &mut impl Visitor<E>,
    ) -> Result<(), E> {
        visitor.ahead(foretold)?;
        (self.is_foretold, self.is_even) = (true, foretold.is_even);
        if self.is_even
            && visitor.wants_names()
            && let Some(names) = next.names(rings)
        {
            visitor.names(&names);
            self.chosen = choose(next, rings, &names, visitor).map(Arc::new);
        }
        Ok(())
    }

    /// What is read of the next part.
    pub(super) fn needs<E>(&self, next: &Unread, visitor: &impl Visitor<E>) -> Needs {
        if !self.is_foretold || !self.is_even {
            return Needs::All;
        }
        let needs = visitor.needs();
        match &self.chosen {
            // The first stretch of a window tells what is known where the others begin.
            Some(chosen) if next.goes_on() && !matches!(needs, Needs::Lanes(&[Lane::Task])) => {
                Needs::Chosen(chosen.clone())
            }
            _ => needs,
        }
    }
}

/// The blocks with what the visitor seeks; `None`: all are to be read.
fn choose<E>(
    next: &mut Unread,
    rings: Option<&PageSet>,
    names: &Names,
    visitor: &impl Visitor<E>,
) -> Option<Chosen> {
    let sought = visitor.sought(names)?;
    next.choose(rings, names, &*sought)
}
