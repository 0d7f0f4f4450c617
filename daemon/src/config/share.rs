//! A share of a CPU's time.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A share of a CPU's time, written like `"5%"`, or `"off"` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// No limit.
    Off,
    /// So many millionths.
    Millionths(u32),
}

/// The least share that means anything, in percent.
const LEAST: f64 = 0.01;

impl Share {
    /// From millionths; 0: no limit. The error is for the user.
    pub fn from_millionths(millionths: u32) -> Result<Self, String> {
        match millionths {
            0 => Ok(Self::Off),
            n if (LEAST..=100.0).contains(&(f64::from(n) / 10_000.0)) => Ok(Self::Millionths(n)),
            n => Err(format!("{} % is not within {LEAST} % to 100 %", f64::from(n) / 10_000.0)),
        }
    }

    /// Millionths of a CPU; `None`: no limit.
    pub const fn millionths(self) -> Option<u32> {
        match self {
            Self::Off => None,
            Self::Millionths(n) => Some(n),
        }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let wrong = || {
            format!(
                "{text:?} is not a share of a CPU: write percent, like \"5%\", or \"off\" for no \
                 limit"
            )
        };
        let number = text.strip_suffix('%').ok_or_else(wrong)?.trim_end();
        // As people write it: `parse` alone would take "inf" and "1e1" as well.
        if !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(wrong());
        }
        let percent: f64 = number.parse().map_err(|_| wrong())?;
        if !(LEAST..=100.0).contains(&percent) {
            return Err(format!(
                "{text:?} is not within {LEAST}% to 100%; for no limit write \"off\""
            ));
        }
        Ok(Self::Millionths((percent * 10_000.0).round() as u32))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Millionths(n) => write!(f, "{}%", f64::from(*n) / 10_000.0),
        }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Share;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share in quotes, like \"5%\", or \"off\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Share, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}
