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
    /// A name, filled up with NUL, as a number.
    comm: u128,
}

/// Most bytes of a text that is kept.
const TEXT: usize = 80;

/// A text, and whose it is.
#[derive(Debug, Clone)]
struct Kept {
    who: Who,
    text: [u8; TEXT],
    length: usize,
}

/// The texts, by thread and CPU; a later one takes the place of an earlier one.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    kept: Vec<Option<Kept>>,
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
        comm: &Comm,
        out: &mut Vec<u8>,
        make: impl FnOnce(&mut Vec<u8>),
    ) {
        let who = Who { cpu, tid, pid, comm: u128::from_le_bytes(*comm) };
        let Some(slot) = self.kept.get_mut((tid as usize + usize::from(cpu)) % KEPT) else {
            return make(out);
        };
        let start = out.len();
        if let Some(kept) = slot.as_ref().filter(|kept| kept.who == who) {
            // A known number of bytes takes no call; what is too much is taken away.
            out.extend_from_slice(&kept.text);
            return out.truncate(start + kept.length);
        }
        make(out);
        let made = out.get(start..).unwrap_or_default();
        let mut text = [0; TEXT];
        *slot = text.get_mut(..made.len()).map(|text| text.copy_from_slice(made)).map(|()| Kept {
            who,
            text,
            length: made.len(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_reader::pipeline::testing::comm;

    #[test]
    fn the_text_is_its_threads_own() {
        let mut recent = Recent::new();
        let mut made = 0;
        let mut text = |cpu, tid, pid, name: &str| {
            let comm = comm(name);
            let mut out = b"x".to_vec();
            recent.write((cpu, tid, pid), &comm, &mut out, |out| {
                made += 1;
                out.extend_from_slice(format!("{cpu} {tid} {pid} {comm:?}").as_bytes());
            });
            assert_eq!(out, format!("x{cpu} {tid} {pid} {comm:?}").as_bytes());
        };
        text(1, 2, 3, "a");
        text(1, 2, 3, "a");
        text(0, 2 + KEPT as u32, 3, "a");
        // One that differs in anything is another.
        for (cpu, tid, pid, comm) in
            [(2, 1, 3, "a"), (1, 2, 4, "a"), (1, 2, 4, "b"), (1, 2, 4, "bb"), (1, 2, 4, "")]
        {
            text(cpu, tid, pid, comm);
        }
        assert_eq!(made, 7, "one was kept");
    }

    #[test]
    fn a_text_that_is_too_long_is_made_each_time() {
        let mut recent = Recent::new();
        let mut made = 0;
        for length in [TEXT, TEXT, TEXT + 1, TEXT + 1, 0, 0] {
            let mut out = b"x".to_vec();
            recent.write((0, 1, length as u32), &comm("a"), &mut out, |out| {
                made += 1;
                out.resize(1 + length, b'y');
            });
            assert_eq!(out.len(), 1 + length);
            assert!(out.iter().skip(1).all(|byte| *byte == b'y'));
        }
        assert_eq!(made, 4);
    }
}
