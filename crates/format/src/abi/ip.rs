//! Addresses of the Internet Protocol in records.

/// An address of 16 bytes, in the network's order: that of IPv6, or one of IPv4 mapped into it
/// (`::ffff:192.0.2.1`, RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Ip(pub [u8; 16]);

impl Ip {
    /// That of IPv4.
    #[inline(always)]
    pub const fn v4([a, b, c, d]: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }
}

#[cfg(feature = "std")]
impl core::fmt::Display for Ip {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        std::net::Ipv6Addr::from(self.0).to_canonical().fmt(f)
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        assert_eq!(Ip::v4([192, 0, 2, 1]).to_string(), "192.0.2.1");
        let mut bytes = [0; 16];
        bytes[15] = 1;
        assert_eq!(Ip(bytes).to_string(), "::1");
        assert_eq!(Ip::default().to_string(), "::");
    }
}
