//! Whether events would be deleted before they are added up.

use flightrec_sums::worker::Backlog;

/// Limits of the files that are added up, bytes ([`crate::config::Store`]).
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Most that all files take.
    pub(super) max_total: u64,
    /// What stays free in the file system.
    pub(super) keep_free: u64,
}

impl Room {
    /// Whether the first file that is not added up would be deleted before the others of the
    /// backlog are written once more: with so many bytes `free` in the file system.
    pub(super) fn is_short(self, backlog: Backlog, free: u64) -> bool {
        let Backlog { done, waiting } = backlog;
        let held = done.saturating_add(waiting);
        let left = self.max_total.saturating_sub(held).min(free.saturating_sub(self.keep_free));
        left.saturating_add(done) < waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_up_in_time_needs_no_haste() {
        let room = Room { max_total: 1000, keep_free: 100 };
        let is_short = |done, waiting, free| room.is_short(Backlog { done, waiting }, free);
        assert!(!is_short(0, 300, 5000), "the first files: there is room for more");
        assert!(!is_short(600, 390, 5000), "full, and most of it is added up");
        assert!(is_short(300, 690, 5000), "full, and most of it is not");
        assert!(is_short(0, 300, 200), "others fill the disk");
        assert!(!is_short(400, 300, 200));
        assert!(!is_short(0, 0, 0), "nothing waits");
    }
}
