//! The socket file, the lock files, and who may ask.

use std::fs;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;

use tempfile::TempDir;

use super::root_only;
use crate::control::lock::lock;
use crate::control::socket::BindError;
use crate::control::*;

#[test]
fn the_daemons_own_user_is_served() {
    let peer = |uid| Peer { pid: 1, uid, gid: 3, groups: vec![4] };
    let access = Access { uid: 77, gid: None };
    assert!(access.allows(&peer(77)) && access.allows(&peer(0)) && !access.allows(&peer(78)));
    assert_eq!(
        Access::new("no-such-group-here"),
        Access { uid: nix::unistd::getuid().as_raw(), gid: None }
    );
    assert_eq!(Access::new("root").gid, Some(0));
}

#[test]
fn the_socket_of_a_dead_daemon_is_replaced_a_live_one_is_not() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("control.sock");
    // std's listener leaves its file behind, as a killed daemon does.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let first = Listener::bind(&path, &root_only()).unwrap();
    let error = Listener::bind(&path, &root_only()).unwrap_err();
    assert!(matches!(error, BindError::AlreadyRunning { .. }), "{error}");
    assert!(error.to_string().contains("already running"), "{error}");
    // A file that is no longer the listener's own stays when the listener goes.
    fs::remove_file(&path).unwrap();
    let second = Listener::bind(&path, &root_only()).unwrap();
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_live_socket_whose_queue_is_full_is_live() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    // SAFETY: listens again on a descriptor that lives, with room for one connection.
    assert_eq!(unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) }, 0);
    let _waiting = StdStream::connect(&path).unwrap();
    let error = Listener::bind(&path, &root_only()).unwrap_err();
    assert!(matches!(error, BindError::AlreadyRunning { .. }), "{error}");
}

#[test]
fn names_that_cannot_be_a_socket() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("control.sock");
    fs::write(&file, "precious").unwrap();
    let error = Listener::bind(&file, &root_only()).unwrap_err();
    assert!(matches!(error, BindError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let error = Listener::bind(&dir.path().join("x".repeat(108)), &root_only()).unwrap_err();
    assert!(matches!(error, BindError::TooLong { .. }), "{error}");
    let error = Listener::bind(&dir.path().join("no/control.sock"), &root_only()).unwrap_err();
    assert!(matches!(error, BindError::Io { .. }), "{error}");
}

#[test]
fn a_directory_has_one_daemon() {
    let (a, b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let held = lock_all(&[a.path(), b.path(), &a.path().join(".")]).unwrap();
    assert_eq!(held.len(), 2);
    for dir in [&a, &b] {
        let error = lock(dir.path()).unwrap_err().to_string();
        let expected =
            format!("already running on {} (process {})", dir.path().display(), std::process::id());
        assert!(error.contains(&expected), "{error}");
    }
    let written = fs::read_to_string(a.path().join("flightd.lock")).unwrap();
    assert_eq!(written, format!("{}\n", std::process::id()));
    drop(held);
    // What an earlier owner wrote, longer, does not shine through.
    fs::write(a.path().join("flightd.lock"), "1234567890123\n").unwrap();
    let again = lock(a.path()).unwrap();
    assert_eq!(fs::read_to_string(a.path().join("flightd.lock")).unwrap(), written);
    drop(again);
    assert!(matches!(lock(Path::new("/nonexistent")), Err(LockError::Io { .. })));
}
