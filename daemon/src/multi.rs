//! Programs for many points of a file at once (`uprobe_multi`, Linux 6.6).
//!
//! One link attaches them all, and one wait for the kernel's grace period detaches them. Perf
//! events are detached one after the other, each with a wait of its own (`perf_uprobe_destroy`,
//! kernel/trace/trace_event_perf.c, Linux 6.1: 25 ms each, half a minute for 600 functions). aya
//! 0.14 knows no such programs. They are the same instructions with another type of attachment, so
//! they are relocated here as aya does it, and loaded by themselves.

use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::Object;
use flightrec_format::live::sys;
use tracing::debug;

/// What the names of their pins end with.
const SUFFIX: &str = "_multi";

/// The name of such a program's pin.
pub fn pin(program: &str) -> String {
    format!("{program}{SUFFIX}")
}

/// Loads these programs, with the maps that are loaded, and pins them; on a kernel that does not
/// take them, none.
pub fn load(object: &[u8], ebpf: &Ebpf, programs: &[&str], dir: &Path) {
    let relocated = match relocated(object, ebpf, programs) {
        Ok(relocated) => relocated,
        Err(e) => return debug!("functions are probed one by one: {e}"),
    };
    for program in programs {
        let loaded = instructions(&relocated, program).and_then(|instructions| {
            let program = sys::load_uprobe_multi(program, &instructions)?;
            // Some kernels take the program, and have no such links.
            sys::knows_uprobe_multi(program.as_fd())?;
            Ok(program)
        });
        let path = dir.join("progs").join(pin(program));
        if let Err(e) = loaded.and_then(|loaded: OwnedFd| sys::obj_pin(loaded.as_fd(), &path)) {
            debug!("functions are probed one by one: {program}: {e}");
            return;
        }
    }
}

/// These programs, with the maps that they use.
fn relocated(object: &[u8], ebpf: &Ebpf, programs: &[&str]) -> io::Result<Object> {
    let mut object = Object::parse(object).map_err(io::Error::other)?;
    // Of the others, not all can be had without their maps.
    object.programs.retain(|name, _| programs.contains(&name.as_str()));
    let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let maps = object.maps.clone();
    let known = maps
        .iter()
        .filter_map(|(name, map)| Some((name.as_str(), descriptor(ebpf.map(name)?)?, map)));
    object.relocate_maps(known, &sections).map_err(io::Error::other)?;
    object.relocate_calls(&sections).map_err(io::Error::other)?;
    Ok(object)
}

/// A program's instructions.
fn instructions(object: &Object, program: &str) -> io::Result<Vec<u64>> {
    let key = object.programs.get(program).map(aya_obj::Program::function_key);
    let key = key.ok_or_else(|| io::Error::other("no such program"))?;
    let function = object.functions.get(&key).ok_or_else(|| io::Error::other("no instructions"))?;
    let word = |of: &aya_obj::generated::bpf_insn| {
        let registers = u64::from(of.dst_reg()) | u64::from(of.src_reg()) << 4;
        u64::from(of.code) | registers << 8 | u64::from(of.off as u16) << 16 | (of.imm as u64) << 32
    };
    Ok(function.instructions.iter().map(word).collect())
}

fn descriptor(map: &Map) -> Option<RawFd> {
    match map {
        Map::Array(data) | Map::PerCpuArray(data) | Map::RingBuf(data) | Map::HashMap(data) => {
            Some(data.fd().as_fd().as_raw_fd())
        }
        _ => None,
    }
}

/// Points of a file.
#[derive(Debug, Default)]
pub struct Points {
    /// The byte of the file of each.
    pub offsets: Vec<u64>,
    /// The byte of the counter of listeners, or 0.
    pub semaphores: Vec<u64>,
    /// What the program is told.
    pub cookies: Vec<u64>,
}

/// Links a pinned program to points of a file, or to the returns of functions there.
pub fn link(
    dir: &Path,
    program: &str,
    file: &OwnedFd,
    points: &Points,
    returns: bool,
) -> io::Result<OwnedFd> {
    let program = sys::obj_get(&dir.join("progs").join(pin(program)))?;
    // Whatever its path means by then, and to whom.
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let Points { offsets, semaphores, cookies } = points;
    sys::link_uprobe_multi(program.as_fd(), &path, offsets, semaphores, cookies, returns)
}
