//! A line on the terminal while something takes longer than a second.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use flightrec_reader::observe::{Meter, Observer};

use crate::{explain, guard};
use flightrec_cli::note;
use flightrec_format::human::bytes;

/// What takes less time needs no line.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the line is written anew.
const PERIOD: Duration = Duration::from_millis(200);
/// To the start of the line, and erase it.
const ERASE: &str = "\r\x1b[K";

/// Shows a person at a terminal what reading tells.
#[derive(Debug)]
pub struct Terminal;

impl Observer for Terminal {
    fn begins(&self, what: &'static str) -> Box<dyn Meter> {
        Box::new(Progress::start(what))
    }

    fn note(&self, line: &str) {
        if !OFF.load(Ordering::Relaxed) && SAID.lock().is_ok_and(|mut said| is_new(&mut said, line))
        {
            note(line);
        }
    }

    fn reads_files(&self) {
        guard::watch();
    }

    fn opens(&self, file: &Path, blocks: u64, bytes: u64) {
        explain::opens(file, blocks, bytes);
    }

    fn decodes(&self, file: &Path, offset: u64, bytes: u64) {
        explain::decodes(file, offset, bytes);
    }

    fn checks(&self, bytes: u64) {
        explain::checks(bytes);
    }
}

impl Meter for Progress {
    fn add(&self, bytes: u64) {
        self.add(bytes);
    }
}

/// The notes that were written. Some commands read a recording several times.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
/// Most notes that are remembered; those after them are written each time.
const SAID_MAX: usize = 1024;

/// Whether a note was not written yet.
fn is_new(said: &mut BTreeSet<String>, line: &str) -> bool {
    if said.contains(line) {
        return false;
    }
    if said.len() < SAID_MAX {
        said.insert(line.to_owned());
    }
    true
}

/// Whether there are to be no lines.
static OFF: AtomicBool = AtomicBool::new(false);

/// A line on standard error that says what is being done. It is there only where standard error is
/// a terminal, from `PATIENCE` on, and is gone when this is dropped.
#[derive(Debug)]
pub struct Progress {
    /// None where there is nobody to see it.
    line: Option<(Arc<Shared>, JoinHandle<()>)>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    ended: bool,
}

impl Progress {
    /// Begins: `what` is done now, as in `reading the recording`.
    pub fn start(what: &'static str) -> Self {
        let stderr = io::stderr();
        let seen = !OFF.load(Ordering::Relaxed)
            && stderr.is_terminal()
            && std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        Self { line: seen.then(|| Self::on(what, stderr, PATIENCE)).flatten() }
    }

    /// The terminal is a program's screen from now on: no line on it.
    pub fn off() {
        OFF.store(true, Ordering::Relaxed);
    }

    fn on(
        what: &'static str,
        terminal: impl Write + Send + 'static,
        patience: Duration,
    ) -> Option<(Arc<Shared>, JoinHandle<()>)> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let draw = move || theirs.draw(what, terminal, patience);
        // Without a thread there is no line, and nothing else is amiss.
        let thread = thread::Builder::new().name("progress".into()).spawn(draw).ok()?;
        Some((shared, thread))
    }

    /// So many bytes more are done.
    pub fn add(&self, bytes: u64) {
        if let Some((shared, _)) = &self.line {
            let mut state = shared.lock();
            state.bytes = state.bytes.saturating_add(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some((shared, thread)) = self.line.take() else { return };
        shared.lock().ended = true;
        shared.changed.notify_all();
        // A line that could not be written is nobody's loss.
        let _ = thread.join();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: waits, then writes the line again and again, until the end.
    fn draw(&self, what: &str, mut terminal: impl Write, patience: Duration) {
        let start = Instant::now();
        let mut wait = patience;
        let mut drawn = false;
        loop {
            let waited = self.changed.wait_timeout_while(self.lock(), wait, |state| !state.ended);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            let (ended, done) = (state.ended, state.bytes);
            drop(state);
            let line = match (ended, drawn) {
                (true, false) => return,
                (true, true) => ERASE.to_owned(),
                (false, _) => {
                    let amount =
                        if done == 0 { String::new() } else { format!(", {}", bytes(done)) };
                    format!("{ERASE}flightctl: {what}: {} s{amount}", start.elapsed().as_secs())
                }
            };
            if terminal.write_all(line.as_bytes()).and_then(|()| terminal.flush()).is_err() || ended
            {
                return;
            }
            (drawn, wait) = (true, PERIOD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// A terminal that hands on what is written to it.
    struct Terminal(mpsc::Sender<String>);

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_comes_and_goes() {
        let (sender, written) = mpsc::channel();
        let progress = Progress { line: Progress::on("reading", Terminal(sender), Duration::ZERO) };
        progress.add(3 << 20);
        let first = written.recv().unwrap();
        assert!(first.starts_with(&format!("{ERASE}flightctl: reading: 0 s")), "{first:?}");
        let amount =
            std::iter::once(first).chain(written.iter()).find(|line| line.ends_with(", 3 MiB"));
        assert!(amount.is_some(), "the line ended without the amount");
        drop(progress);
        assert_eq!(written.iter().last().as_deref(), Some(ERASE), "nothing is left of it");
    }

    #[test]
    fn a_note_is_written_once() {
        let mut said = BTreeSet::new();
        assert!(is_new(&mut said, "left out: a") && is_new(&mut said, "left out: b"));
        assert!(!is_new(&mut said, "left out: a"));
        assert!((0..2 * SAID_MAX).all(|number| is_new(&mut said, &number.to_string())));
        assert_eq!(said.len(), SAID_MAX);
    }

    #[test]
    fn what_is_quick_shows_nothing() {
        let (sender, written) = mpsc::channel();
        drop(Progress { line: Progress::on("reading", Terminal(sender), Duration::from_hours(1)) });
        assert_eq!(written.iter().count(), 0);
    }
}
