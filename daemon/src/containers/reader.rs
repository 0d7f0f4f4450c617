//! The thread that reads the files: a disk, or what looks like one, may take its time.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flightrec_format::meta::ContainerNames;

use super::Wanted;
use super::files::Files;
use super::sources;

/// The thread, as its user sees it. It ends with this, once no file keeps it.
#[derive(Debug)]
pub(super) struct Reader {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// What is to be looked for next.
    asked: Vec<Wanted>,
    /// Something is being looked for.
    is_busy: bool,
    found: Vec<(u64, ContainerNames)>,
    has_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader {
    /// Of files below `root`.
    pub(super) fn start(root: &Path) -> io::Result<Self> {
        let files = Files::new(root);
        Self::with(move |wanted| sources::look(&files, wanted))
    }

    fn with(
        look: impl Fn(&[Wanted]) -> Vec<(u64, ContainerNames)> + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        std::thread::Builder::new().name("containers".into()).spawn(move || {
            let mut state = own.lock();
            while !state.has_ended {
                if state.asked.is_empty() {
                    state = own.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                let asked = std::mem::take(&mut state.asked);
                state.is_busy = true;
                drop(state);
                let found = look(&asked);
                state = own.lock();
                state.found.extend(found);
                state.is_busy = false;
                own.changed.notify_all();
            }
        })?;
        Ok(Self { shared })
    }

    /// Has these looked for; `false`: it is busy, or nothing is asked for.
    pub(super) fn ask(&self, wanted: Vec<Wanted>) -> bool {
        let mut state = self.shared.lock();
        if state.is_busy || !state.asked.is_empty() || wanted.is_empty() {
            return false;
        }
        state.asked = wanted;
        self.shared.changed.notify_all();
        true
    }

    /// Waits until nothing is looked for, at most so long.
    pub(super) fn wait(&self, limit: Duration) {
        let is_working = |state: &mut State| state.is_busy || !state.asked.is_empty();
        let state = self.shared.lock();
        drop(self.shared.changed.wait_timeout_while(state, limit, is_working));
    }

    /// What was found.
    pub(super) fn found(&self) -> Vec<(u64, ContainerNames)> {
        std::mem::take(&mut self.shared.lock().found)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use flightrec_format::containers::Runtime;

    use super::*;

    fn wanted(group: u64) -> Vec<Wanted> {
        let id = "x".to_owned();
        vec![Wanted { group, runtime: Runtime::Docker, id, pod_uid: String::new() }]
    }

    #[test]
    fn a_file_that_does_not_answer_holds_nobody_up() {
        let (answer, answers) = channel::<()>();
        let reader = Reader::with(move |wanted| {
            let _ = answers.recv();
            wanted.iter().map(|of| (of.group, ContainerNames::default())).collect()
        })
        .unwrap();
        assert!(!reader.ask(Vec::new()));
        assert!(reader.ask(wanted(1)));
        for _ in 0..100 {
            assert!(!reader.ask(wanted(2)), "it is busy");
            assert_eq!(reader.found(), []);
        }
        reader.wait(Duration::from_millis(1));
        answer.send(()).unwrap();
        reader.wait(Duration::from_secs(10));
        assert_eq!(reader.found(), [(1, ContainerNames::default())]);
        assert_eq!(reader.found(), [], "once");
        assert!(reader.ask(wanted(3)));
    }
}
