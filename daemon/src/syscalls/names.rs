//! Which event publishes a call's arguments.
//!
//! An event bears the name of the kernel's function, a call that of its table. They differ where a
//! function was replaced and the old name kept for programs.

/// 64-bit calls whose function has another name.
const NATIVE: &[(&str, &str)] = &[
    // Replaced when struct stat grew; the name without "new" is the function for the first one.
    ("stat", "newstat"),
    ("fstat", "newfstat"),
    ("lstat", "newlstat"),
    // Replaced when struct utsname grew, twice.
    ("uname", "newuname"),
    // sys_umount always took flags; what i386 calls umount is sys_oldumount.
    ("umount2", "umount"),
    // On 64 bits the offset is 64 bits wide anyway.
    ("sendfile", "sendfile64"),
];

/// 64-bit calls whose function has another name in the table that newer architectures share
/// (scripts/syscall.tbl, arch/arm64/kernel/sys.c, Linux 6.18).
const GENERIC: &[(&str, &str)] =
    &[("fadvise64", "fadvise64_64"), ("personality", "arm64_personality")];

/// 32-bit calls whose function takes the arguments of a 64-bit call of another name.
/// From arch/x86/entry/syscalls/syscall_32.tbl and arch/arm/tools/syscall.tbl, Linux 6.18.
const COMPAT: &[(&str, &str)] = &[
    ("_newselect", "select"),
    ("ugetrlimit", "getrlimit"),
    ("fcntl64", "fcntl"),
    // The struct differs, not the list.
    ("stat64", "newstat"),
    ("lstat64", "newlstat"),
    ("fstat64", "newfstat"),
    ("fstatat64", "newfstatat"),
];

/// 32-bit calls that take other arguments than the 64-bit call of the same name.
const COMPAT_DIFFERS: &[&str] = &[
    // One pointer to a block of arguments.
    "mmap",
    "select",
    // No flags.
    "umount",
    // The order of the last two is the other way round (CONFIG_CLONE_BACKWARDS).
    "clone",
    // A 64-bit value in two arguments (arch/x86/kernel/sys_ia32.c, arch/arm64/kernel/sys32.c), so
    // that all after it shift.
    "pread64",
    "pwrite64",
    "readahead",
    "fadvise64",
    "sync_file_range",
    "fallocate",
    "fanotify_mark",
    "lookup_dcookie",
];

/// The events that a 64-bit call may have, without `sys_enter_`: an architecture's own function, if
/// there is one, takes the same arguments.
pub(super) fn native_events(name: &str) -> impl Iterator<Item = &str> {
    [Some(native_event(name)), lookup(GENERIC, name)].into_iter().flatten()
}

/// The event of a 64-bit call on all architectures but those that have one of their own.
fn native_event(name: &str) -> &str {
    lookup(NATIVE, name).unwrap_or(name)
}

/// The event whose arguments a 32-bit call takes as well; `None` where no list is known to be
/// right: recording six arguments is better than naming wrong ones.
pub(super) fn compat_event(name: &str) -> Option<&str> {
    if COMPAT_DIFFERS.contains(&name) {
        return None;
    }
    if let Some(event) = lookup(COMPAT, name) {
        return Some(event);
    }
    // Replaced for times after 2038 (clock_gettime64, futex_time64), and for ids above 65535
    // (getuid32): the list stayed.
    let base = name.strip_suffix("_time64");
    let base = base.or_else(|| name.strip_suffix("64").filter(|n| n.ends_with("time")));
    Some(native_event(base.or_else(|| name.strip_suffix("32")).unwrap_or(name)))
}

fn lookup(table: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(call, _)| *call == name).map(|(_, event)| *event)
}
