//! What reasons come of calls, objects, stacks and wakers.

use flightrec_format::abi::record::WakeContext;

use super::calls::Object;
use super::{ADDRESS_SPACE_LOCK, Class, Reason, ReasonKind, Wait, awaited, is_fault, is_sync};
use crate::{State, Waker};

fn words(wait: &Wait<'_>) -> String {
    Reason::of(wait).to_string()
}

fn call<'a>(call: &'a str, object: &'a str) -> Wait<'a> {
    let object = (!object.is_empty()).then_some(object.as_bytes());
    Wait { state: State::Blocked(1), call: Some(call), object, ..Wait::default() }
}

fn stack<'a>(frames: &'a [&'a str]) -> Wait<'a> {
    Wait { state: State::Blocked(2), frames, ..Wait::default() }
}

#[test]
fn calls_and_what_they_are_about() {
    for (wait, expected) in [
        (call("flock", "/srv/journal"), "flock on /srv/journal"),
        (call("flock", ""), "flock"),
        (call("read", "pipe:[5]"), "reading a pipe"),
        (call("write", "pipe:[5]"), "writing to a full pipe"),
        (call("read", "TCP:[1.2.3.4:80->1.2.3.4:5]"), "receiving from a TCP socket"),
        (call("recvfrom", ""), "receiving from a socket"),
        (call("sendmsg", "UNIX-STREAM:[7->8]"), "room to send to a UNIX-STREAM socket"),
        (call("accept4", "TCPv6:[[::1]:80]"), "accepting a TCPv6 connection"),
        (call("connect", "socket:[9]"), "making a connection"),
        (call("futex", ""), "futex"),
        (call("clock_nanosleep", ""), "timer"),
        (call("epoll_wait", "anon_inode:[eventpoll]"), "event on its descriptors (epoll_wait)"),
        (call("wait4", ""), "child process"),
        (call("read", "anon_inode:[eventfd]"), "eventfd"),
        (call("read", "anon_inode:[timerfd]"), "timer"),
        (call("read", "anon_inode:inotify"), "change of watched files"),
        (call("read", "/dev/pts/3"), "terminal /dev/pts/3"),
        (call("fdatasync", "/srv/a"), "disk: fdatasync of /srv/a"),
        (call("read", "/srv/a"), "in read of /srv/a"),
        (Wait { state: State::Blocked(2), ..call("read", "/srv/a") }, "disk: read of /srv/a"),
        (Wait { command: Some(7), ..call("fcntl", "/srv/a") }, "record lock on /srv/a"),
        (Wait { command: Some(4), ..call("fcntl", "/srv/a") }, "in fcntl of /srv/a"),
        (call("newcall", ""), "in newcall"),
        (Wait::default(), "not known"),
        (Wait { state: State::Blocked(0x402), ..Wait::default() }, "work (kernel thread)"),
        (Wait { state: State::Blocked(0x8000), ..Wait::default() }, "frozen"),
        (Wait { state: State::Stopped(4), ..call("read", "pipe:[5]") }, "stopped by a signal"),
        (Wait { state: State::Stopped(8), ..Wait::default() }, "stopped by its debugger"),
    ] {
        assert_eq!(words(&wait), expected, "{wait:?}");
    }
}

/// A wait inside of a call is told from the one that the call is for.
#[test]
fn the_stack_decides() {
    let lock = ["__mutex_lock.constprop.0", "anon_pipe_write", "vfs_write", "ksys_write"];
    for (frames, expected) in [
        (lock.as_slice(), "kernel lock in anon_pipe_write"),
        (&["schedule", "anon_pipe_read", "vfs_read"], "reading a pipe"),
        (&["io_schedule", "folio_wait_bit_common", "filemap_get_pages"], "disk: write of /srv/a"),
        (&["io_schedule", "folio_wait_bit", "fuse_readahead"], "file server (FUSE)"),
        (
            &["rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter"],
            "kernel lock in ext4_buffered_write_iter",
        ),
        (
            &["jbd2_log_wait_commit", "ext4_sync_file"],
            "journal commit of the file system on /srv/a",
        ),
        (&["balance_dirty_pages", "generic_perform_write"], "writeback: too many dirty pages"),
        (&["shrink_node", "try_to_free_pages"], "memory reclaim"),
        (&["wait_for_completion", "ext4_new_thing"], "work of a kernel thread in ext4_new_thing"),
        (&["wait_for_completion_io", "submit_bio_wait"], "disk: write of /srv/a"),
        (&["schedule", "new_function", "vfs_write"], "in write of /srv/a"),
    ] {
        let wait = Wait { frames, state: State::Blocked(1), ..call("write", "/srv/a") };
        assert_eq!(words(&wait), expected);
    }
    assert_eq!(words(&stack(&["schedule", "worker_thread", "kthread"])), "work (kernel thread)");
    assert_eq!(words(&stack(&["schedule", "strange_wait"])), "in strange_wait of the kernel");
    assert_eq!(words(&stack(&["folio_wait_bit_common", "filemap_fault"])), "disk: page fault");
    assert_eq!(words(&stack(&["folio_wait_bit_common", "x"])), "disk");
    assert_eq!(words(&stack(&["__mutex_lock"])), "kernel lock");
    let accepts =
        Wait { frames: &["__skb_wait_for_more_packets", "unix_accept"], ..call("accept", "") };
    assert_eq!(words(&accepts), "accepting a connection");
}

#[test]
fn what_ended_it_says_more() {
    let read = Wait { disk: Some(("vda", "read")), ..call("read", "/srv/a") };
    assert_eq!(words(&read), "disk vda: read");
    let woken = |context| Some(Waker { tid: 7, context });
    let timed = Wait { waker: woken(WakeContext::Hardirq), ..call("futex", "") };
    assert_eq!(words(&timed), "timer");
    let by_thread = Wait { waker: woken(WakeContext::Thread), ..call("futex", "") };
    assert_eq!(words(&by_thread), "futex");
}

/// A lock, or a pipe, that a thread released is no disk, even if a request had just ended.
#[test]
fn who_is_woken_by_a_thread_did_not_wait_for_a_disk() {
    let thread = Some(Waker { tid: 7, context: WakeContext::Thread });
    let waits = Wait { state: State::Blocked(2), waker: thread, ..call("read", "/srv/a") };
    let request = Wait { disk: Some(("vda", "read")), ..waits };
    for (wait, expected) in [
        (waits, "in read of /srv/a"),
        (request, "in read of /srv/a"),
        (Wait { io_wait: true, ..waits }, "disk: read of /srv/a"),
        (Wait { io_wait: true, ..request }, "disk vda: read"),
        (Wait { waker_name: b"kworker/1:1H", ..request }, "disk vda: read"),
        (Wait { waker_name: b"md127_raid5", ..waits }, "disk: read of /srv/a"),
        (Wait { waker_name: b"mdadm", ..request }, "in read of /srv/a"),
        (Wait { waker: thread, ..call("fsync", "/srv/a") }, "in fsync of /srv/a"),
        (
            Wait { waker: thread, waker_name: b"jbd2/vda-8", ..call("fsync", "/srv/a") },
            "journal commit of the file system on /srv/a",
        ),
        (Wait { waker: thread, io_wait: true, ..call("fsync", "/a") }, "disk: fsync of /a"),
    ] {
        assert_eq!(words(&wait), expected, "{wait:?}");
    }
}

#[test]
fn names_that_only_look_like_sockets() {
    assert_eq!(Object::of(b"/srv/TCP:[5]"), Object::File);
    assert_eq!(Object::of(b"TCP:[5"), Object::File);
    assert_eq!(Object::of(b""), Object::File);
    assert_eq!(Object::of(b":[]"), Object::File);
    assert_eq!(Object::of(b"UDP:[5]"), Object::Socket(Some(b"UDP")));
    // Bytes of a path that are no text are replaced.
    assert_eq!(
        words(&Wait { object: Some(b"/a\xff"), ..call("flock", "") }),
        "flock on /a\u{fffd}"
    );
}

#[test]
fn kinds_have_names_of_their_own() {
    let mut names: Vec<&str> = ReasonKind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ReasonKind::ALL.len());
}

/// What is waited for, in the words of a sentence; what a call says better is left to it.
#[test]
fn what_a_stack_waits_for() {
    for (frames, words, class) in [
        (
            ["rwsem_down_write_slowpath", "down_write", "ext4_x"],
            "a lock of the kernel",
            Class::Lock,
        ),
        (
            ["rwsem_down_write_slowpath", "down_write_killable", "__vm_munmap"],
            ADDRESS_SPACE_LOCK.words,
            Class::AddressSpace,
        ),
        (
            ["io_schedule", "folio_wait_writeback", "x"],
            "the file's data to be written",
            Class::Disk,
        ),
        (["io_schedule", "folio_wait_bit_common", "x"], "the file's data", Class::Disk),
        (["bit_wait_io", "__wait_on_buffer", "x"], "a block of the file system", Class::Disk),
        (["io_schedule", "x", "y"], "the disk", Class::Disk),
        (["jbd2_journal_new", "x", "y"], "the file system's journal", Class::Disk),
        (["shrink_new_list", "x", "y"], "free memory", Class::Memory),
        (["schedule", "anon_pipe_read.isra.0", "y"], "data in the pipe", Class::Other),
        (["schedule", "nfs_wait_new", "y"], "the NFS server", Class::Other),
        (
            ["io_schedule", "folio_wait_bit", "fuse_x"],
            "the server of a FUSE file system",
            Class::Other,
        ),
    ] {
        let awaited = awaited(&frames).unwrap_or_else(|| panic!("{frames:?}"));
        assert_eq!((awaited.words, awaited.class), (words, class), "{frames:?}");
    }
    assert_eq!(awaited(&["schedule", "ep_poll"]), None);
    assert_eq!(awaited::<&str>(&[]), None);
    assert!(is_fault(&["x", "handle_mm_fault"]) && !is_fault(&["x"]));
    assert!(is_sync(&["x", "ext4_sync_file"]) && is_sync(&["vfs_fsync_range"]) && !is_sync(&["x"]));
    let brk = ["rwsem_down_write_slowpath", "down_write_killable", "__do_sys_brk"];
    assert_eq!(words(&stack(&brk)), "lock of its address space (mmap_lock)");
}
