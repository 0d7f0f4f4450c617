//! Files that say which window they were saved of: snapshots, and what `flightctl save` wrote.
//!
//! What else such a file holds is there to explain its window: calls that began before it, names,
//! descriptors.

use flightrec_store::snapshots;

use super::chapters::chapters;
use super::part::Part;
use super::question::Question;
use crate::source::files::FilesError;
use crate::source::files::catalog::{BootFiles, SessionFiles};
use crate::source::files::session::SessionSource;
use crate::window::{Edge, Window};

/// What the files of a session were saved of.
pub(super) struct Own {
    /// By time; none touches another.
    windows: Vec<Window>,
    /// What of them is wanted, by time: less than all where a file was saved of several stretches.
    stretches: Vec<Window>,
}

/// The windows that the files of each session were saved of, by time; `None` where a file does not
/// say.
pub(super) fn windows(boots: &[BootFiles]) -> Option<Vec<(SessionFiles, Own)>> {
    let sessions = boots.iter().flat_map(|boot| &boot.sessions);
    sessions.map(|session| Some((session.clone(), of_session(session)?))).collect()
}

fn of_session(session: &SessionFiles) -> Option<Own> {
    let mut windows = Vec::with_capacity(session.files.len());
    let mut stretches = Vec::with_capacity(session.files.len());
    for file in &session.files {
        // One that can't be read is told of when it is read.
        let about = snapshots::about(&file.path).ok()??;
        let window = Window { from: about.held_from, until: about.until };
        windows.push(window);
        let told = about
            .stretches
            .iter()
            .map(|(from, until)| Window { from: *from, until: *until }.within(window));
        let before = stretches.len();
        stretches.extend(told.filter(|stretch| !stretch.is_empty()));
        if stretches.len() == before {
            stretches.push(window);
        }
    }
    Some(Own { windows: merged(windows), stretches: merged(stretches) })
}

/// Windows by time, those that touch as one.
fn merged(mut windows: Vec<Window>) -> Vec<Window> {
    windows.sort_by_key(|window| window.from);
    let mut merged: Vec<Window> = Vec::with_capacity(windows.len());
    for window in windows {
        match merged.last_mut() {
            Some(last) if window.from <= last.until => last.until = last.until.max(window.until),
            _ => merged.push(window),
        }
    }
    merged
}

/// A chapter for each of them.
pub(super) fn parts(
    sessions: Vec<(SessionFiles, Own)>,
    question: Question,
) -> Result<Vec<Part>, FilesError> {
    let mut parts = Vec::new();
    for (session, Own { windows, stretches }) in sessions {
        // As a session's files count: back from the last moment that they have.
        let now = SessionSource::open(session.clone())?.clock().now;
        for window in windows {
            let since = Edge::Ago(now.saturating_sub(window.from));
            let until =
                now.checked_sub(window.until).filter(|ago| *ago != 0).map_or(Edge::Open, Edge::Ago);
            let question = Question { since, until, ..question };
            let mut chapters = chapters(vec![session.clone()], question, None, true)?;
            if stretches != [window] {
                let inside: Vec<Window> =
                    stretches.iter().map(|stretch| stretch.within(window)).collect();
                for part in &mut chapters {
                    if let Part::Files(part) = part {
                        part.limit(&inside);
                    }
                }
            }
            parts.extend(chapters);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_touch_are_one() {
        let window = |(from, until)| Window { from, until };
        let of = |windows: &[(u64, u64)]| merged(windows.iter().copied().map(window).collect());
        let two = [(1, 5), (7, 9)].map(window);
        assert_eq!(of(&[(7, 9), (3, 5), (1, 4)]), two);
        assert_eq!(of(&[(1, 9), (2, 3), (9, 10)]), [window((1, 10))]);
        assert_eq!(of(&[]), []);
    }
}
