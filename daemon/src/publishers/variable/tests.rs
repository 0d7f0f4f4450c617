//! Files as the dynamic linker lays them out, and odd ones.

use flightrec_format::architecture::Architecture;
use proptest::prelude::*;

use super::layout::{AARCH64, X86_64};
use super::*;

const BASE: u64 = 0x7000_0000;
const SIZE: usize = 0x1000;
const VALUE: u64 = 0x10;
const SLOT: usize = 0x700;

/// A file of a page, mapped at [`BASE`].
#[derive(Clone)]
struct Page(Vec<u8>);

impl Memory for Page {
    fn read(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let at = usize::try_from(address.checked_sub(BASE)?).ok()?;
        self.0.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
    }
}

impl Page {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn words(&mut self, at: usize, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            self.put(at + 8 * i, &word.to_le_bytes());
        }
    }

    /// Of a machine, with a relocation of this kind; `program`: no library. `is_gnu`: which
    /// table of hashes.
    fn new(layout: &Layout, kind: u32, program: bool, is_gnu: bool) -> Self {
        let mut page = Self(vec![0; SIZE]);
        page.put(0, &IDENT);
        page.put(16, &[3, 0]);
        page.put(18, &layout.machine.elf_machine().to_le_bytes());
        page.words(32, &[64]);
        page.put(54, &[56, 0, 3, 0]);
        for (i, (kind, address, size)) in
            [(LOAD, 0, SIZE as u64), (TLS, 0x804, 0x18), (DYNAMIC, 0x300, 0x100)]
                .into_iter()
                .enumerate()
        {
            let at = 64 + i * SEGMENT;
            page.put(at, &kind.to_le_bytes());
            page.words(at + 8, &[address, address, address, size, size, 8]);
        }
        // Symbols, names, hashes, relocations, flags. One address as glibc leaves it.
        let table = if is_gnu { 0x6fff_fef5 } else { 4 };
        let flags = if program { PIE } else { 0 };
        let dynamic =
            [6, 0x400, 5, BASE + 0x480, table, 0x500, 7, 0x600, 8, 24, 0x6fff_fffb, flags];
        page.words(0x300, &dynamic);
        page.put(0x400 + SYMBOL_ENTRY, &[1, 0, 0, 0, TLS_SYMBOL | 0x10, 0, 5, 0]);
        page.words(0x400 + SYMBOL_ENTRY + 8, &[VALUE, 8]);
        page.put(0x481, SYMBOL.as_bytes());
        let hash = SYMBOL
            .bytes()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let hashes: &[u32] =
            if is_gnu { &[1, 1, 1, 0, 0, 0, 1, hash | 1] } else { &[1, 2, 1, 0, 0] };
        for (i, word) in hashes.iter().enumerate() {
            page.put(0x500 + 4 * i, &word.to_le_bytes());
        }
        page.words(0x600, &[SLOT as u64, 1 << 32 | u64::from(kind), 0]);
        page
    }

    fn slot(&self, layout: &'static Layout) -> Slot {
        match look_up(self, layout, BASE) {
            Some(Defined::Library(slot)) => slot,
            other => panic!("{other:?}"),
        }
    }

    /// What the dynamic linker has written.
    fn resolved(&mut self, layout: &'static Layout, pair: [u64; 2]) -> Option<Variable> {
        self.words(SLOT, &pair);
        resolve(self, layout, BASE, &self.slot(layout))
    }
}

#[test]
fn a_variable_of_the_program() {
    // 0x18 bytes from 0x804 on, aligned to 8: moved by 4, the one way or the other.
    for (layout, offset) in [(&X86_64, 0x10 - 0x18 - 4), (&AARCH64, 0x10 + 16 + 4)] {
        for is_gnu in [true, false] {
            let page = Page::new(layout, layout.descriptor, true, is_gnu);
            let variable = Variable { module: 0, offset };
            assert_eq!(look_up(&page, layout, BASE), Some(Defined::Program(variable)));
        }
    }
    assert_eq!(AARCH64.program((0x1000, 0x20, 64)), 64);
    assert_eq!(AARCH64.program((0x1000, 0x20, 0)), 16);
    assert_eq!(X86_64.program((0x1000, 0x20, 64)) as i64, -64);
}

#[test]
fn a_variable_of_a_library() {
    let fixed = |offset: i64| Some(Variable { module: 0, offset });
    let dynamic = Some(Variable { module: 3, offset: VALUE as i64 });
    for (layout, near, wrong) in [(&X86_64, -64, 8), (&AARCH64, 64, -8_i64)] {
        let new = |kind, is_gnu| Page::new(layout, kind, false, is_gnu);
        let mut page = new(layout.descriptor, true);
        assert_eq!(page.resolved(layout, [0, 0]), None, "not yet");
        assert_eq!(page.resolved(layout, [5, near as u64]), fixed(near));
        assert_eq!(page.resolved(layout, [5, wrong as u64]), None, "the wrong side");
        page.words(0x780, &[3, VALUE]);
        assert_eq!(page.resolved(layout, [5, BASE + 0x780]), dynamic);
        page.words(0x780, &[3, VALUE + 1]);
        assert_eq!(page.resolved(layout, [5, BASE + 0x780]), None, "another variable");
        let mut page = new(layout.fixed, false);
        assert_eq!(page.resolved(layout, [near as u64, 0]), fixed(near));
        assert_eq!(page.resolved(layout, [0, 0]), None);
        let mut page = new(layout.index, true);
        assert_eq!(page.resolved(layout, [3, VALUE]), dynamic);
        assert_eq!(page.resolved(layout, [0, VALUE]), None);
        let other = new(5, true);
        assert_eq!(look_up(&other, layout, BASE), Some(Defined::No));
    }
}

#[test]
fn files_that_have_none() {
    let mut page = Page::new(&X86_64, X86_64.descriptor, false, true);
    assert_eq!(look_up(&page, &AARCH64, BASE), Some(Defined::No), "another machine's");
    page.put(0x481, b"O");
    assert_eq!(look_up(&page, &X86_64, BASE), Some(Defined::No));
    page.put(0, b"#!/b");
    assert_eq!(look_up(&page, &X86_64, BASE), Some(Defined::No));
    assert_eq!(look_up(&page, &X86_64, BASE + 1), Some(Defined::No));
    assert_eq!(look_up(&page, &X86_64, 0), None, "no memory");
}

proptest! {
    #[test]
    fn no_file_is_too_odd(
        changes in prop::collection::vec((0..0x800_usize, any::<u8>()), 1..8),
        machine in prop::sample::select(vec![Architecture::X86_64, Architecture::Aarch64]),
        form in 0..3,
        program: bool,
        is_gnu: bool,
    ) {
        let layout = Layout::of(machine);
        let kind = match form {
            0 => layout.descriptor,
            1 => layout.fixed,
            _ => layout.index,
        };
        let mut page = Page::new(layout, kind, program, is_gnu);
        for (at, byte) in changes {
            page.0[at] = byte;
        }
        if let Some(Defined::Library(slot)) = look_up(&page, layout, BASE) {
            let _ = resolve(&page, layout, BASE, &slot);
        }
    }
}
