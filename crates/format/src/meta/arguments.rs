//! What an argument is, by the kernel's own name and type for it.

use super::Argument;

/// Whether an argument of a call is a file descriptor of the process that makes it.
pub fn is_descriptor(call: &str, argument: &Argument) -> bool {
    let name = argument.name.as_str();
    // A number of another process.
    if (call, name) == ("pidfd_getfd", "fd") {
        return false;
    }
    // `max_fd` of close_range is a bound. Pointers lead to descriptors in user memory.
    !argument.ctype.contains('*')
        && name != "max_fd"
        && (name.ends_with("fd")
            || name.starts_with("fd_")
            || matches!(name, "fildes" | "fdin" | "fdout" | "mqdes" | "fd1" | "fd2"))
}

/// Whether an argument of a call is the descriptor of a directory, or `AT_FDCWD`.
pub fn is_directory(call: &str, argument: &str) -> bool {
    matches!(
        (call, argument),
        (_, "dfd" | "olddfd" | "newdfd" | "from_dfd" | "to_dfd" | "mountdirfd")
            | ("execveat", "fd")
    )
}

/// Whether an argument of a call is a path: the kernel's type is that of any string.
///
/// Writers use this rule for the summaries of blocks (FORMAT.md, section 16). Do not add a name:
/// readers would expect it of summaries in files that were written before.
pub fn is_path(call: &str, argument: &Argument) -> bool {
    if !matches!(argument.ctype.as_str(), "const char *" | "char *") {
        return false;
    }
    match argument.name.as_str() {
        "filename" | "pathname" | "path" | "oldname" | "newname" | "old" | "new" | "dev_name"
        | "dir_name" | "library" | "put_old" | "new_root" | "specialfile" | "special"
        | "from_pathname" | "to_pathname" => true,
        // Elsewhere the name of an attribute, a module or a queue.
        "name" => matches!(call, "umount" | "umount2" | "acct" | "name_to_handle_at"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(ctype: &str, name: &str) -> Argument {
        Argument { name: name.into(), ctype: ctype.into() }
    }

    #[test]
    fn descriptors() {
        for (ctype, name) in
            [("unsigned int", "fd"), ("int", "dfd"), ("unsigned int", "fildes"), ("int", "fd_in")]
        {
            assert!(is_descriptor("write", &argument(ctype, name)), "{name}");
        }
        let other = argument("int", "fd");
        assert!(!is_descriptor("pidfd_getfd", &other) && is_descriptor("read", &other));
        for (ctype, name) in [
            ("int *", "fildes"),
            ("unsigned int", "max_fd"),
            ("unsigned int", "nfds"),
            ("int", "n"),
        ] {
            assert!(!is_descriptor("write", &argument(ctype, name)), "{name}");
        }
    }

    #[test]
    fn paths() {
        assert!(is_path("openat", &argument("const char *", "filename")));
        assert!(is_path("umount2", &argument("char *", "name")));
        assert!(!is_path("setxattr", &argument("const char *", "name")));
        assert!(!is_path("execve", &argument("const char *const *", "argv")));
        assert!(!is_path("write", &argument("const char *", "buf")));
    }
}
