//! What is loaded in the kernel, so that a test can say that nothing is left of a recorder.
//!
//! Own `bpf(2)` calls, apart from the product's: a witness should not share the code that it
//! checks. Structures as in `include/uapi/linux/bpf.h`.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::process::{PATIENCE, wait_until};

const OBJ_GET: i32 = 7;
const PROG_GET_NEXT_ID: i32 = 11;
const MAP_GET_NEXT_ID: i32 = 12;
const PROG_GET_FD_BY_ID: i32 = 13;
const MAP_GET_FD_BY_ID: i32 = 14;
const OBJ_GET_INFO_BY_FD: i32 = 15;
const LINK_GET_FD_BY_ID: i32 = 30;

/// Where the name is in `struct bpf_prog_info` and in `struct bpf_map_info`, how long it is
/// (`BPF_OBJ_NAME_LEN`), and how much of them is asked for.
const PROG_NAME: usize = 64;
const MAP_NAME: usize = 24;
const NAME_SIZE: usize = 16;
const INFO_SIZE: usize = 80;

/// What a [`BpfObject`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A program.
    Program,
    /// A map.
    Map,
    /// A program's attachment.
    Link,
}

/// A program, map or link in the kernel. Ids are not used again before 2^31 others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfObject {
    /// What it is.
    pub kind: ObjectKind,
    /// The kernel's number of it.
    pub id: u32,
    /// Name of its pin; of one that is listed, the kernel's name of it (15 bytes at most).
    pub name: String,
}

impl BpfObject {
    /// The object pinned at `path` in a recording, where the folder tells its kind.
    pub fn pinned(path: &Path) -> io::Result<Self> {
        let part = |p: Option<&Path>| Some(p?.file_name()?.to_string_lossy().into_owned());
        let kind = match part(path.parent()).as_deref() {
            Some("progs") => ObjectKind::Program,
            Some("maps") => ObjectKind::Map,
            Some("links") => ObjectKind::Link,
            _ => {
                return Err(io::Error::other(format!(
                    "{} is in no folder of a recording",
                    path.display()
                )));
            }
        };
        let name = part(Some(path)).unwrap_or_default();
        let path = CString::new(path.as_os_str().as_bytes())?;
        let object = open(OBJ_GET, [path.as_ptr() as u64, 0])?;
        // bpf_prog_info, bpf_map_info and bpf_link_info all begin with type and id.
        let mut info = [0u32; 2];
        let length = size_of_val(&info) as u64;
        bpf(
            OBJ_GET_INFO_BY_FD,
            [object.as_raw_fd() as u64 | length << 32, info.as_mut_ptr() as u64],
        )?;
        Ok(Self { kind, id: info[1], name })
    }

    /// Whether the kernel still has it.
    fn is_loaded(&self) -> bool {
        let command = match self.kind {
            ObjectKind::Program => PROG_GET_FD_BY_ID,
            ObjectKind::Map => MAP_GET_FD_BY_ID,
            ObjectKind::Link => LINK_GET_FD_BY_ID,
        };
        // Any other failure means that it is there and can't be opened.
        open(command, [u64::from(self.id), 0])
            .map_or_else(|e| e.raw_os_error() != Some(libc::ENOENT), |_| true)
    }
}

/// Every program and map in the kernel, whoever loaded it. (Each link holds its program.)
///
/// # Errors
/// BPF is not for this process.
pub fn bpf_objects() -> io::Result<Vec<BpfObject>> {
    let mut objects = Vec::new();
    for (kind, next, get, name_at) in [
        (ObjectKind::Program, PROG_GET_NEXT_ID, PROG_GET_FD_BY_ID, PROG_NAME),
        (ObjectKind::Map, MAP_GET_NEXT_ID, MAP_GET_FD_BY_ID, MAP_NAME),
    ] {
        let mut id = 0;
        while let Some(found) = next_id(next, id)? {
            id = found;
            // It may be gone by now.
            let Ok(object) = open(get, [u64::from(id), 0]) else { continue };
            let mut info = [0u64; INFO_SIZE / 8];
            let length = INFO_SIZE as u64;
            let attr = [object.as_raw_fd() as u64 | length << 32, info.as_mut_ptr() as u64];
            bpf(OBJ_GET_INFO_BY_FD, attr)?;
            let bytes: Vec<u8> = info.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let name = bytes[name_at..].iter().take(NAME_SIZE).take_while(|byte| **byte != 0);
            let name = name.map(|byte| char::from(*byte)).collect();
            objects.push(BpfObject { kind, id, name });
        }
    }
    Ok(objects)
}

/// The id that comes next, if there is one.
fn next_id(command: i32, after: u32) -> io::Result<Option<u32>> {
    let mut attr = [u64::from(after), 0];
    match bpf_with(command, &mut attr) {
        Ok(_) => Ok(Some((attr[0] >> 32) as u32)),
        Err(e) if e.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Those of `objects` that the kernel still has, after it was given time to free them: that takes a
/// grace period after the last reference.
pub fn bpf_objects_left(objects: &[BpfObject]) -> Vec<BpfObject> {
    let mut left = objects.to_vec();
    // They are freed after a grace period of the kernel, after the last reference.
    wait_until(PATIENCE, || {
        left.retain(BpfObject::is_loaded);
        left.is_empty()
    });
    left
}

/// Whether this process may use BPF on this kernel.
pub(crate) fn probe() -> io::Result<()> {
    match bpf(PROG_GET_NEXT_ID, [0, 0]) {
        Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
        _ => Ok(()),
    }
}

/// A command that answers with a descriptor.
fn open(command: i32, attr: [u64; 2]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the kernel has just returned this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf(command: i32, mut attr: [u64; 2]) -> io::Result<i32> {
    bpf_with(command, &mut attr)
}

/// The commands used here have at most four 32-bit fields, the first two in `attr[0]`.
fn bpf_with(command: i32, attr: &mut [u64; 2]) -> io::Result<i32> {
    // SAFETY: `attr` is live and writable and its length is passed; where a command takes an
    // address in it, the caller keeps that buffer alive, of the length that it says.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size_of_val(attr)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}
