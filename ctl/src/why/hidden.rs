//! What is left out of answers that are written for others: as exports have it, where they are
//! built in.

use std::borrow::Cow;

#[cfg(feature = "export")]
use crate::options::redact::{RedactArgs, RedactPlan};

/// What is typed.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct HiddenArgs {
    /// The same as of exports.
    #[cfg(feature = "export")]
    #[command(flatten)]
    redact: RedactArgs,
}

/// What it means.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Hidden {
    #[cfg(feature = "export")]
    redact: RedactPlan,
}

#[cfg(feature = "export")]
impl Hidden {
    pub(crate) fn new(args: HiddenArgs) -> anyhow::Result<Self> {
        Ok(Self { redact: args.redact.plan()? })
    }

    /// Begins: to be called before anything is read.
    pub(crate) fn begin(&self) {
        self.redact.begin();
    }

    /// Whether no text is changed.
    pub(crate) fn is_none(&self) -> bool {
        self.redact.redact.is_none()
    }

    /// A text without what is hidden.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.redact.redact.text(text)
    }
}

#[cfg(not(feature = "export"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as where there is anything")]
impl Hidden {
    pub(crate) fn new(_: HiddenArgs) -> anyhow::Result<Self> {
        Ok(Self::default())
    }

    pub(crate) fn begin(&self) {}

    pub(crate) fn is_none(&self) -> bool {
        true
    }

    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        Cow::Borrowed(text)
    }
}
