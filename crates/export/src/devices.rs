//! Names of block devices.

use rustc_hash::FxHashMap;

use flightrec_format::meta::Meta;

use crate::printable::printable;

/// Bits of a device's number that are its minor one (`MINORBITS`, include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// What the recorder knew block devices by.
#[derive(Debug, Default)]
pub struct Devices(FxHashMap<u32, Box<str>>);

impl Devices {
    /// As the recording's metadata have them.
    pub fn new(meta: &Meta) -> Self {
        let named = meta.devices.iter().filter(|(_, name)| !name.is_empty());
        Self(named.map(|(of, name)| (*of, printable(name.as_bytes()).into())).collect())
    }

    /// A device's name; `major:minor` where it is not known.
    pub fn name(&self, device: u32) -> Box<str> {
        self.0.get(&device).cloned().unwrap_or_else(|| {
            let minor = device & ((1 << MINOR_BITS) - 1);
            format!("{}:{minor}", device >> MINOR_BITS).into()
        })
    }
}
