//! Numbers of calls on files and memory.

use std::sync::LazyLock;

use flightrec_format::architecture::Architecture;
use nix::fcntl::{AtFlags, FallocateFlags, RenameFlags, SealFlag, SpliceFFlags};
use nix::mount::{MntFlags, MsFlags as MountFlags};
use nix::sys::fanotify::{InitFlags as FanotifyInit, MarkFlags, MaskFlags};
use nix::sys::inotify::{AddWatchFlags, InitFlags as InotifyInit};
use nix::sys::memfd::MFdFlags;
use nix::sys::mman::{MRemapFlags, MapFlags, MlockAllFlags, MsFlags, ProtFlags};
use nix::sys::stat::SFlag;

use super::set::{ByArchitecture, LazySet, Named, Set, flags_of, names};

/// Flags of `open` that machines number differently (include/uapi/asm-generic/fcntl.h,
/// arch/arm64/include/uapi/asm/fcntl.h, Linux 6.18).
struct OpenFlags {
    direct: u64,
    largefile: u64,
    directory: u64,
    nofollow: u64,
}

impl OpenFlags {
    const X86_64: Self =
        Self { direct: 0o40_000, largefile: 0o100_000, directory: 0o200_000, nofollow: 0o400_000 };
    const AARCH64: Self =
        Self { direct: 0o200_000, largefile: 0o400_000, directory: 0o40_000, nofollow: 0o100_000 };

    const fn of(architecture: Architecture) -> Self {
        match architecture {
            Architecture::X86_64 => Self::X86_64,
            Architecture::Aarch64 => Self::AARCH64,
        }
    }

    /// `O_TMPFILE`: a bit of its own, and `O_DIRECTORY`, so that old kernels refuse it.
    const fn tmpfile(&self) -> u64 {
        0o20_000_000 | self.directory
    }
}

/// Whether `open` may create a file, by its flags: then it takes permissions.
pub fn may_create(architecture: Architecture, flags: u64) -> bool {
    let tmpfile = OpenFlags::of(architecture).tmpfile();
    flags & libc::O_CREAT as u64 != 0 || flags & tmpfile == tmpfile
}

/// Flags of `open`: the access mode and the rest, under the names of today (no `O_NDELAY`), in
/// strace's order.
pub(super) static OPEN: ByArchitecture = ByArchitecture {
    x86_64: LazyLock::new(|| open(&OpenFlags::X86_64)),
    aarch64: LazyLock::new(|| open(&OpenFlags::AARCH64)),
};

fn open(of: &OpenFlags) -> Set {
    let first =
        names![O_CREAT, O_EXCL, O_NOCTTY, O_TRUNC, O_APPEND, O_NONBLOCK, O_SYNC, O_DSYNC, O_ASYNC,];
    let own = [(of.direct, "O_DIRECT"), (of.largefile, "O_LARGEFILE"), (of.nofollow, "O_NOFOLLOW")];
    let last = [(of.tmpfile(), "O_TMPFILE"), (of.directory, "O_DIRECTORY")];
    let flags = first.into_iter().chain(own).chain(names![O_NOATIME, O_CLOEXEC, O_PATH]);
    Set::flags(flags.chain(last))
        .with_field(libc::O_ACCMODE as u64, names![O_RDONLY, O_WRONLY, O_RDWR])
}

/// Flags of `open` on a machine, as in `open_how.flags`.
pub fn open_flags(architecture: Architecture) -> &'static Set {
    OPEN.of(architecture)
}

/// `open`'s flags where there is no access mode: `pipe2`, `dup3`, `userfaultfd`.
pub(super) static DESCRIPTOR: ByArchitecture = ByArchitecture {
    x86_64: LazyLock::new(|| descriptor(&OpenFlags::X86_64)),
    aarch64: LazyLock::new(|| descriptor(&OpenFlags::AARCH64)),
};

fn descriptor(of: &OpenFlags) -> Set {
    let flags = names![O_CLOEXEC, O_NONBLOCK].into_iter().chain([(of.direct, "O_DIRECT")]);
    Set::flags(flags.chain(names![O_EXCL, O_APPEND, O_ASYNC, O_NOATIME]))
}

/// The type in a file's mode.
pub static FILE_TYPE: LazySet = LazyLock::new(|| {
    Set::flags([]).octal().with_field(
        u64::from(libc::S_IFMT),
        flags_of!(SFlag).filter(|(_, name)| *name != "S_IFMT").collect::<Vec<Named>>(),
    )
});

/// `access`
pub(super) static ACCESS: LazySet = LazyLock::new(|| Set::flags(names![F_OK, R_OK, W_OK, X_OK]));
/// `faccessat2`
pub(super) static AT_ACCESS: LazySet =
    LazyLock::new(|| Set::flags(names![AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH]));
/// `unlinkat`
pub(super) static AT_UNLINK: LazySet = LazyLock::new(|| Set::flags(names![AT_REMOVEDIR]));
/// All other calls with a directory.
pub(super) static AT: LazySet = LazyLock::new(|| Set::flags(at_flags()));
/// `statx`: how to synchronise, too.
pub(super) static AT_STATX: LazySet = LazyLock::new(|| {
    Set::flags(at_flags()).with_field(
        (libc::AT_STATX_FORCE_SYNC | libc::AT_STATX_DONT_SYNC) as u64,
        names![AT_STATX_SYNC_AS_STAT, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC],
    )
});

fn at_flags() -> impl Iterator<Item = Named> {
    let flags =
        flags_of!(AtFlags).filter(|(_, name)| !matches!(*name, "AT_REMOVEDIR" | "AT_EACCESS"));
    flags.chain(names![AT_RECURSIVE])
}

/// `statx`'s mask
pub(super) static STATX: LazySet = LazyLock::new(|| {
    Set::flags(names![
        STATX_ALL,
        STATX_BASIC_STATS,
        STATX_TYPE,
        STATX_MODE,
        STATX_NLINK,
        STATX_UID,
        STATX_GID,
        STATX_ATIME,
        STATX_MTIME,
        STATX_CTIME,
        STATX_INO,
        STATX_SIZE,
        STATX_BLOCKS,
        STATX_BTIME,
        STATX_MNT_ID,
        STATX_DIOALIGN,
    ])
});
/// `renameat2`
pub(super) static RENAME: LazySet = LazyLock::new(|| Set::flags(flags_of!(RenameFlags)));
/// `lseek`
pub(super) static WHENCE: LazySet =
    LazyLock::new(|| Set::values(names![SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE]));
/// `fcntl`
pub(super) static FCNTL: LazySet = LazyLock::new(|| {
    Set::values(names![
        F_DUPFD,
        F_GETFD,
        F_SETFD,
        F_GETFL,
        F_SETFL,
        F_GETLK,
        F_SETLK,
        F_SETLKW,
        F_SETOWN,
        F_GETOWN,
        F_OFD_GETLK,
        F_OFD_SETLK,
        F_OFD_SETLKW,
        F_SETLEASE,
        F_GETLEASE,
        F_NOTIFY,
        F_DUPFD_CLOEXEC,
        F_SETPIPE_SZ,
        F_GETPIPE_SZ,
        F_ADD_SEALS,
        F_GET_SEALS,
    ])
});
/// `F_SETFD`
static FD_FLAGS: LazySet = LazyLock::new(|| Set::flags(names![FD_CLOEXEC]));
/// `F_ADD_SEALS`
static SEALS: LazySet = LazyLock::new(|| Set::flags(flags_of!(SealFlag)));
/// `F_SETLEASE`
static LEASE: LazySet = LazyLock::new(|| Set::values(names![F_RDLCK, F_WRLCK, F_UNLCK]));

/// How `fcntl`'s third argument reads, by its second.
#[derive(Debug, Clone, Copy)]
pub enum FcntlArgument {
    /// The command takes none.
    None,
    /// Named bits or values.
    Set(&'static Set),
    /// A number.
    Number,
    /// An address, or unknown.
    Address,
}

/// How the argument of this `fcntl` command reads.
pub fn fcntl_argument(architecture: Architecture, command: u64) -> FcntlArgument {
    match command as i32 {
        libc::F_GETFD
        | libc::F_GETFL
        | libc::F_GETOWN
        | libc::F_GETLEASE
        | libc::F_GETPIPE_SZ
        | libc::F_GET_SEALS => FcntlArgument::None,
        libc::F_SETFD => FcntlArgument::Set(&FD_FLAGS),
        libc::F_SETFL => FcntlArgument::Set(OPEN.of(architecture)),
        libc::F_ADD_SEALS => FcntlArgument::Set(&SEALS),
        libc::F_SETLEASE => FcntlArgument::Set(&LEASE),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETOWN | libc::F_SETPIPE_SZ => {
            FcntlArgument::Number
        }
        _ => FcntlArgument::Address,
    }
}

/// `flock`
pub(super) static FLOCK: LazySet = LazyLock::new(|| {
    Set::flags(names![LOCK_NB])
        .with_field(!(libc::LOCK_NB as u64), names![LOCK_SH, LOCK_EX, LOCK_UN])
});
/// `fallocate`
pub(super) static FALLOCATE: LazySet = LazyLock::new(|| Set::flags(flags_of!(FallocateFlags)));
/// `fadvise64`
pub(super) static FADVISE: LazySet = LazyLock::new(|| {
    Set::values(names![
        POSIX_FADV_NORMAL,
        POSIX_FADV_RANDOM,
        POSIX_FADV_SEQUENTIAL,
        POSIX_FADV_WILLNEED,
        POSIX_FADV_DONTNEED,
        POSIX_FADV_NOREUSE,
    ])
});
/// `splice`, `tee`, `vmsplice`
pub(super) static SPLICE: LazySet = LazyLock::new(|| Set::flags(flags_of!(SpliceFFlags)));
/// `sync_file_range`
pub(super) static SYNC_RANGE: LazySet = LazyLock::new(|| {
    Set::flags(names![
        SYNC_FILE_RANGE_WAIT_BEFORE,
        SYNC_FILE_RANGE_WRITE,
        SYNC_FILE_RANGE_WAIT_AFTER
    ])
});
/// `preadv2`, `pwritev2`
pub(super) static RWF: LazySet = LazyLock::new(|| {
    Set::flags(names![RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT, RWF_APPEND, RWF_NOAPPEND])
});
/// `setxattr`
pub(super) static XATTR: LazySet =
    LazyLock::new(|| Set::flags(names![XATTR_CREATE, XATTR_REPLACE]));
/// `close_range`
pub(super) static CLOSE_RANGE: LazySet =
    LazyLock::new(|| Set::flags(names![CLOSE_RANGE_UNSHARE, CLOSE_RANGE_CLOEXEC]));
/// `memfd_create`
pub(super) static MEMFD: LazySet = LazyLock::new(|| {
    Set::flags(flags_of!(MFdFlags).filter(|(_, name)| !name.starts_with("MFD_HUGE_")))
});
/// `inotify_init1`
pub(super) static INOTIFY_INIT: LazySet = LazyLock::new(|| Set::flags(flags_of!(InotifyInit)));
/// `inotify_add_watch`
pub(super) static INOTIFY_WATCH: LazySet = LazyLock::new(|| Set::flags(flags_of!(AddWatchFlags)));
/// `fanotify_init`
pub(super) static FANOTIFY_INIT: LazySet = LazyLock::new(|| Set::flags(flags_of!(FanotifyInit)));
/// `fanotify_mark`
pub(super) static FANOTIFY_MARK: LazySet = LazyLock::new(|| Set::flags(flags_of!(MarkFlags)));
/// `fanotify_mark`'s mask
pub(super) static FANOTIFY_MASK: LazySet = LazyLock::new(|| Set::flags(flags_of!(MaskFlags)));
/// `mount`; the magic numbers of old, and what only the kernel sets, are no flags.
pub(super) static MOUNT: LazySet = LazyLock::new(|| {
    Set::flags(flags_of!(MountFlags).filter(|(bits, name)| {
        bits.is_power_of_two() && !matches!(*name, "MS_ACTIVE" | "MS_NOUSER" | "MS_KERNMOUNT")
    }))
});
/// `umount2`
pub(super) static UMOUNT: LazySet = LazyLock::new(|| Set::flags(flags_of!(MntFlags)));
/// `move_mount`
pub(super) static MOVE_MOUNT: LazySet = LazyLock::new(|| {
    Set::flags(names![
        MOVE_MOUNT_F_SYMLINKS,
        MOVE_MOUNT_F_AUTOMOUNTS,
        MOVE_MOUNT_F_EMPTY_PATH,
        MOVE_MOUNT_T_SYMLINKS,
        MOVE_MOUNT_T_AUTOMOUNTS,
        MOVE_MOUNT_T_EMPTY_PATH,
        MOVE_MOUNT_SET_GROUP,
        MOVE_MOUNT_BENEATH,
    ])
});
/// `open_tree`
pub(super) static OPEN_TREE: LazySet = LazyLock::new(|| {
    Set::flags(names![
        OPEN_TREE_CLONE,
        OPEN_TREE_CLOEXEC,
        AT_EMPTY_PATH,
        AT_NO_AUTOMOUNT,
        AT_RECURSIVE
    ])
});

/// Protection of memory; aarch64's own: arch/arm64/include/uapi/asm/mman.h, Linux 6.18.
pub(super) static PROT: ByArchitecture = ByArchitecture {
    x86_64: LazyLock::new(|| Set::flags(protection())),
    aarch64: LazyLock::new(|| {
        Set::flags(protection().chain([(0x10, "PROT_BTI"), (0x20, "PROT_MTE")]))
    }),
};

/// What all machines have.
fn protection() -> impl Iterator<Item = Named> {
    flags_of!(ProtFlags).filter(|(_, name)| !matches!(*name, "PROT_BTI" | "PROT_MTE"))
}

/// `mmap`. Sizes of huge pages are a field that has no mask of its own among the names. x86's own
/// flag: arch/x86/include/uapi/asm/mman.h, Linux 6.18.
pub(super) static MAP: ByArchitecture = ByArchitecture {
    x86_64: LazyLock::new(|| mapping(&[(0x40, "MAP_32BIT")])),
    aarch64: LazyLock::new(|| mapping(&[])),
};

/// With a machine's own flags after the first one that has nothing to do with places.
fn mapping(own: &[Named]) -> Set {
    let all = flags_of!(MapFlags).filter(|(_, name)| {
        !name.starts_with("MAP_HUGE_") && !matches!(*name, "MAP_ANON" | "MAP_FILE" | "MAP_32BIT")
    });
    let flags = all.flat_map(|flag| {
        let own = if flag.1 == "MAP_ANONYMOUS" { own } else { &[] };
        std::iter::once(flag).chain(own.iter().copied())
    });
    Set::flags(flags)
        .with_field(libc::MAP_TYPE as u64, names![MAP_SHARED, MAP_PRIVATE, MAP_SHARED_VALIDATE])
}

/// `mremap`
pub(super) static MREMAP: LazySet =
    LazyLock::new(|| Set::flags(flags_of!(MRemapFlags).chain(names![MREMAP_DONTUNMAP])));
/// `msync`
pub(super) static MSYNC: LazySet = LazyLock::new(|| Set::flags(flags_of!(MsFlags)));
/// `mlockall`
pub(super) static MLOCKALL: LazySet = LazyLock::new(|| Set::flags(flags_of!(MlockAllFlags)));
/// `mlock2`
pub(super) static MLOCK2: LazySet = LazyLock::new(|| Set::flags(names![MLOCK_ONFAULT]));
/// `madvise`
pub(super) static MADVISE: LazySet = LazyLock::new(|| {
    Set::values(names![
        MADV_NORMAL,
        MADV_RANDOM,
        MADV_SEQUENTIAL,
        MADV_WILLNEED,
        MADV_DONTNEED,
        MADV_FREE,
        MADV_REMOVE,
        MADV_DONTFORK,
        MADV_DOFORK,
        MADV_MERGEABLE,
        MADV_UNMERGEABLE,
        MADV_HUGEPAGE,
        MADV_NOHUGEPAGE,
        MADV_DONTDUMP,
        MADV_DODUMP,
        MADV_WIPEONFORK,
        MADV_KEEPONFORK,
        MADV_COLD,
        MADV_PAGEOUT,
        MADV_POPULATE_READ,
        MADV_POPULATE_WRITE,
        MADV_DONTNEED_LOCKED,
        MADV_COLLAPSE,
        MADV_HWPOISON,
        MADV_SOFT_OFFLINE,
    ])
});
/// `mbind`, `set_mempolicy`
pub(super) static MEMPOLICY: LazySet = LazyLock::new(|| {
    let flags = names![MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES, MPOL_F_NUMA_BALANCING];
    let all = flags.iter().fold(0, |bits, (flag, _)| bits | flag);
    Set::flags(flags).with_field(
        !all,
        names![MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL],
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    fn text(set: &Set, number: i32) -> String {
        crate::names::set::tests::text(set, number as u64)
    }

    #[test]
    fn the_order_is_straces() {
        let here = OPEN.of(Architecture::HERE);
        let flags = libc::O_DIRECTORY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOFOLLOW;
        assert_eq!(text(here, flags), "O_RDONLY|O_NONBLOCK|O_NOFOLLOW|O_CLOEXEC|O_DIRECTORY");
        assert_eq!(
            text(here, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC),
            "O_WRONLY|O_CREAT|O_TRUNC"
        );
        assert_eq!(text(here, libc::O_TMPFILE | libc::O_RDWR), "O_RDWR|O_TMPFILE");
        assert_eq!(text(DESCRIPTOR.of(Architecture::HERE), libc::O_DIRECT), "O_DIRECT");
    }

    /// By what the kernel's headers say, whatever machine this is.
    #[test]
    fn a_number_is_what_it_is_on_the_recorded_machine() {
        let [x86, arm] = [Architecture::X86_64, Architecture::Aarch64];
        for (number, on_x86, on_arm) in [
            (0x4000, "O_RDONLY|O_DIRECT", "O_RDONLY|O_DIRECTORY"),
            (0x8000, "O_RDONLY|O_LARGEFILE", "O_RDONLY|O_NOFOLLOW"),
            (0x1_0000, "O_RDONLY|O_DIRECTORY", "O_RDONLY|O_DIRECT"),
            (0x2_0000, "O_RDONLY|O_NOFOLLOW", "O_RDONLY|O_LARGEFILE"),
            (0x40_4002, "O_RDWR|O_DIRECT|0x400000", "O_RDWR|O_TMPFILE"),
            (0x41_0002, "O_RDWR|O_TMPFILE", "O_RDWR|O_DIRECT|0x400000"),
        ] {
            assert_eq!(text(OPEN.of(x86), number), on_x86);
            assert_eq!(text(OPEN.of(arm), number), on_arm);
        }
        assert!(may_create(arm, 0x40_4002) && !may_create(x86, 0x40_4002) && may_create(x86, 0x40));
        assert_eq!(text(MAP.of(x86), 0x62), "MAP_PRIVATE|MAP_ANONYMOUS|MAP_32BIT");
        assert_eq!(text(MAP.of(arm), 0x62), "MAP_PRIVATE|MAP_ANONYMOUS|0x40");
        assert_eq!(text(PROT.of(x86), 0x11), "PROT_READ|0x10");
        assert_eq!(text(PROT.of(arm), 0x11), "PROT_READ|PROT_BTI");
    }

    #[test]
    fn statx_says_how_it_synchronises() {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        assert_eq!(text(&AT, flags), "AT_SYMLINK_NOFOLLOW");
        assert_eq!(text(&AT_STATX, flags), "AT_STATX_SYNC_AS_STAT|AT_SYMLINK_NOFOLLOW");
        assert_eq!(text(&AT_STATX, libc::AT_STATX_DONT_SYNC), "AT_STATX_DONT_SYNC");
    }
}
