//! Who is given the chapters of a history, and what of them it needs.

use std::sync::Arc;

use flightrec_format::abi::page::Lane;

use super::chapter::{Chapter, Foretold};
use crate::source::files::name_index::Names;
use crate::source::files::narrow::{Chosen, Sought};

/// Which events a visitor needs of a stretch that [`Visitor::ahead`] was given.
#[derive(Debug, Clone)]
pub enum Needs {
    /// Those of all lanes.
    All,
    /// Those of these lanes alone, of which the task lane is one, beside all else that is no event.
    /// The recording then lacks the pages of the other lanes, of which is known that none is
    /// missing in the files.
    Lanes(&'static [Lane]),
    /// As [`Self::Lanes`], what [`Ends`](crate::pipeline::ends::Ends) takes: system calls without
    /// what their arguments and strings hold, and the task lane. Of the stretches that follow the
    /// same is needed, unless blocks of them were chosen: each is read while the visitor has the
    /// one before.
    CallEnds,
    /// Those of some blocks, and of the task lane. It is known that nothing is missing.
    Chosen(Arc<Chosen>),
}

/// Receives the chapters of a history.
pub trait Visitor<E> {
    /// Whether [`Self::ahead`] is of any use. To know it costs reading.
    fn listens(&self) -> bool {
        false
    }

    /// Whether that is so only where it is known, before they are read, of which events it can't
    /// tell whether it wants them: where there are none after the first stretch of a window, and
    /// [`Self::sought`] is little. It is [asked](Self::ask) then what it seeks.
    fn doubts(&self) -> bool {
        false
    }

    /// Takes the window that [`Self::ahead`] may be given, to tell what it seeks in it.
    fn ask(&mut self, _chapter: &Foretold) {}

    /// What is read of the window after its first stretch: blocks with all that it seeks.
    fn chosen(&mut self, _chosen: &Chosen) {}

    /// Takes a window of several stretches before the first of them is read, if nothing of it is
    /// missing; else the window without its first stretch, before the second is read.
    ///
    /// # Errors
    /// The visitor's own; it ends the reading.
    fn ahead(&mut self, _chapter: &Foretold) -> Result<(), E> {
        Ok(())
    }

    /// Whether [`Self::names`] may save it events of the window that [`Self::ahead`] was given.
    fn wants_names(&self) -> bool {
        false
    }

    /// Takes all names that any thread may have in the window that [`Self::ahead`] was given.
    fn names(&mut self, _names: &Names) {}

    /// What it seeks in the window that [`Self::ahead`] was given, where that is little: the blocks
    /// without any of it are then left unread, as far as that changes nothing of what is found.
    /// `names`: all that any thread may have in it.
    fn sought(&self, _names: &Names) -> Option<Box<dyn Sought>> {
        None
    }

    /// What it needs of the next chapter, if that is a stretch of the window that [`Self::ahead`]
    /// was given.
    fn needs(&self) -> Needs {
        Needs::All
    }

    /// Takes the next chapter.
    ///
    /// # Errors
    /// The visitor's own; it ends the reading.
    fn take(&mut self, chapter: Chapter) -> Result<Go, E>;
}

impl<E, F: FnMut(Chapter) -> Result<Go, E>> Visitor<E> for F {
    fn take(&mut self, chapter: Chapter) -> Result<Go, E> {
        self(chapter)
    }
}

/// Whether the following chapters are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Go {
    /// Yes.
    On,
    /// No.
    Enough,
}
