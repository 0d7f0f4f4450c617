//! A part of a history, before it is given to a visitor.

use super::chapter::{Chapter, Joins};
use super::files_part::FilesPart;

/// A chapter that is still to be read, or the rings, which are.
pub(super) enum Part {
    Files(Box<FilesPart>),
    Rings(Box<Chapter>),
}

impl Part {
    /// How it joins others of its window.
    pub(super) fn joins(&self) -> Option<Joins> {
        match self {
            Self::Files(part) => part.joins(),
            Self::Rings(chapter) => chapter.joins,
        }
    }
}
