//! On the running kernel, on made-up tracefs directories, and on formats of other kernels.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use flightrec_format::abi::probe::{ARGS_LOST, CALLS, IS_BIRTH, WRITES};
use flightrec_format::architecture::Architecture;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use proptest::prelude::*;
use tempfile::TempDir;

use super::table::string_arguments;
use super::*;

/// Unmounts it, also when a test fails.
struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}

/// Runs `f` on the running kernel's tracefs, mounted in a folder of its own.
fn with_tracefs<T>(f: impl FnOnce(&Path) -> T) -> T {
    let dir = TempDir::new().unwrap();
    if let Err(e) =
        mount(Some("nodev"), dir.path(), Some("tracefs"), MsFlags::empty(), None::<&str>)
    {
        panic!("this test needs root and a kernel with tracefs: mounting it failed: {e}");
    }
    let _unmount = Unmount(dir.path());
    f(dir.path())
}

/// The running kernel's tables, read once.
fn running() -> &'static SyscallTables {
    static TABLES: OnceLock<SyscallTables> = OnceLock::new();
    TABLES.get_or_init(|| {
        with_tracefs(|tracefs| SyscallTables::read(tracefs, Architecture::HERE).unwrap())
    })
}

fn find<'a>(table: &'a [Syscall], name: &str) -> &'a Syscall {
    table.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no call {name}"))
}

/// `name(type name, …)`, or `name(?)`.
fn prototype(call: &Syscall) -> String {
    let list = call.args.as_ref().map_or("?".into(), |args| {
        args.iter().map(|a| format!("{} {}", a.ctype, a.name)).collect::<Vec<_>>().join(", ")
    });
    format!("{}({list})", call.name)
}

/// Never implemented, or removed from the kernel long ago: there is no function.
const NEVER: &str = "\
    _sysctl afs_syscall create_module epoll_ctl_old epoll_wait_old get_kernel_syms get_thread_area \
                     getpmsg lookup_dcookie nfsservctl putpmsg query_module security \
                     set_thread_area tuxcall uselib vserver";

/// Depend on the kernel's configuration or release.
const PERHAPS: &str = "\
    acct cachestat delete_module fchmodat2 file_getattr file_setattr finit_module futex_requeue \
                       futex_wait futex_wake getxattrat init_module kexec_file_load kexec_load \
                       listmount listxattrat lsm_get_self_attr lsm_list_modules lsm_set_self_attr \
                       map_shadow_stack memfd_secret mseal open_tree_attr quotactl quotactl_fd \
                       removexattrat setxattrat statmount";

#[test]
fn sixty_four_bit_calls_have_their_arguments() {
    let tables = running();
    assert!(!tables.unpublished, "this test needs a kernel with CONFIG_FTRACE_SYSCALLS");
    let without: Vec<_> =
        tables.native.iter().filter(|c| c.args.is_none()).map(|c| c.name.as_str()).collect();
    let known = |name: &&&str| NEVER.split(' ').chain(PERHAPS.split(' ')).any(|n| n == **name);
    let unexpected: Vec<_> = without.iter().filter(|n| !known(n)).collect();
    assert!(unexpected.is_empty(), "without arguments: {unexpected:?}");
    assert!(tables.native.len() > 350, "{}", tables.native.len());
    assert!(tables.native.is_sorted_by_key(|c| c.nr) && tables.compat.is_sorted_by_key(|c| c.nr));
}

#[test]
fn names_that_differ_from_their_event() {
    for (call, expected) in [
        ("stat", "stat(const char * filename, struct stat * statbuf)"),
        ("fstat", "fstat(unsigned int fd, struct stat * statbuf)"),
        ("lstat", "lstat(const char * filename, struct stat * statbuf)"),
        ("uname", "uname(struct new_utsname * name)"),
        ("umount2", "umount2(char * name, int flags)"),
        ("sendfile", "sendfile(int out_fd, int in_fd, loff_t * offset, size_t count)"),
        ("getpid", "getpid()"),
        ("openat", "openat(int dfd, const char * filename, int flags, umode_t mode)"),
    ] {
        assert_eq!(prototype(find(&running().native, call)), expected);
    }
}

#[test]
fn compat_calls_have_right_arguments_or_none() {
    let compat = &running().compat;
    for (call, nargs) in [
        ("mmap", None),
        ("mmap2", None),
        ("select", None),
        ("_newselect", Some(5)),
        ("pread64", None),
        ("pwrite64", None),
        ("truncate64", None),
        ("ftruncate64", None),
        ("truncate", Some(2)),
        ("umount", None),
        ("umount2", Some(2)),
        ("clone", None),
        ("fanotify_mark", None),
        ("fallocate", None),
        ("fadvise64", None),
        ("fadvise64_64", None),
        ("readahead", None),
        ("sync_file_range", None),
        ("socketcall", None),
        ("ipc", None),
        ("_llseek", None),
        ("waitpid", None),
        ("oldstat", None),
        ("statfs64", None),
        ("sigaction", None),
        ("getuid32", Some(0)),
        ("chown32", Some(3)),
        ("stat64", Some(2)),
        ("fstatat64", Some(4)),
        ("clock_gettime64", Some(2)),
        ("clock_getres_time64", Some(2)),
        ("futex_time64", Some(6)),
        ("rt_sigtimedwait_time64", Some(4)),
        ("sendfile", Some(4)),
        ("sendfile64", Some(4)),
        ("fcntl64", Some(3)),
        ("ugetrlimit", Some(2)),
        ("uname", Some(1)),
        ("olduname", None),
        ("preadv", Some(5)),
        ("open", Some(3)),
        ("timerfd_settime64", Some(4)),
        ("semtimedop_time64", Some(4)),
        ("prlimit64", Some(4)),
        ("getdents64", Some(3)),
    ] {
        let found = find(compat, call);
        assert_eq!(found.args.as_ref().map(Vec::len), nargs, "{}", prototype(found));
    }
}

#[test]
fn strings_are_paths_and_names_and_no_buffers() {
    let strings = |name: &str| string_arguments(find(&running().native, name));
    for (call, bits) in [
        ("openat", 0b10),
        ("open", 0b1),
        ("execve", 0b1),
        ("execveat", 0b10),
        ("renameat2", 0b1010),
        ("symlinkat", 0b101),
        ("mount", 0b111),
        ("umount2", 0b1),
        ("utime", 0b1),
        ("utimes", 0b1),
        ("write", 0),
        ("pwrite64", 0),
        ("mq_timedsend", 0),
        ("mq_open", 0b1),
        ("read", 0),
        ("readlink", 0b1),
        ("readlinkat", 0b10),
        ("getcwd", 0),
        ("sethostname", 0),
        ("setdomainname", 0),
        ("setxattr", 0b11),
        ("fsetxattr", 0b10),
        ("add_key", 0b11),
        ("request_key", 0b111),
        ("fsconfig", 0b100),
        ("memfd_create", 0b1),
        ("pivot_root", 0b11),
        ("statx", 0b10),
        ("fanotify_mark", 0b1_0000),
        ("shmdt", 0),
        ("syslog", 0),
        ("getrandom", 0),
        ("move_mount", 0b1010),
        ("getsockopt", 0),
        ("clone", 0),
        ("listxattr", 0b1),
        ("getxattrat", 0b1010),
    ] {
        assert_eq!(strings(call), bits, "{}", prototype(find(&running().native, call)));
    }
    let compat = |name: &str| string_arguments(find(&running().compat, name));
    assert_eq!(
        [compat("open"), compat("stat64"), compat("umount2"), compat("fanotify_mark")],
        [1, 1, 1, 0]
    );
    // Of no call is a fourth string left out.
    assert!(running().native.iter().all(|c| string_arguments(c).count_ones() <= 3));
}

#[test]
fn the_probes_table() {
    let table = call_table(&running().native, false);
    assert_eq!(table[0] & 7, 3, "read");
    assert_eq!(table[39] & 7, 0, "getpid");
    assert_eq!(table[257], 4 | 1 << 8 | 7 << 11 | 7 << 14 | 1 << 17, "openat");
    assert_eq!(table[CALLS - 1], 6 | 7 << 8 | 7 << 11 | 7 << 14, "no such call");
    assert_eq!(table[156] & 7, 6, "_sysctl");
    for (nr, lost) in [(59, true), (322, true), (15, true), (1, false)] {
        assert_eq!(table[nr] & ARGS_LOST != 0, lost, "{nr}");
    }
    for (nr, flag) in [(56, IS_BIRTH), (57, IS_BIRTH), (435, IS_BIRTH), (1, WRITES), (0, 0)] {
        assert_eq!(table[nr] & (IS_BIRTH | WRITES), flag, "{nr}");
    }
    // Hostile input: too many arguments, a number outside.
    let arg = || Argument { name: "a".into(), ctype: "const char *".into() };
    let call = |nr| Syscall { nr, name: "x".into(), args: Some((0..9).map(|_| arg()).collect()) };
    let table = call_table(&[call(5), call(u16::MAX)], false);
    assert_eq!(table[5], 6 | 1 << 11 | 2 << 14 | 3 << 17);
}

/// Numbers of include/uapi/asm-generic/unistd.h and arch/arm/tools/syscall.tbl, Linux 6.18; the
/// arguments are this kernel's, which the calls of the same name share.
#[test]
fn the_tables_of_aarch64() {
    let tables =
        with_tracefs(|tracefs| SyscallTables::read(tracefs, Architecture::Aarch64).unwrap());
    let name = |table: &[Syscall], nr| {
        table.iter().find(|call| call.nr == nr).map(|call| call.name.clone()).unwrap()
    };
    for (nr, wanted) in [
        (63, "read"),
        (64, "write"),
        (56, "openat"),
        (79, "newfstatat"),
        (221, "execve"),
        (220, "clone"),
    ] {
        assert_eq!(name(&tables.native, nr), wanted);
    }
    for (nr, wanted) in [(3, "read"), (322, "openat"), (11, "execve"), (192, "mmap2")] {
        assert_eq!(name(&tables.compat, nr), wanted);
    }
    let (native, compat) = (call_table(&tables.native, false), call_table(&tables.compat, true));
    assert_eq!(native[56], 4 | 1 << 8 | 7 << 11 | 7 << 14 | 1 << 17, "openat");
    assert_eq!(native[57] & (IS_BIRTH | WRITES), 0, "close");
    assert_eq!(native[220] & IS_BIRTH, IS_BIRTH, "clone");
    assert_eq!((native[64] & WRITES, compat[4] & WRITES), (WRITES, WRITES), "write");
    // An event of epoll is not packed there.
    let of = |architecture| {
        let table = pointee_table(&tables.native, false, architecture);
        table[21] >> 8 & 127
    };
    assert_eq!(of(Architecture::Aarch64), 16, "epoll_ctl");
    assert_eq!(of(Architecture::X86_64), 12, "epoll_ctl");
}

#[test]
fn tracepoint_ids() {
    with_tracefs(|tracefs| {
        let enter = tracepoint_id(tracefs, "raw_syscalls", "sys_enter").unwrap();
        let exit = tracepoint_id(tracefs, "raw_syscalls", "sys_exit").unwrap();
        assert!(enter > 0 && exit > 0 && enter != exit);
        let error = tracepoint_id(tracefs, "raw_syscalls", "no_such").unwrap_err().to_string();
        assert!(error.contains("no tracepoint raw_syscalls:no_such"), "{error}");
    });
}

#[test]
fn tracefs_not_mounted() {
    let dir = TempDir::new().unwrap();
    for error in [
        SyscallTables::read(dir.path(), Architecture::HERE).unwrap_err(),
        tracepoint_id(dir.path(), "a", "b").unwrap_err(),
    ] {
        let expected = format!("mount -t tracefs nodev {}", dir.path().display());
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn a_kernel_that_publishes_nothing() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("events")).unwrap();
    let tables = SyscallTables::read(dir.path(), Architecture::HERE).unwrap();
    assert!(
        tables.unpublished && tables.native.iter().chain(&tables.compat).all(|c| c.args.is_none())
    );
    assert!(call_table(&tables.native, false).iter().all(|e| e & 7 == 6));
}

#[test]
fn formats_that_are_none_leave_the_call_without_arguments() {
    let dir = TempDir::new().unwrap();
    for (event, text) in [
        ("read", "nonsense"),
        ("close", "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"),
    ] {
        let event = dir.path().join("events/syscalls").join(format!("sys_enter_{event}"));
        fs::create_dir_all(&event).unwrap();
        fs::write(event.join("format"), text).unwrap();
    }
    let id = dir.path().join("events/raw_syscalls/sys_enter");
    fs::create_dir_all(&id).unwrap();
    fs::write(id.join("id"), "x1\n").unwrap();
    let tables = SyscallTables::read(dir.path(), Architecture::HERE).unwrap();
    assert_eq!(find(&tables.native, "read").args, None);
    assert_eq!(find(&tables.native, "close").args, Some(Vec::new()));
    let error = tracepoint_id(dir.path(), "raw_syscalls", "sys_enter").unwrap_err().to_string();
    assert!(error.contains("not a number"), "{error}");
}

/// From Linux 6.19 on, a format has the captured string after the arguments.
#[test]
fn a_captured_string_is_no_argument() {
    let text = "name: sys_enter_openat\nID: 1\nformat:\n\tfield:int \
                common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:int \
                __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:int \
                dfd;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:const char * \
                filename;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:__data_loc char[] \
                __filename_val;\toffset:32;\tsize:4;\tsigned:0;\n\nprint fmt: \"field:\"\n";
    let args = format::arguments(text).unwrap();
    assert_eq!(args.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["dfd", "filename"]);
}

proptest! {
    #[test]
    fn any_format(
        text in "(field:|offset:|size:|;|:|\n|int a|__syscall_nr|16|8|\u{fc}| |\t){0,40}",
    ) {
        let args = format::arguments(&text);
        prop_assert!(args.is_none_or(|a| a.len() <= 6));
    }
}
