//! A chapter of a history: a recording session, or a stretch of one that does not fit into memory.

use crate::source::{Clock, PageSet};
use crate::wall::WallClock;
use crate::window::{Edge, Window};
use crate::windows::Windows;

/// A chapter that has been read.
#[derive(Debug)]
pub struct Chapter {
    /// Its pages and metadata.
    pub recording: PageSet,
    /// The chapter has no events before this moment, ns of `CLOCK_MONOTONIC`.
    pub from: u64,
    /// The end of the chapter, and the wall clock at that moment.
    pub clock: Clock,
    /// The moment that relative times such as "10 s ago" are counted from, ns of
    /// `CLOCK_MONOTONIC`.
    pub present: u64,
    /// Start of the window in this chapter.
    pub since: Edge,
    /// End of the window in this chapter.
    pub until: Edge,
    /// The windows that a file was saved of, if only these parts of the window are wanted. Empty if
    /// all of the window is wanted.
    pub own: Vec<Window>,
    /// Lines to show the user beside the coverage.
    pub remarks: Vec<String>,
    /// Whether this is the only chapter of the history.
    pub is_only: bool,
    /// Not all pages of rings were read: [`Needs`](super::Needs).
    pub is_narrow: bool,
    /// It is a stretch of the window that [`Visitor::ahead`](super::Visitor::ahead) was given.
    pub is_foretold: bool,
    /// How this stretch of the window joins the others. `None`: the window is read in one piece,
    /// because it fits into memory.
    pub joins: Option<Joins>,
}

/// How a stretch of a window joins the others. A program that keeps its state from one stretch to
/// the next sees all events of the window, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Joins {
    /// The window that all stretches in files make up.
    pub whole: Window,
    /// Whether the stretches are all that is wanted of this recording. If not, the rings follow the
    /// files.
    pub is_whole: bool,
    /// Events before this moment belong to the previous stretch, or lie before the window.
    pub from: u64,
    /// Events from this moment on belong to the next stretch, or lie after the window.
    pub until: u64,
    /// Whether there is a previous stretch.
    pub before: bool,
    /// Whether there is a next stretch.
    pub after: bool,
}

impl Joins {
    /// All that may be told of together: what the stretches make up, and the rings that follow.
    pub fn reach(&self) -> Window {
        if self.is_whole { self.whole } else { Window { until: u64::MAX, ..self.whole } }
    }
}

impl Chapter {
    /// The only chapter of a history, from one source.
    pub fn only(recording: PageSet, clock: Clock, since: Edge, until: Edge) -> Self {
        Self {
            recording,
            from: 0,
            clock,
            present: clock.now,
            since,
            until,
            own: Vec::new(),
            remarks: Vec::new(),
            is_only: true,
            is_narrow: false,
            is_foretold: false,
            joins: None,
        }
    }

    /// The part of the window that the chapter can have events of.
    pub fn windows(&self, wall: &WallClock) -> Windows {
        self.windows_from(self.from, wall)
    }

    /// The same, including the stretches before this one.
    pub fn windows_so_far(&self, wall: &WallClock) -> Windows {
        self.windows_from(self.joins.map_or(self.from, |joins| joins.whole.from), wall)
    }

    fn windows_from(&self, from: u64, wall: &WallClock) -> Windows {
        let windows = wall.windows(self.since, self.until, self.present);
        // What happens while the pages are read is another dump's; before the recording there is
        // nothing.
        let limits = Window { from: self.recording.meta.started.max(from), until: self.clock.now };
        let within = if self.own.is_empty() {
            windows.within(limits)
        } else {
            Windows::new(self.own.iter().copied(), 0)
                .and_then(|own| own.within(windows.hull()))
                .and_then(|own| own.within(limits))
        };
        within.unwrap_or_else(|| {
            let at = windows.hull().from.max(limits.from).min(limits.until);
            Window { from: at, until: at }.into()
        })
    }
}

/// A window of several stretches, before they are read, if it is known already that nothing of it
/// is missing.
#[derive(Debug)]
pub struct Foretold {
    /// The chapter, with only a few of its pages.
    pub(super) chapter: Chapter,
    /// Nothing of this window is missing. The chapter has all pages outside of it that matter.
    pub(super) sure: Window,
    /// The wall clock ran evenly all the time, so the pages of any lane tell it alike.
    pub(super) is_even: bool,
}

impl Foretold {
    /// The chapter, with only a few of its pages.
    pub fn chapter(&self) -> &Chapter {
        &self.chapter
    }

    /// The window of which nothing is missing, whichever pages are read later.
    pub fn sure(&self) -> Window {
        self.sure
    }
}
