//! What the screen shows, and what a key changes in it.

use super::column::Column;
use super::keys::{About, Action, Mode};
use super::table::{Row, Table};

/// Longest filter, in characters.
const FILTER_MAX: usize = 40;

/// What is told of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detail {
    /// What it is.
    pub about: About,
    /// Thread.
    pub tid: u32,
    /// Its name, printable.
    pub name: String,
    /// The answer, or its events, oldest first; printable.
    pub lines: Vec<String>,
    /// First line on the screen.
    pub top: usize,
    /// First column on the screen.
    pub left: usize,
}

/// What is to be done outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Nothing more.
    Nothing,
    /// End.
    Quit,
    /// Find this of this thread.
    Thread(u32, About),
}

/// The screen.
#[derive(Debug, Default)]
pub struct Screen {
    /// The last table.
    pub table: Table,
    /// Its order.
    pub sort: Column,
    /// Its filter.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// Thread that is selected; it stays so wherever it goes.
    pub selected: Option<u32>,
    /// First row on the screen.
    pub top: usize,
    /// Rows, or lines of events, that fit on the screen; found out when it is drawn.
    pub room: usize,
    /// A thread that was opened.
    pub detail: Option<Detail>,
    /// What the user should know.
    pub note: Option<String>,
    /// Colours.
    pub colour: bool,
}

impl Screen {
    /// An empty table.
    pub fn new(sort: Column, filter: String, colour: bool) -> Self {
        Self { sort, filter, colour, ..Self::default() }
    }

    /// What keys mean now.
    pub fn mode(&self) -> Mode {
        match self {
            Self { detail: Some(_), .. } => Mode::Thread,
            Self { typing: true, .. } => Mode::Typing,
            _ => Mode::Table,
        }
    }

    /// The rows to show.
    pub fn rows(&self) -> Vec<&Row> {
        self.table.view(&self.filter, self.sort)
    }

    /// Place of the selected thread in the rows; the first, where it is not there.
    pub fn place(&self, rows: &[&Row]) -> usize {
        self.selected.and_then(|tid| rows.iter().position(|row| row.tid == tid)).unwrap_or(0)
    }

    /// Does what a key asked for.
    pub fn act(&mut self, action: Action) -> Wish {
        let page = self.room.max(2).cast_signed() - 1;
        match action {
            Action::Quit => return Wish::Quit,
            Action::Sort(column) => self.sort = column,
            Action::SortBeside(by) => self.sort = self.sort.beside(by),
            Action::Down(by) => self.go(by),
            Action::Page(by) => self.go(by.saturating_mul(page)),
            Action::First => self.go(isize::MIN),
            Action::Last => self.go(isize::MAX),
            Action::Right(by) => {
                if let Some(detail) = &mut self.detail {
                    let widest = detail.lines.iter().map(String::len).max().unwrap_or(0);
                    detail.left = detail.left.saturating_add_signed(by).min(widest);
                }
            }
            Action::Open(about) => {
                let rows = self.rows();
                let selected = rows.get(self.place(&rows)).map(|row| row.tid);
                let shown = self.detail.as_ref();
                let about = about.or(shown.map(|detail| detail.about)).unwrap_or_default();
                let tid = shown.map(|detail| detail.tid).or(selected);
                return tid.map_or(Wish::Nothing, |tid| Wish::Thread(tid, about));
            }
            Action::Back => {
                if self.detail.take().is_none() {
                    self.filter.clear();
                    self.typing = false;
                }
            }
            Action::Filter => self.typing = true,
            Action::Letter(letter)
                if self.filter.chars().count() < FILTER_MAX && !letter.is_control() =>
            {
                self.filter.push(letter);
            }
            Action::Letter(_) => {}
            Action::Erase => drop(self.filter.pop()),
            Action::Accept => self.typing = false,
        }
        Wish::Nothing
    }

    /// Opens a thread: why it was slow, from the beginning on; or its last events, of which the
    /// newest are seen.
    pub fn open(&mut self, tid: u32, name: String, about: About, lines: Vec<String>) {
        // The names of the table's columns make room for one more.
        let room = self.room + usize::from(self.detail.is_none());
        let top = match about {
            About::Why => 0,
            About::Events => lines.len().saturating_sub(room.max(1)),
        };
        let left = self.detail.as_ref().filter(|of| of.about == about).map_or(0, |of| of.left);
        self.detail = Some(Detail { about, tid, name, lines, top, left });
    }

    fn go(&mut self, by: isize) {
        let room = self.room;
        if let Some(detail) = &mut self.detail {
            let last = detail.lines.len().saturating_sub(room.max(1));
            detail.top = detail.top.saturating_add_signed(by).min(last);
            return;
        }
        let rows = self.rows();
        let to = self.place(&rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.selected = rows.get(to).map(|row| row.tid);
    }

    /// Brings the selected row, in place `at` of `rows`, on a screen with room for so many.
    pub fn scroll(&mut self, at: usize, rows: usize, room: usize) {
        self.room = room;
        if room == 0 {
            self.top = at;
            return;
        }
        let highest = rows.saturating_sub(room);
        self.top = self.top.clamp((at + 1).saturating_sub(room), at).min(highest);
    }
}
