//! Operations of io_uring that make and close descriptors.
//!
//! What an operation is about is known when it is handed over, and what came of it when it is done;
//! in between calls and other operations may have changed the same descriptors.

use std::sync::Arc;

use flightrec_format::abi::kinds::{IoComplete, IoSubmit};
use flightrec_format::abi::value_names::{IO_DIRECT, IO_FIXED_FILE};
use flightrec_format::decode::Text;
use rustc_hash::FxHashMap;

use super::table::File;
use super::{Fds, Holder};
use crate::names::io_op;

/// Most operations under way that are remembered.
const OPERATIONS_MAX: usize = 65_536;

/// An operation that is not done.
#[derive(Debug, Clone)]
struct Pending {
    of: Holder,
    deed: Deed,
}

/// What it does to descriptors.
#[derive(Debug, Clone)]
enum Deed {
    /// Its result is one, of this name.
    Make(Option<Arc<[u8]>>),
    /// It closes one, which had this name when the operation was handed over.
    Close(i32, Arc<[u8]>),
}

/// Those under way, by their names.
#[derive(Debug, Clone, Default)]
pub(super) struct Operations(FxHashMap<u32, Pending>);

impl Operations {
    /// What came of those under way is not known.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Fds {
    /// An operation on somebody's descriptors is handed over.
    pub(super) fn submitted(&mut self, of: Holder, submit: &IoSubmit, paths: &[Text]) {
        let deed = if submit.flags & IO_DIRECT == 0 { self.deed(of, submit, paths) } else { None };
        let operations = &mut self.operations.0;
        match deed {
            Some(deed) if operations.len() < OPERATIONS_MAX => {
                operations.insert(submit.operation, Pending { of, deed });
            }
            _ => drop(operations.remove(&submit.operation)),
        }
    }

    fn deed(&self, of: Holder, submit: &IoSubmit, paths: &[Text]) -> Option<Deed> {
        let named = || self.file(of, submit.fd).map(|file| file.name.clone());
        Some(match io_op(submit.op)? {
            "openat" | "openat2" => {
                let path = paths.iter().find(|text| text.index == 0);
                // A path that was left out is lost, as that of a call is.
                let name = match path {
                    // Its `struct open_how` may say that another directory is the root.
                    Some(path)
                        if io_op(submit.op) == Some("openat2")
                            && path.bytes.first() == Some(&b'/') =>
                    {
                        Some(Arc::from([]))
                    }
                    Some(path) => self.opened(of, Some(submit.fd), super::path(path)),
                    None => Some(Arc::from([])),
                };
                Deed::Make(name)
            }
            "accept" if submit.flags & IO_FIXED_FILE == 0 => Deed::Make(named()),
            "accept" | "socket" => Deed::Make(None),
            // It may be any of the ring's own table.
            "fixed_fd_install" => Deed::Make(Some(Arc::from([]))),
            "close" => Deed::Close(submit.fd, named()?),
            _ => return None,
        })
    }

    /// An operation is done, as thread `tid` tells.
    pub(super) fn completed(&mut self, tid: u32, done: &IoComplete) {
        self.closed = None;
        let Some(Pending { of, deed }) = self.operations.0.remove(&done.operation) else {
            return;
        };
        if done.result < 0 {
            return;
        }
        match deed {
            Deed::Make(name) => {
                let file = name.map(|name| File { name, cloexec: None });
                self.set(of, done.result, file);
            }
            Deed::Close(fd, name) => {
                // Somebody may have got its number meanwhile.
                let is_it = self.file(of, fd).is_some_and(|file| Arc::ptr_eq(&file.name, &name));
                if is_it {
                    self.set(of, fd, None);
                }
                self.closed = Some((tid, [(fd, name)]));
            }
        }
    }
}
