//! The lines that the kernel logs, by its own tracepoint (`printk:console`), since a user without rights may not read /dev/kmsg.
//!
//! The program (`probes-ebpf/src/console.rs`) puts the beginning of each line into a ring buffer, which is read at each look. A flood
//! of lines overfills it; then the later ones of that time are missed, for what is looked for most often comes first.

use std::path::Path;

use aya::maps::{Map, MapData, MapError, RingBuf};
use flightrec_format::abi::probe::LOG_LINE;

/// Most lines that are read at a look.
const LINES_MOST: usize = 4096;

/// The ring buffer.
pub struct KernelLog {
    lines: RingBuf<MapData>,
    wanted: Vec<String>,
}

impl std::fmt::Debug for KernelLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelLog").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl KernelLog {
    /// Opens the ring buffer pinned in `maps` of a recording; what is in it already is passed over.
    pub fn open(path: &Path, wanted: &[String]) -> Result<Self, MapError> {
        let lines = RingBuf::try_from(Map::RingBuf(MapData::from_pin(path)?))?;
        let mut log = Self { lines, wanted: wanted.to_vec() };
        log.each(|_| ());
        Ok(log)
    }

    /// Every line since it was looked last.
    pub fn each(&mut self, mut visit: impl FnMut(&str)) {
        for _ in 0..LINES_MOST {
            let Some(item) = self.lines.next() else { return };
            visit(&line(&item));
        }
    }

    /// What is looked for.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }
}

/// Whether any of these is in a line.
pub fn is_wanted(wanted: &[String], line: &str) -> bool {
    wanted.iter().any(|part| line.contains(part.as_str()))
}

/// A line as text: up to its end, without what no terminal should see.
fn line(item: &[u8]) -> String {
    let bytes = item.get(..item.len().min(LOG_LINE)).unwrap_or_default();
    let bytes = bytes.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_they_end() {
        assert_eq!(line(b"BUG: a\tb\x1bc\nnext\0\0"), "BUG: a b c");
        assert_eq!(line(&[b'x'; 1000]).len(), LOG_LINE);
        assert_eq!(line(b""), "");
        assert_eq!(line(b"\xff\0"), "\u{fffd}");
    }

    #[test]
    fn the_defaults_know_what_kernels_say() {
        let wanted = crate::config::KernelLog::default().lines;
        for bad in [
            "WARNING: CPU: 1 PID: 77 at kernel/fork.c:20 x+0x1/0x2",
            "Oops: 0002 [#1] SMP NOPTI",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "INFO: task dd:77 blocked for more than 122 seconds.",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [x:77]",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
        ] {
            assert!(is_wanted(&wanted, bad), "{bad}");
        }
        for fine in [
            "usb 1-1: new device",
            "traps: x[5] general protection fault ip:1 sp:2 error:0 in x",
            "x (5): drop_caches: 3",
        ] {
            assert!(!is_wanted(&wanted, fine), "{fine}");
        }
    }
}
