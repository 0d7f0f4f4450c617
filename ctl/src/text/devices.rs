//! Block devices by name.

use std::collections::BTreeMap;

use flightrec_format::meta::Meta;

use super::escape::escape;
use super::number::decimal;

/// Bits of a device's number that are its minor one (`MINORBITS`, include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;
/// Most bytes of a name that are shown: `DISK_NAME_LEN`, include/linux/blkdev.h.
const NAME_MAX: usize = 32;

/// What the recorder knew block devices by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Devices(BTreeMap<u32, Box<[u8]>>);

impl Devices {
    /// As the recording's metadata have them.
    pub(crate) fn new(meta: &Meta) -> Self {
        let named = meta.devices.iter().filter(|(_, name)| !name.is_empty());
        let of = |(number, name): (&u32, &String)| {
            let mut shown = Vec::new();
            escape(name.as_bytes().get(..NAME_MAX).unwrap_or(name.as_bytes()), &mut shown);
            (*number, shown.into_boxed_slice())
        };
        Self(named.map(of).collect())
    }

    /// Appends a device's name; `major:minor` where it is not known, `none` where there is none.
    pub(crate) fn write(&self, number: u32, out: &mut Vec<u8>) {
        match self.0.get(&number) {
            Some(name) => out.extend_from_slice(name),
            None if number == 0 => out.extend_from_slice(b"none"),
            None => {
                decimal(number >> MINOR_BITS, out);
                out.push(b':');
                decimal(number & ((1 << MINOR_BITS) - 1), out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_the_names_of_the_metadata_or_their_numbers() {
        let devices = [(254 << 20, "vda".into()), (7 << 20 | 3, "evil\u{1b}[31m".into())].into();
        let devices = Devices::new(&Meta { devices, ..Meta::default() });
        let shown = |number| {
            let mut out = Vec::new();
            devices.write(number, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(254 << 20), "vda");
        assert_eq!(shown(254 << 20 | 1), "254:1");
        assert_eq!(shown(0), "none");
        assert_eq!(shown(u32::MAX), "4095:1048575");
        assert_eq!(shown(7 << 20 | 3), "evil\\33[31m");
    }
}
