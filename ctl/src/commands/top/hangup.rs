//! A terminal that is gone: its window was closed, or the connection broke.
//!
//! crossterm 0.29 never returns from reading such a terminal: it takes the end of the file for a
//! pause and reads on (`UnixInternalEventSource::try_read`). So the terminal is looked at before
//! each read, and a thread ends the process where a read was already under way.

use std::io;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::exit::Exit;
use crate::follow::stop::Stop;

/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(250);
/// Longest that the screen's own thread may take to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the terminal on standard input is gone.
pub(super) fn is_gone() -> bool {
    gone(io::stdin())
}

fn gone(terminal: impl AsFd) -> bool {
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
    let hangup = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    poll(&mut fds, PollTimeout::ZERO).is_ok()
        && fds[0].revents().is_some_and(|events| events.intersects(hangup))
}

/// Ends the process when it is to end and does not.
///
/// # Errors
/// No thread can be had.
pub(super) fn watch(stop: Stop) -> io::Result<()> {
    let look = move || {
        while !stop.reached() && !is_gone() {
            thread::sleep(LOOK);
        }
        thread::sleep(PATIENCE);
        // Without a word: there is no terminal to say it to, and a panic would follow.
        let _ = ratatui::try_restore();
        std::process::exit(Exit::Fine.code().into());
    };
    thread::Builder::new().name("hangup".into()).spawn(look)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_whose_other_end_is_closed_is_gone() {
        let pty = nix::pty::openpty(None, None).unwrap();
        assert!(!gone(&pty.slave));
        drop(pty.master);
        assert!(gone(&pty.slave));
    }
}
