//! Disks, as they are typed.

use rustc_hash::FxHashSet;

use flightrec_format::abi::kinds::Unit;
use flightrec_format::meta::Meta;
use flightrec_reader::kind::{Kind, Kinds};

use super::FilterError;
use crate::suggest::{hint, nearest};

/// Bits of a device's number that are its minor one (`MINORBITS`, include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// What `--event` calls all kinds of requests to disks together.
pub(super) const KINDS: &str = "block";

/// Whether events of a kind have a device.
pub(super) fn has_device(kind: Kind) -> bool {
    kind.row().fields.iter().any(|field| field.unit == Unit::Device)
}

/// The kinds whose events have a device.
pub(super) fn kinds() -> Kinds {
    Kind::ALL.into_iter().filter(|kind| has_device(*kind)).fold(Kinds::NONE, Kinds::with)
}

/// Their numbers, by name (also with /dev/ before it) or as `major:minor`.
pub(super) fn numbers(typed: &[String], meta: &Meta) -> Result<FxHashSet<u32>, FilterError> {
    let number = |name: &String| {
        let short = name.strip_prefix("/dev/").unwrap_or(name);
        let named = meta.devices.iter().find(|(_, named)| *named == short);
        named.map(|(number, _)| *number).or_else(|| parse(short)).ok_or_else(|| {
            let hint = match hint(&nearest(short, meta.devices.values().map(String::as_str))) {
                none if none.is_empty() => "; give its major and minor number, as 254:0".into(),
                hint => hint,
            };
            FilterError::Device { name: name.clone(), hint }
        })
    };
    typed.iter().map(number).collect()
}

/// `254:0`
fn parse(name: &str) -> Option<u32> {
    let (major, minor) = name.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << (32 - MINOR_BITS) && minor < 1 << MINOR_BITS)
        .then_some(major << MINOR_BITS | minor)
}

#[cfg(test)]
mod tests {
    use super::super::{FilterPlan, FilterSpec};
    use super::*;

    #[test]
    fn disks_by_name_and_by_number() {
        let devices = [(254 << 20, "vda".into()), (7 << 20 | 3, "loop3".into())].into();
        let meta = Meta { devices, ..Meta::default() };
        let numbers = |typed: &str| {
            let numbers = numbers(&[typed.into()], &meta).map_err(|e| e.to_string())?;
            Ok(numbers.into_iter().next())
        };
        assert_eq!(numbers("vda"), Ok(Some(254 << 20)));
        assert_eq!(numbers("/dev/loop3"), Ok(Some(7 << 20 | 3)));
        assert_eq!(numbers("8:16"), Ok(Some((8 << 20) + 16)), "one that the recorder did not name");
        let wrong = |typed: &str| -> String { numbers(typed).unwrap_err() };
        assert!(wrong("vdb").contains("no disk `vdb`") && wrong("vdb").contains("vda"));
        for typed in ["", "8:", "4096:0", "0:1048576", "-1:0", "a:b"] {
            assert!(wrong(typed).contains("--device"), "{typed}");
        }
    }

    #[test]
    fn only_requests_have_a_device() {
        let wanted = kinds();
        let kinds: Vec<&str> =
            Kind::ALL.into_iter().filter(|kind| wanted.has(*kind)).map(Kind::name).collect();
        assert_eq!(kinds, ["block_insert", "block_issue", "block_complete"]);
        let spec = |event: &[&str]| FilterSpec {
            event: event.iter().map(|name| (*name).into()).collect(),
            ..FilterSpec::default()
        };
        let all = FilterPlan::new(spec(&["block"])).unwrap();
        assert_eq!(all, FilterPlan::new(spec(&kinds)).unwrap());
    }
}
