//! A dump of the kernel that holds a live recording.

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::live::map::ArrayMap;
use flightrec_format::live::{self, Generation};
use flightrec_vmcore::synthetic::{self, Image};

use crate::Recorder;

/// What is in the memory of this machine of a recording, as a dump of the kernel has it.
///
/// # Panics
/// If the recording's maps can't be read.
pub fn kernel_dump(recorder: &Recorder) -> Vec<u8> {
    let generation = Generation::find(&recorder.sandbox().bpffs_dir());
    let maps = live::Maps::open(&generation.unwrap_or_else(|e| panic!("a recording: {e}")), false)
        .unwrap_or_else(|e| panic!("its maps: {e}"));
    let mut image = Image::new();
    let mut add = |map: &ArrayMap| {
        for index in 0..map.entries() {
            let mut page = Box::new([0; PAGE_SIZE]);
            assert!(map.read(index, 0, page.as_mut_slice()));
            image.insert(image.len() as u64 + 256, page);
        }
    };
    maps.rings.iter().chain([&maps.meta, &maps.slots]).for_each(&mut add);
    maps.descriptors.iter().chain(&maps.quiet).for_each(&mut add);
    synthetic::elf(&image, 0)
}
