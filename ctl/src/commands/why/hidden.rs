//! What is left out of answers that are written for others: as exports have it, where they are
//! built in.

use std::borrow::Cow;

#[cfg(feature = "export")]
use crate::options::redact::{RedactArgs, RedactPlan};

/// What is typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct HiddenArgs {
    /// The same as of exports.
    #[cfg(feature = "export")]
    #[command(flatten)]
    redact: RedactArgs,
}

/// What it means.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Hidden {
    #[cfg(feature = "export")]
    redact: RedactPlan,
}

#[cfg(feature = "export")]
impl Hidden {
    pub(super) fn new(args: HiddenArgs) -> anyhow::Result<Self> {
        Ok(Self { redact: args.redact.plan()? })
    }

    /// Begins: to be called before anything is read.
    pub(super) fn begin(&self) {
        self.redact.begin();
    }

    /// Whether no text is changed.
    pub(super) fn is_none(&self) -> bool {
        self.redact.redact.is_none()
    }

    /// A text without what is hidden.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact.redact.text(text)
    }
}

#[cfg(not(feature = "export"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where there is anything")]
impl Hidden {
    pub(super) fn new(_: HiddenArgs) -> anyhow::Result<Self> {
        Ok(Self::default())
    }

    pub(super) fn begin(&self) {}

    pub(super) fn is_none(&self) -> bool {
        true
    }

    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
}
