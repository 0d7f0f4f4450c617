//! An array map whose values are mapped into this process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::sys;

/// A `BPF_F_MMAPABLE` array map, mapped whole. The kernel writes it at any time, so it is read
/// by copying, never by reference.
#[derive(Debug)]
pub struct ArrayMap {
    fd: OwnedFd,
    base: NonNull<u8>,
    stride: usize,
    entries: usize,
}

// SAFETY: the mapping lives as long as the value, and all access is by volatile or atomic copies.
unsafe impl Send for ArrayMap {}
// SAFETY: as above; shared access only copies.
unsafe impl Sync for ArrayMap {}

impl ArrayMap {
    /// Opens a pinned map and maps it, for reading only or for reading and writing.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        Self::new(sys::obj_get(path)?, writable)
    }

    /// Maps a map. Fails with `EINVAL` where the map is not `BPF_F_MMAPABLE`.
    pub fn new(fd: OwnedFd, writable: bool) -> io::Result<Self> {
        let info = sys::map_info(fd.as_fd())?;
        // Array values stand at multiples of 8 bytes (array_map_alloc, kernel/bpf/arraymap.c, 6.1).
        let stride = (info.value_size as usize).next_multiple_of(8);
        Self::map(fd, stride, info.max_entries as usize, writable)
    }

    /// The same bytes as values of `size` bytes each, where its values are so many of these; as it
    /// is, where they are not.
    #[must_use]
    pub fn in_values(mut self, size: usize) -> Self {
        if size != 0 && self.stride.is_multiple_of(size) {
            self.entries *= self.stride / size;
            self.stride = size;
        }
        self
    }

    /// Memory of this process alone that looks like a map, for tests without the kernel's.
    #[cfg(test)]
    pub(crate) fn anonymous(stride: usize, entries: usize) -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: a constant name; the descriptor is fresh, and ours alone.
        let fd = unsafe {
            match libc::memfd_create(c"map".as_ptr(), 0) {
                -1 => return Err(io::Error::last_os_error()),
                fd => OwnedFd::from_raw_fd(fd),
            }
        };
        // SAFETY: a descriptor that lives.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), (stride * entries) as i64) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Self::map(fd, stride, entries, true)
    }

    fn map(fd: OwnedFd, stride: usize, entries: usize, writable: bool) -> io::Result<Self> {
        let prot = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a fresh mapping of the map's whole length (array_map_mmap rounds up to pages).
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                stride * entries,
                prot,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(p.cast()).ok_or_else(|| io::Error::other("mmap returned null"))?;
        Ok(Self { fd, base, stride, entries })
    }

    /// The map's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Number of values.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Bytes from one value to the next.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Address of `bytes` bytes at `at` in value `index`; `None` outside the map.
    fn at(&self, index: usize, at: usize, bytes: usize) -> Option<*mut u8> {
        if index >= self.entries || at.checked_add(bytes)? > self.stride {
            return None;
        }
        // SAFETY: within the mapping by the check above.
        Some(unsafe { self.base.as_ptr().add(index * self.stride + at) })
    }

    /// Copies from value `index` into `out`, eight bytes at a time, as the kernel may be writing.
    /// `at` and the length are multiples of 8. Outside the map nothing is copied, and `false`
    /// returned.
    #[expect(clippy::cast_ptr_alignment, reason = "base, stride and `at` are multiples of 8")]
    pub fn read(&self, index: usize, at: usize, out: &mut [u8]) -> bool {
        let Some(p) = self.at(index, at, out.len()) else { return false };
        if !at.is_multiple_of(8) || !out.len().is_multiple_of(8) {
            return false;
        }
        for (i, chunk) in out.chunks_exact_mut(8).enumerate() {
            // SAFETY: aligned (stride, base and `at` are multiples of 8) and inside the mapping.
            let word = unsafe { p.cast::<u64>().add(i).read_volatile() };
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        true
    }

    /// Writes `data` (a multiple of 8 bytes) into value `index` at `at`; the map must be writable.
    /// A reader that sees any of it sees what was written before.
    #[expect(clippy::cast_ptr_alignment, reason = "base, stride and `at` are multiples of 8")]
    pub fn write(&self, index: usize, at: usize, data: &[u8]) -> bool {
        let Some(p) = self.at(index, at, data.len()) else { return false };
        if !at.is_multiple_of(8) || !data.len().is_multiple_of(8) {
            return false;
        }
        fence(Ordering::Release);
        for (i, chunk) in data.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            // SAFETY: aligned and inside the mapping, as in `read`.
            unsafe { p.cast::<u64>().add(i).write_volatile(u64::from_ne_bytes(word)) };
        }
        true
    }

    /// A 32-bit field, for single loads and stores that the probes pair with.
    pub fn u32(&self, index: usize, at: usize) -> Option<&AtomicU32> {
        let p = self.at(index, at, 4).filter(|_| at.is_multiple_of(4))?;
        // SAFETY: aligned, inside the mapping, lives as long as `self`; the kernel writes it with
        // plain aligned stores, which are atomic on the supported machines.
        Some(unsafe { AtomicU32::from_ptr(p.cast()) })
    }

    /// A 64-bit field, as [`Self::u32`].
    pub fn u64(&self, index: usize, at: usize) -> Option<&AtomicU64> {
        let p = self.at(index, at, 8).filter(|_| at.is_multiple_of(8))?;
        // SAFETY: as in `u32`.
        Some(unsafe { AtomicU64::from_ptr(p.cast()) })
    }

    /// Loads a 64-bit field; 0 outside the map.
    pub fn load(&self, index: usize, at: usize) -> u64 {
        self.u64(index, at).map_or(0, |v| v.load(Ordering::Acquire))
    }
}

impl Drop for ArrayMap {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of the same length; nothing refers to it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.stride * self.entries) };
    }
}
