//! Where one recording ended and the next began.

use flightrec_reader::boots::{self, BootId};
use flightrec_reader::source::history::Chapter;
use flightrec_reader::wall::WallClock;
use flightrec_reader::window::Window;
use jiff::tz::TimeZone;

use super::lines::Times;
use crate::text::printable;
use flightrec_format::human::span;

/// The end of the chapter before.
#[derive(Debug, Clone, Default)]
pub struct Seam {
    before: Option<End>,
    open: bool,
}

/// A chapter's end.
#[derive(Debug, Clone)]
struct End {
    boot: BootId,
    session: u64,
    /// ns of `CLOCK_MONOTONIC`.
    until: u64,
}

impl Seam {
    /// What is to be said between the chapter before and this one; nothing of a chapter that is the
    /// only one.
    pub fn between(
        &mut self,
        chapter: &Chapter,
        window: Window,
        wall: &mut WallClock,
        zone: &TimeZone,
    ) -> Option<String> {
        let meta = &chapter.recording.meta;
        let boot = boots::of_meta(meta);
        let before =
            self.before.replace(End { boot, session: meta.session, until: chapter.clock.now });
        self.open = false;
        if chapter.is_only {
            return None;
        }
        let mut times = Times { wall, zone };
        let name = format!("recording {:016x}", meta.session);
        let Some(before) = before.filter(|before| before.boot == boot) else {
            let host = of_host(&meta.host);
            return Some(format!(
                "boot {}{host}: {name}, since {}",
                boots::id_text(&boot),
                times.full(meta.started)
            ));
        };
        if before.session == meta.session {
            return None; // a long window is told in stretches
        }
        // The one before is read up to where this one begins.
        let nothing = meta.started.saturating_sub(before.until);
        self.open = nothing != 0 && window.from < window.until;
        let mut line =
            format!("{name} began at {}, where the one before it ends", times.full(meta.started));
        if self.open {
            let (then, nothing) = (times.full(before.until), span(nothing));
            line = format!(
                "{name} began at {}; the one before it ends at {then}: nothing was recorded in \
                 the {nothing} between",
                times.full(meta.started)
            );
        }
        Some(line)
    }

    /// Whether there is a stretch between the last two chapters of which nothing is known.
    pub fn is_open(&self) -> bool {
        self.open
    }
}

/// ` of the host shop`
fn of_host(host: &str) -> String {
    if host.is_empty() { String::new() } else { format!(" of the host {}", printable(host)) }
}
