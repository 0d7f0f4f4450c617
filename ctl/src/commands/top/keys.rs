//! What a key means.

use super::column::Column;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What is on the screen, as far as keys mean something else in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The table of threads.
    Table,
    /// A filter is being typed.
    Typing,
    /// What is told of a thread.
    Thread,
}

/// What is told of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum About {
    /// Why it was slow.
    #[default]
    Why,
    /// Its last events.
    Events,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// End.
    Quit,
    /// Sort by this.
    Sort(Column),
    /// Sort by the column to the right, or (-1) to the left.
    SortBeside(isize),
    /// Go down by so many lines, or up.
    Down(isize),
    /// Go right by so many columns, or left.
    Right(isize),
    /// Go down by a screen, or (-1) up.
    Page(isize),
    /// Go to the first line.
    First,
    /// Go to the last line.
    Last,
    /// Tell this of the selected thread, or of the one that is shown; `None`: read anew what is
    /// shown.
    Open(Option<About>),
    /// Go back to the table; there, forget the filter.
    Back,
    /// Type a filter.
    Filter,
    /// A letter of the filter.
    Letter(char),
    /// Take the last letter of the filter back.
    Erase,
    /// The filter is complete.
    Accept,
}

/// The meaning of a key; `None`: it has none.
pub fn action(key: KeyEvent, mode: Mode) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c')).then_some(Action::Quit);
    }
    let why = Action::Open(Some(About::Why));
    Some(match (mode, key.code) {
        (Mode::Typing, KeyCode::Char(letter)) => Action::Letter(letter),
        (Mode::Typing, KeyCode::Backspace) => Action::Erase,
        (Mode::Typing, KeyCode::Enter) => Action::Accept,
        (_, KeyCode::Esc) | (Mode::Thread, KeyCode::Backspace) => Action::Back,
        (_, KeyCode::Up) => Action::Down(-1),
        (_, KeyCode::Down) => Action::Down(1),
        (_, KeyCode::PageUp) => Action::Page(-1),
        (_, KeyCode::PageDown) => Action::Page(1),
        (_, KeyCode::Home) => Action::First,
        (_, KeyCode::End) => Action::Last,
        (Mode::Typing, _) => return None,
        (_, KeyCode::Char('q')) => Action::Quit,
        (Mode::Thread, KeyCode::Left) => Action::Right(-8),
        (Mode::Thread, KeyCode::Right) => Action::Right(8),
        (Mode::Thread, KeyCode::Char('r')) => Action::Open(None),
        (Mode::Thread, KeyCode::Char('e')) => Action::Open(Some(About::Events)),
        (Mode::Thread, KeyCode::Char('w')) | (Mode::Table, KeyCode::Enter) => why,
        (Mode::Table, KeyCode::Left) => Action::SortBeside(-1),
        (Mode::Table, KeyCode::Right) => Action::SortBeside(1),
        (Mode::Table, KeyCode::Char('s')) => Action::Sort(Column::Syscalls),
        (Mode::Table, KeyCode::Char('e')) => Action::Sort(Column::Errors),
        (Mode::Table, KeyCode::Char('r')) => Action::Sort(Column::Run),
        (Mode::Table, KeyCode::Char('d')) => Action::Sort(Column::Delay),
        (Mode::Table, KeyCode::Char('h')) => Action::Sort(Column::Held),
        (Mode::Table, KeyCode::Char('b')) => Action::Sort(Column::Blocked),
        (Mode::Table, KeyCode::Char('/')) => Action::Filter,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, mode: Mode) -> Option<Action> {
        action(KeyEvent::new(code, KeyModifiers::NONE), mode)
    }

    #[test]
    fn letters_sort_in_the_table_and_are_letters_in_a_filter() {
        assert_eq!(press(KeyCode::Char('e'), Mode::Table), Some(Action::Sort(Column::Errors)));
        assert_eq!(press(KeyCode::Char('q'), Mode::Typing), Some(Action::Letter('q')));
        assert_eq!(press(KeyCode::Char('r'), Mode::Thread), Some(Action::Open(None)));
        assert_eq!(
            (press(KeyCode::Enter, Mode::Table), press(KeyCode::Char('e'), Mode::Thread)),
            (Some(Action::Open(Some(About::Why))), Some(Action::Open(Some(About::Events))))
        );
        assert_eq!(press(KeyCode::Char('x'), Mode::Table), None);
    }

    #[test]
    fn control_c_always_ends_and_no_other_control_does_anything() {
        for mode in [Mode::Table, Mode::Typing, Mode::Thread] {
            let press =
                |letter| action(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL), mode);
            assert_eq!((press('c'), press('q')), (Some(Action::Quit), None));
        }
    }
}
