//! Ids of distributed traces in records.

/// The id of a trace: 16 bytes, in the order in which they are written (W3C Trace Context).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span of a trace: 8 bytes, in the order in which they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SpanId(pub [u8; 8]);

#[cfg(feature = "std")]
impl core::fmt::Display for TraceId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(feature = "std")]
impl core::fmt::Display for SpanId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_with_all_digits() {
        assert_eq!(TraceId::default().to_string(), "0".repeat(32));
        assert_eq!(
            SpanId([0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 2, 0xb7]).to_string(),
            "00f067aa0ba902b7"
        );
    }
}
