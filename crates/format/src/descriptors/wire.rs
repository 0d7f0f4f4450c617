//! Numbers, bytes and addresses as they stand in the document.

use std::net::{IpAddr, SocketAddr};

use super::DescriptorsError;

/// Puts a document together.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// LEB128: seven bits a byte, the least significant first; the top bit says that more follow.
    pub(super) fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// The address in the network's order, then the port.
    pub(super) fn address(&mut self, address: &SocketAddr) {
        match address.ip() {
            IpAddr::V4(ip) => self.0.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => self.0.extend_from_slice(&ip.octets()),
        }
        self.number(u64::from(address.port()));
    }
}

/// What is left of a document.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Result<u64, DescriptorsError> {
        let mut n: u64 = 0;
        for shift in (0..).step_by(7) {
            let (byte, rest) =
                self.0.split_first().ok_or(DescriptorsError::Malformed("it is cut off"))?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift > 63 || bits << shift >> shift != bits {
                break;
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(DescriptorsError::Malformed("a number of more than 64 bits"))
    }

    /// A number of a smaller type.
    pub(super) fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, DescriptorsError> {
        T::try_from(self.number()?)
            .map_err(|_| DescriptorsError::Malformed("a number beyond its range"))
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], DescriptorsError> {
        let length = self.number()?;
        let (bytes, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length))
            .ok_or(DescriptorsError::Malformed("a name beyond its end"))?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn address<const N: usize>(&mut self) -> Result<SocketAddr, DescriptorsError>
    where
        IpAddr: From<[u8; N]>,
    {
        let (ip, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(DescriptorsError::Malformed("an address cut off"))?;
        self.0 = rest;
        Ok(SocketAddr::new(IpAddr::from(*ip), self.narrow()?))
    }
}
