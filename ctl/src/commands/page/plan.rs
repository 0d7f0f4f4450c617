//! What the arguments of `flightctl page` mean.

use std::path::{Path, PathBuf};

use anyhow::Result;
use jiff::Zoned;

use super::args::PageArgs;
use crate::options::recorder::RecorderArgs;
use crate::options::redact::RedactPlan;
use crate::why::WhyPlan;
use crate::why::args::WhyFormat;

/// A page to make.
#[derive(Debug, PartialEq)]
pub struct PagePlan {
    /// What it answers, of which recording.
    pub why: WhyPlan,
    /// Where it goes; `None`: standard output.
    pub output: Option<PathBuf>,
    /// Whether what is there is replaced.
    pub force: bool,
    /// What is left out.
    pub redact: RedactPlan,
    /// Whether an incomplete window is a failure.
    pub strict: bool,
}

impl PagePlan {
    pub(super) fn new(args: PageArgs, recorder: &RecorderArgs, now: &Zoned) -> Result<Self> {
        let PageArgs { ask, output, force, redact, strict } = args;
        let redact = redact.plan()?;
        let why = WhyPlan::new(ask, WhyFormat::Json, recorder, now)?;
        let output = (output != Path::new("-")).then_some(output);
        Ok(Self { why, output, force, redact, strict })
    }
}
