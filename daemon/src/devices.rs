//! Names of block devices: what the events have is numbers, and a reader on another machine, or
//! tomorrow, can't ask.
//!
//! A request names its whole disk, so partitions are left out. Devices come and go; those that are
//! gone stay named while there is room, as events of theirs are still in the rings. Bounds:
//! `DEVICES_MAX` names of `NAME_MAX` bytes, of the quarter of a megabyte that the metadata can
//! take.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flightrec_format::meta::Meta;

/// Where the kernel lists block devices: links named `major:minor` to directories that are named
/// as the devices are.
const BLOCK_DEVICES: &str = "/sys/dev/block";
/// Most devices that are named.
const DEVICES_MAX: usize = 512;
/// Longest name that is kept: `DISK_NAME_LEN`, include/linux/blkdev.h.
const NAME_MAX: usize = 32;
/// Bits of a device's number that are its minor one (`MINORBITS`, include/linux/kdev_t.h).
const MINOR_BITS: u32 = 20;

/// The change that brings the names in a recording's metadata up to date, which are these now;
/// `None` where they are.
pub fn refresh(meta: &Meta) -> Option<impl FnOnce(&mut Meta) + use<>> {
    let found = list(Path::new(BLOCK_DEVICES));
    let is_named = |(number, name): (&u32, &String)| meta.devices.get(number) == Some(name);
    let is_known = found.iter().all(is_named);
    (!is_known).then_some(move |meta: &mut Meta| update(meta, found))
}

fn update(meta: &mut Meta, found: BTreeMap<u32, String>) {
    let gone = std::mem::replace(&mut meta.devices, found);
    for (number, name) in gone {
        if meta.devices.len() < DEVICES_MAX {
            meta.devices.entry(number).or_insert(name);
        }
    }
}

/// The disks that are there. What can't be read is left out: its number stands for it.
fn list(dir: &Path) -> BTreeMap<u32, String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let number = number(entry.file_name().to_str()?)?;
        let path = entry.path();
        let target = fs::read_link(&path).ok()?;
        let name = target.file_name()?.to_str()?;
        let is_disk = name.len() <= NAME_MAX && !path.join("partition").exists();
        is_disk.then(|| (number, name.to_owned()))
    });
    named.take(DEVICES_MAX).collect()
}

/// Of `major:minor`.
fn number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << (u32::BITS - MINOR_BITS) && minor < 1 << MINOR_BITS)
        .then_some(major << MINOR_BITS | minor)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn machine(devices: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("block")).unwrap();
        for (number, path) in devices {
            let target = dir.path().join(path);
            fs::create_dir_all(&target).unwrap();
            if path.ends_with("vda1") {
                fs::write(target.join("partition"), "1").unwrap();
            }
            symlink(target, dir.path().join("block").join(number)).unwrap();
        }
        dir
    }

    #[test]
    fn disks_are_listed_by_number_without_their_partitions() {
        let dir = machine(&[
            ("254:0", "virtio1/vda"),
            ("254:1", "virtio1/vda/vda1"),
            ("7:3", "virtual/loop3"),
            ("nonsense", "virtual/x"),
            ("4096:0", "virtual/too-great"),
        ]);
        let found = list(&dir.path().join("block"));
        assert_eq!(found, [(7 << 20 | 3, "loop3".into()), (254 << 20, "vda".into())].into());
        assert!(list(&dir.path().join("none")).is_empty());
    }

    #[test]
    fn what_is_gone_stays_named_while_there_is_room() {
        let mut meta =
            Meta { devices: [(1, "gone".into()), (2, "old".into())].into(), ..Meta::default() };
        update(&mut meta, [(2, "new".into())].into());
        assert_eq!(meta.devices, [(1, "gone".into()), (2, "new".into())].into());
        update(&mut meta, (10..600).take(DEVICES_MAX).map(|n| (n, n.to_string())).collect());
        assert_eq!(meta.devices.len(), DEVICES_MAX);
        assert!(!meta.devices.contains_key(&1));
    }

    #[test]
    fn this_machines_disks_are_named() {
        let mut meta = Meta::default();
        if let Some(change) = refresh(&meta) {
            change(&mut meta);
            assert!(!meta.devices.is_empty());
        }
        assert!(refresh(&meta).is_none(), "once");
    }
}
