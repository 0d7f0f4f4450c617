//! Colour.

use clap::{Args, ValueEnum};

/// Whether the output has colours.
#[derive(Debug, Args)]
pub struct ColorArgs {
    /// When to use colour: on a terminal unless `NO_COLOR` is set, always, or never.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
