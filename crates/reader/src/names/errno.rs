//! Names of errors.

use syscalls::Errno;

/// The name of an error number, the kernel's internal ones (ERESTARTSYS and its kin) included.
pub fn errno(number: i32) -> Option<&'static str> {
    Errno::new(number).name()
}

#[cfg(test)]
mod tests {
    use super::errno;

    #[test]
    fn errors_of_users_and_of_the_kernel() {
        assert_eq!(errno(libc::ENOENT), Some("ENOENT"));
        assert_eq!(errno(512), Some("ERESTARTSYS"));
        assert_eq!(errno(516), Some("ERESTART_RESTARTBLOCK"));
        assert_eq!(errno(4095), None);
    }
}
