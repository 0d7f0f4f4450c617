//! Names of what io_uring does.

use flightrec_format::abi::value_names::IO_OPS;

/// What an operation does, by its name ([`IO_OPS`]); `None`: this release does not know it.
pub fn io_op(op: u32) -> Option<&'static str> {
    IO_OPS.iter().find(|(number, _)| *number == u64::from(op)).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::io_op;

    #[test]
    fn operations_have_names() {
        assert_eq!((io_op(18), io_op(62)), (Some("openat"), Some("pipe")));
        assert_eq!((io_op(200), io_op(u32::MAX)), (None, Some("unknown")));
    }
}
