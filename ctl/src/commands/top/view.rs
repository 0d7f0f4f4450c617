//! How the screen looks.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::column::Column;
use super::keys::About;
use super::plain::{self, Wide};
use super::screen::{Detail, Screen};
use super::table::Row;
use flightrec_format::human::counted;

const TABLE_KEYS: &str = "q quit  s e r d h b or ←→ sort  ↑↓ select  Enter why  / filter";
const TYPING_KEYS: &str = "Enter done  Esc no filter  (a part of name, tid or pid)";
const WHY_KEYS: &str = "Esc back  e events  r read again  ↑↓ ←→ PgUp PgDn Home End move  q quit";
const EVENTS_KEYS: &str = "Esc back  w why  r read again  ↑↓ ←→ PgUp PgDn Home End move  q quit";

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, screen: &mut Screen) {
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    if let Some(detail) = &screen.detail {
        let what = match detail.about {
            About::Why => "Why it was slow in the last 10 s: thread",
            About::Events => "Last events of thread",
        };
        let said = [format!("{what} {} {}", detail.tid, detail.name), place(detail, middle)];
        lines(frame, top, &said, Style::new().bold());
        told(frame, middle, detail);
        screen.room = usize::from(middle.height);
    } else {
        lines(frame, top, &[summary(screen), choice(screen)], Style::new());
        table(frame, middle, screen);
    }
    let keys = match screen {
        Screen { detail: Some(Detail { about: About::Why, .. }), .. } => WHY_KEYS,
        Screen { detail: Some(_), .. } => EVENTS_KEYS,
        Screen { typing: true, .. } => TYPING_KEYS,
        _ => TABLE_KEYS,
    };
    lines(frame, bottom, &[keys.to_owned()], Style::new().dim());
}

fn lines(frame: &mut Frame<'_>, area: Rect, text: &[String], style: Style) {
    let text: Vec<Line<'_>> = text.iter().map(|line| Line::styled(line.as_str(), style)).collect();
    frame.render_widget(Paragraph::new(text), area);
}

/// `flightctl top: 12 threads in 1.0 s, 12345 calls/s, 12 errors/s, 1.7 CPUs busy`
fn summary(screen: &Screen) -> String {
    let table = &screen.table;
    if table.length == 0 {
        return "flightctl top: collecting the first figures".to_owned();
    }
    let seconds = table.length as f64 / 1e9;
    let rate = |column| table.total(column) as f64 / seconds;
    let run = table.total(Column::Run) as f64 / table.length as f64;
    format!(
        "flightctl top: {} in {seconds:.1} s, {:.0} calls/s, {:.0} errors/s, {run:.1} CPUs busy",
        counted(table.rows.len() as u64, "thread"),
        rate(Column::Syscalls),
        rate(Column::Errors),
    )
}

/// The filter, and what the user should know.
fn choice(screen: &Screen) -> String {
    let mut said = Vec::new();
    if screen.typing {
        said.push(format!("filter: {}_", screen.filter));
    } else if !screen.filter.is_empty() {
        said.push(format!("filter: {}", screen.filter));
    }
    if screen.table.skipped != 0 {
        said.push(plain::skipped(screen.table.skipped));
    }
    said.extend(screen.note.clone());
    said.join("; ")
}

fn table(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen) {
    let rows = screen.rows();
    let at = screen.place(&rows);
    let wide = Wide::new(&rows, usize::from(area.width));
    let line = |row: &&Row| {
        (
            plain::line(row, screen.table.length, wide),
            screen.colour && row.state.is_uninterruptible(),
        )
    };
    let text: Vec<(String, bool)> = rows.iter().map(line).collect();
    // The first line has the names of the columns.
    let room = usize::from(area.height).saturating_sub(1);
    screen.scroll(at, text.len(), room);
    let head = Line::styled(plain::head(screen.sort, wide), Style::new().bold());
    let shown = text.iter().enumerate().skip(screen.top).take(room).map(|(i, (line, is_stuck))| {
        let style =
            if i == at { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        if *is_stuck {
            let (before, letter, after) = plain::parts(line);
            let letter = Span::styled(letter, Style::new().fg(Color::Red).bold());
            return Line::from(vec![Span::raw(before), letter, Span::raw(after)]).style(style);
        }
        Line::styled(line.as_str(), style)
    });
    let all: Vec<Line<'_>> = std::iter::once(head).chain(shown).collect();
    frame.render_widget(Paragraph::new(all), area);
}

fn told(frame: &mut Frame<'_>, area: Rect, detail: &Detail) {
    // Every character of a line is one byte, and one column.
    let part = |line: &String| line.get(detail.left..).unwrap_or_default().to_owned();
    let shown = detail.lines.iter().skip(detail.top).take(usize::from(area.height));
    let text: Vec<Line<'_>> = shown.map(|line| Line::raw(part(line))).collect();
    frame.render_widget(Paragraph::new(text), area);
}

/// `lines 80 to 100 of 100`
fn place(detail: &Detail, area: Rect) -> String {
    let last = (detail.top + usize::from(area.height)).min(detail.lines.len());
    match detail.lines.len() {
        0 => "the recording holds none of its events any more".to_owned(),
        all => format!("lines {} to {last} of {all}", detail.top + 1),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::commands::top::keys::Action;
    use crate::commands::top::screen::Wish;
    use crate::commands::top::table::{Figures, Table};
    use flightrec_analysis::State;

    fn row(tid: u32, comm: &str, syscalls: u64, run: u64) -> Row {
        let figures = Figures {
            syscalls,
            errors: syscalls / 10,
            run,
            delay: 1000,
            held: 0,
            blocked: 1_000_000_000 - run,
        };
        Row {
            tid,
            pid: tid,
            comm: comm.as_bytes().into(),
            state: State::Running,
            figures,
            ..Row::default()
        }
    }

    fn screen() -> Screen {
        let rows = vec![
            row(1, "init", 5, 7),
            row(20, "hog", 2, 990_000_000),
            row(30, "caller", 9000, 400_000_000),
        ];
        Screen {
            table: Table { length: 1_000_000_000, rows, ..Table::default() },
            ..Screen::default()
        }
    }

    /// The screen's lines as drawn with this size.
    fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
        cells.chunks(usize::from(width)).map(|line| line.concat().trim_end().to_owned()).collect()
    }

    #[test]
    fn the_busiest_is_at_the_top_of_80_columns() {
        let mut screen = screen();
        let lines = drawn(&mut screen, 80, 8);
        assert_eq!(
            lines[0],
            "flightctl top: 3 threads in 1.0 s, 9007 calls/s, 900 errors/s, 1.4 CPUs busy"
        );
        assert!(lines[2].starts_with("    tid     pid name            S CALLS/S"), "{lines:#?}");
        assert!(
            lines[3].contains("caller") && lines[4].contains("init") && lines[5].contains("hog"),
            "{lines:#?}"
        );
        assert_eq!(lines[7], TABLE_KEYS);
        assert!(screen.act(Action::Sort(Column::Run)) == Wish::Nothing);
        let lines = drawn(&mut screen, 80, 8);
        assert!(lines[3].contains("hog") && lines[2].contains("RUN %"), "{lines:#?}");
    }

    #[test]
    fn a_wide_screen_tells_what_threads_are_in() {
        let mut screen = screen();
        for row in &mut screen.table.rows {
            (row.unit, row.doing) = ("web.service".into(), format!("read({})", row.tid));
        }
        screen.table.rows[0].state = State::Blocked(2);
        assert!(drawn(&mut screen, 80, 8).iter().all(|line| !line.contains("read(")));
        let lines = drawn(&mut screen, 120, 8);
        assert!(
            lines[2].contains("unit") && lines[3].contains("  web.service  read(30)"),
            "{lines:#?}"
        );
        assert!(lines[4].contains(" D ") && lines[4].ends_with("read(1)"), "{lines:#?}");
        let red = |screen: &mut Screen| {
            let mut terminal = Terminal::new(TestBackend::new(80, 8)).unwrap();
            terminal.draw(|frame| draw(frame, screen)).unwrap();
            let cells = terminal.backend().buffer().content().iter();
            cells
                .filter(|cell| cell.fg == Color::Red)
                .map(ratatui::buffer::Cell::symbol)
                .collect::<String>()
        };
        assert_eq!(red(&mut screen), "");
        screen.colour = true;
        assert_eq!(red(&mut screen), "D");
    }

    #[test]
    fn the_selected_thread_stays_selected_and_in_sight() {
        let mut screen = screen();
        drawn(&mut screen, 80, 5); // room for one row
        screen.act(Action::Down(1));
        assert_eq!(screen.selected, Some(1));
        assert!(drawn(&mut screen, 80, 5)[3].contains("init"));
        screen.act(Action::Sort(Column::Run));
        assert!(drawn(&mut screen, 80, 5)[3].contains("init"));
        screen.act(Action::First);
        assert_eq!(screen.act(Action::Open(Some(About::Why))), Wish::Thread(20, About::Why));
        screen.act(Action::Last);
        assert_eq!(screen.selected, Some(1));
        screen.act(Action::Page(-1));
        assert_eq!(screen.selected, Some(30));
    }

    #[test]
    fn a_filter_is_typed() {
        let mut screen = screen();
        screen.act(Action::Filter);
        for letter in "hoog".chars() {
            screen.act(Action::Letter(letter));
        }
        assert!(drawn(&mut screen, 80, 8)[1].starts_with("filter: hoog_"));
        screen.act(Action::Erase);
        screen.act(Action::Erase);
        screen.act(Action::Accept);
        let lines = drawn(&mut screen, 80, 8);
        assert_eq!(lines[1], "filter: ho");
        assert!(lines[3].contains("hog") && lines[4].is_empty(), "{lines:#?}");
        screen.act(Action::Back);
        assert_eq!(screen.rows().len(), 3);
    }

    #[test]
    fn a_threads_events() {
        let mut screen = screen();
        drawn(&mut screen, 40, 8);
        let text = (0..20).map(|i| format!("{i:02} {}", "x".repeat(60))).collect();
        screen.open(20, "hog".into(), About::Events, text);
        let lines = drawn(&mut screen, 40, 8);
        assert!(
            lines[0].starts_with("Last events of thread 20 hog")
                && lines[1] == "lines 16 to 20 of 20",
            "{lines:#?}"
        );
        assert!(lines[2].starts_with("15 x") && lines[6].starts_with("19 x"), "{lines:#?}");
        screen.act(Action::Down(-3));
        screen.act(Action::Right(8));
        assert!(drawn(&mut screen, 40, 8)[2].starts_with("xxxx"));
        screen.act(Action::First);
        screen.act(Action::Right(-8));
        assert!(drawn(&mut screen, 40, 8)[2].starts_with("00 x"));
        assert_eq!(screen.act(Action::Open(None)), Wish::Thread(20, About::Events));
        let why = Wish::Thread(20, About::Why);
        assert_eq!(screen.act(Action::Open(Some(About::Why))), why);
        let answer = ["hog (20) waited", "", "more"].map(str::to_owned).to_vec();
        screen.open(20, "hog".into(), About::Why, answer);
        let lines = drawn(&mut screen, 60, 4);
        assert_eq!(lines[0], "Why it was slow in the last 10 s: thread 20 hog");
        assert_eq!(lines[2], "hog (20) waited");
        assert_eq!(screen.act(Action::Open(None)), why);
        screen.act(Action::Back);
        assert_eq!(screen.detail, None);
    }

    #[test]
    fn any_size() {
        for (width, height) in [(1, 1), (80, 1), (80, 2), (80, 3), (3, 50), (300, 4)] {
            let mut screen = screen();
            drawn(&mut screen, width, height);
            screen.act(Action::Page(1));
            drawn(&mut screen, width, height);
            screen.open(1, String::new(), About::Events, vec!["x".into(); 9]);
            drawn(&mut screen, width, height);
        }
        drawn(&mut Screen::default(), 80, 24);
    }
}
