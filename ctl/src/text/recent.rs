//! Text that stands in line after line, kept for the threads that were written last.

use flightrec_format::abi::record::Comm;

/// Threads whose text is kept; a power of two.
const KEPT: usize = 64;

/// What the text is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    cpu: u16,
    tid: u32,
    pid: u32,
    comm: Comm,
    length: usize,
}

/// The texts, by thread and CPU; a later one takes the place of an earlier one.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    kept: Vec<Option<(Who, Vec<u8>)>>,
}

impl Recent {
    pub(crate) fn new() -> Self {
        Self { kept: vec![None; KEPT] }
    }

    /// Appends the text of a thread on a CPU: the kept one, or what `make` appends.
    #[inline]
    pub(crate) fn write(
        &mut self,
        (cpu, tid, pid): (u16, u32, u32),
        comm: &[u8],
        out: &mut Vec<u8>,
        make: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut who = Who { cpu, tid, pid, comm: [0; 16], length: comm.len() };
        let (Some(name), Some(slot)) =
            (who.comm.get_mut(..comm.len()), self.kept.get_mut((tid as usize + usize::from(cpu)) % KEPT))
        else {
            return make(out);
        };
        name.copy_from_slice(comm);
        if let Some((_, text)) = slot.as_ref().filter(|(kept, _)| *kept == who) {
            return out.extend_from_slice(text);
        }
        let start = out.len();
        make(out);
        *slot = Some((who, out.get(start..).unwrap_or_default().to_vec()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_its_threads_own() {
        let mut recent = Recent::new();
        let mut made = 0;
        let mut text = |cpu, tid, pid, comm: &[u8]| {
            let mut out = b"x".to_vec();
            recent.write((cpu, tid, pid), comm, &mut out, |out| {
                made += 1;
                out.extend_from_slice(format!("{cpu} {tid} {pid} {comm:?}").as_bytes());
            });
            assert_eq!(out, format!("x{cpu} {tid} {pid} {comm:?}").as_bytes());
        };
        text(1, 2, 3, b"a");
        text(1, 2, 3, b"a");
        text(0, 2 + KEPT as u32, 3, b"a");
        // One that differs in anything is another.
        for (cpu, tid, pid, comm) in [(2, 1, 3, "a"), (1, 2, 4, "a"), (1, 2, 4, "b"), (1, 2, 4, "b\0"), (1, 2, 4, "")] {
            text(cpu, tid, pid, comm.as_bytes());
        }
        text(1, 2, 4, &[b'n'; 17]);
        text(1, 2, 4, &[b'n'; 17]);
        assert_eq!(made, 9, "one was kept");
    }
}
