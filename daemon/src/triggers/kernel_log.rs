//! The lines that the kernel logs, by its own tracepoint (`printk:console`), since a user without
//! rights may not read /dev/kmsg.
//!
//! The program (`probes-ebpf/src/console.rs`) puts the beginning of each line into a ring buffer,
//! which is read at each look. A flood of lines overfills it; then the later ones of that time are
//! missed, for what is looked for most often comes first.

use std::mem::offset_of;
use std::path::Path;

use aya::maps::{Map, MapData, MapError, RingBuf};
use flightrec_format::abi::probe::{LOG_LINE, LogLine, WRITTEN};
use flightrec_format::abi::record::Comm;

use super::quoted::without_names;

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
        log.each(drop);
        Ok(log)
    }

    /// Every line since it was looked last.
    pub fn each(&mut self, mut visit: impl FnMut(Line)) {
        for _ in 0..LINES_MOST {
            let Some(item) = self.lines.next() else { return };
            if let Some(line) = Line::read(&item) {
                visit(line);
            }
        }
    }

    /// What is looked for.
    pub fn wanted(&self) -> &[String] {
        &self.wanted
    }
}

/// A line, and in which thread it was logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The thread; 0: an idle one.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// Its user.
    pub uid: u32,
    /// Whether the thread was writing to /dev/kmsg: it is then its own text.
    pub written: bool,
    /// The thread's name.
    pub comm: String,
    /// The line, on one line.
    pub text: String,
}

impl Line {
    /// An entry of the ring buffer.
    fn read(item: &[u8]) -> Option<Self> {
        let (words, rest) = item.split_at_checked(offset_of!(LogLine, comm))?;
        let (comm, rest) = rest.split_at_checked(size_of::<Comm>())?;
        let (words, _) = words.as_chunks::<4>();
        let [tid, tgid, uid, flags] = words else { return None };
        let [tid, tgid, uid, flags] = [tid, tgid, uid, flags].map(|word| u32::from_le_bytes(*word));
        let (comm, text) = (text(comm), text(rest.get(..LOG_LINE)?));
        Some(Self { tid, tgid, uid, written: flags & WRITTEN != 0, comm, text })
    }

    /// The thread that it is about: the one that it names as hung, else the one that it was logged
    /// in.
    pub fn thread(&self) -> Option<u32> {
        let hung = self
            .text
            .strip_prefix("INFO: task ")
            .and_then(|rest| rest.split_once(" blocked for more than"));
        let named = hung.and_then(|(name, _)| name.rsplit_once(':')?.1.parse().ok());
        named.or(Some(self.tid)).filter(|tid| *tid != 0)
    }
}

/// Whether any of these is in a line of the kernel's own, but for the names that it quotes.
pub fn is_wanted(wanted: &[String], line: &Line) -> bool {
    let has = |text: &str| wanted.iter().any(|part| text.contains(part.as_str()));
    !line.written && has(&line.text) && has(&without_names(line, wanted))
}

/// Bytes as text: up to their end, without what no terminal should see.
fn text(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(comm: &[u8], line: &[u8], flags: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            [77, 70, 1000, flags].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        bytes.extend_from_slice(comm);
        bytes.resize(offset_of!(LogLine, text), 0);
        bytes.extend_from_slice(line);
        bytes.resize(size_of::<LogLine>(), 0);
        bytes
    }

    #[test]
    fn lines_end_where_they_end() {
        let read = |line: &[u8]| Line::read(&entry(b"sh", line, 0)).unwrap().text;
        assert_eq!(read(b"BUG: a\tb\x1bc\nnext\0\0"), "BUG: a b c");
        assert_eq!(read(&[b'x'; LOG_LINE]).len(), LOG_LINE);
        assert_eq!(read(b""), "");
        assert_eq!(read(b"\xff\0"), "\u{fffd}");
        let line = Line::read(&entry(b"a\x1bb", b"x", WRITTEN)).unwrap();
        assert_eq!(
            (line.tid, line.tgid, line.uid, line.written, line.comm.as_str()),
            (77, 70, 1000, true, "a b")
        );
        assert_eq!(Line::read(&[0; 100]), None);
    }

    #[test]
    fn the_thread_that_a_line_is_about() {
        let thread = |tid, text: &str| {
            let comm = "khungtaskd".to_owned();
            Line { tid, tgid: tid, uid: 0, written: false, comm, text: text.into() }.thread()
        };
        assert_eq!(
            thread(30, "INFO: task a: b:4711 blocked for more than 122 seconds."),
            Some(4711)
        );
        assert_eq!(thread(30, "WARNING: CPU: 1 PID: 30 at kernel/fork.c:20"), Some(30));
        assert_eq!(thread(0, "BUG: x"), None);
    }

    #[test]
    fn the_defaults_know_what_kernels_say() {
        let wanted = crate::config::KernelLog::default().lines;
        let wants = |text: &str| {
            let (comm, text) = ("sh".to_owned(), text.to_owned());
            is_wanted(&wanted, &Line { tid: 9, tgid: 9, uid: 0, written: false, comm, text })
        };
        for bad in [
            "WARNING: CPU: 1 PID: 77 at kernel/fork.c:20 x+0x1/0x2",
            "Oops: 0002 [#1] SMP NOPTI",
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "INFO: task dd:77 blocked for more than 122 seconds.",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [x:77]",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
        ] {
            assert!(wants(bad), "{bad}");
        }
        for fine in [
            "usb 1-1: new device",
            "traps: x[5] general protection fault ip:1 sp:2 error:0 in x",
            "x (5): drop_caches: 3",
        ] {
            assert!(!wants(fine), "{fine}");
        }
    }
}
