//! What is typed for `flightctl diff`.

use clap::{Args, ValueEnum};

use super::window::WindowSpec;
use crate::filter::FilterSpec;
use crate::options::store::StoreArgs;

/// How the changes look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// Text for people.
    Text,
    /// One JSON object; field names and units are stable.
    Json,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// The window to compare with: SINCE..UNTIL, with times as for dump --since (without UNTIL:
    /// now); or a length such as -1d: window --b shifted back by that length.
    #[arg(long, value_name = "WINDOW", default_value = "-1d", allow_hyphen_values = true)]
    pub a: WindowSpec,
    /// The window to compare: SINCE..UNTIL [default: that of --snapshot].
    #[arg(long, value_name = "WINDOW", allow_hyphen_values = true)]
    pub b: Option<WindowSpec>,
    /// Maximum number of changes to print.
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub top: usize,
    /// Text for people, or one JSON object for programs.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = DiffFormat::Text)]
    pub format: DiffFormat,
    /// Which recording. With --snapshot, --b is of the snapshot, and --a of the recorder's files.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Which threads.
    #[command(flatten)]
    pub filter: FilterSpec,
}
