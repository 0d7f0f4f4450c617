//! A size in human units.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A number of bytes, written like `"16MiB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

impl Size {
    /// So many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n << 10)
    }

    /// So many MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// In bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is not a size: write a number and a unit, like \"16MiB\" or \"64KiB\""
            )
        };
        // A bare number is refused: it is as likely meant in KiB or MiB as in bytes.
        if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(wrong());
        }
        match text.parse::<ByteSize>() {
            Ok(ByteSize(u64::MAX)) => Err(format!("{text:?} is too large")), // it saturates
            Ok(ByteSize(bytes)) => Ok(Self(bytes)),
            Err(_) => Err(wrong()),
        }
    }
}

/// Exact: in the largest unit that the size is a whole number of.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size in quotes with a unit, like \"16MiB\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
