//! Ctrl-C, without leaving anything behind.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// From here on, the signals that would end this process wait until it asks for them. Children
/// would inherit that: they are started by way of [`crate::die_with_parent`], which
/// undoes it, and get a terminal's Ctrl-C themselves.
#[derive(Debug)]
pub struct Interrupt {
    signals: SignalFd,
}

impl Interrupt {
    /// To be called before there are threads.
    ///
    /// # Errors
    /// The signals can't be blocked.
    pub fn defer() -> Result<Self> {
        let set: SigSet = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect();
        set.thread_block().context("can't block signals")?;
        let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { signals })
    }

    /// Fails if a signal came; what was set up is then undone on the way out.
    ///
    /// # Errors
    /// A signal came.
    pub fn check(&self) -> Result<()> {
        match self.signals.read_signal()? {
            Some(signal) => bail!("ended by signal {}; cleaned up", signal.ssi_signo),
            None => Ok(()),
        }
    }
}
