//! A time that is over: which, and in which recording.

use clap::Args;
use flightrec_reader::source::history::Question;
use flightrec_reader::source::{HistoryPlace, HistoryPlan, Origin};
use flightrec_reader::window::Edge;
use jiff::Zoned;
use thiserror::Error;

use super::recorder::RecorderArgs;
use super::store::StoreArgs;
use super::window::{WindowArgs, WindowError};

/// The same for every command that reads what was recorded.
#[derive(Debug, Args)]
pub struct PastArgs {
    /// Which time.
    #[command(flatten)]
    pub window: WindowArgs,
    /// Which recording.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// A time that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Which recording.
    pub history: HistoryPlan,
    /// Start of the window.
    pub since: Edge,
    /// End of the window.
    pub until: Edge,
}

/// A time or a recording that makes no sense.
#[derive(Debug, Error)]
pub enum PastError {
    /// The rings were asked for, and files.
    #[error("--bpffs-dir reads the rings, --store and --file read files: name one of them")]
    TwoPlaces,
    /// The window.
    #[error(transparent)]
    Window(#[from] WindowError),
}

impl PastArgs {
    /// Whether any is asked for.
    pub fn is_given(&self) -> bool {
        self.window.is_given() || self.store.is_given()
    }

    /// What they mean at `now`.
    pub fn plan(&self, recorder: &RecorderArgs, now: &Zoned) -> Result<Past, PastError> {
        let history = self.history(recorder)?;
        let (since, until) = self.window.edges(now)?;
        Ok(Past { history, since, until })
    }

    /// Which recording.
    pub fn history(&self, recorder: &RecorderArgs) -> Result<HistoryPlan, PastError> {
        let (store, own_window) = (&self.store, !self.window.is_given());
        let (origin, state_dir) = (recorder.origin(), recorder.state_dir.clone());
        let place = match (&store.store, &store.file[..], &store.snapshot, &origin) {
            (None, [], None, _) => HistoryPlace::Recorder { origin, state_dir },
            (.., Origin::Pinned { .. }) => return Err(PastError::TwoPlaces),
            (None, [], Some(id), Origin::Daemon { runtime_dir, .. }) => HistoryPlace::Snapshot {
                runtime_dir: runtime_dir.clone(),
                state_dir,
                id: id.clone(),
                own_window,
            },
            (Some(dir), ..) => HistoryPlace::Store(dir.clone()),
            (None, files, ..) if own_window => HistoryPlace::OwnWindows(files.to_vec()),
            (None, files, ..) => HistoryPlace::Files(files.to_vec()),
        };
        Ok(HistoryPlan { place, boot: store.boot.clone() })
    }
}

impl Past {
    /// What is asked of the history. `everything`: also what descriptors stood for, which may have
    /// been opened long before the window.
    pub fn question(&self, everything: bool) -> Question {
        Question { since: self.since, until: self.until, everything }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        recorder: RecorderArgs,
        #[command(flatten)]
        past: PastArgs,
    }

    fn history(args: &[&str]) -> Result<HistoryPlan, PastError> {
        let typed = Typed::try_parse_from(["test"].iter().chain(args)).unwrap();
        typed.past.history(&typed.recorder)
    }

    fn place(args: &[&str]) -> HistoryPlace {
        history(args).unwrap().place
    }

    #[test]
    fn bpffs_dir_forces_the_pinned_rings() {
        let recorder = |origin, state_dir: Option<&str>| HistoryPlace::Recorder {
            origin,
            state_dir: state_dir.map(Into::into),
        };
        let pinned = Origin::Pinned { bpffs_dir: "/b".into() };
        assert_eq!(place(&["--bpffs-dir", "/b"]), recorder(pinned, None));
        let origin = Origin::Daemon { runtime_dir: "/r".into(), bpffs_dir: "/r/bpf".into() };
        let daemon = place(&["--runtime-dir", "/r", "--state-dir", "/s"]);
        assert_eq!(daemon, recorder(origin, Some("/s")));
    }

    #[test]
    fn files_are_read_where_they_are_named() {
        assert_eq!(place(&["--store", "/d"]), HistoryPlace::Store("/d".into()));
        let files = || vec!["/f".into(), "/g".into()];
        assert_eq!(place(&["--file", "/f", "/g"]), HistoryPlace::OwnWindows(files()));
        for window in ["--all", "--last=1s", "--since=-1s"] {
            let place = place(&["--file=/f", "--file=/g", window]);
            assert_eq!(place, HistoryPlace::Files(files()), "{window}");
        }
        for files in ["--store=/d", "--file=/f", "--snapshot=latest"] {
            let both = history(&["--bpffs-dir", "/b", files]);
            assert!(matches!(both, Err(PastError::TwoPlaces)), "{files}");
        }
    }

    #[test]
    fn any_number_of_files() {
        let files = ["--file", "a", "b", "--last", "1s", "--file=c"];
        assert_eq!(place(&files), HistoryPlace::Files(["a", "b", "c"].map(Into::into).to_vec()));
        assert!(Typed::try_parse_from(["test", "--file", "a", "--store", "b"]).is_err());
    }

    #[test]
    fn a_boot_takes_a_number_but_no_option() {
        let boot = |args: &[&str]| history(args).unwrap().boot;
        assert_eq!(boot(&["--boot", "-1"]), "-1".parse().ok());
        assert_eq!(boot(&["-b", "--all"]), "".parse().ok());
        assert_eq!(boot(&["--boot=-0"]), "-0".parse().ok());
        assert_eq!(boot(&["--all"]), None);
    }
}
