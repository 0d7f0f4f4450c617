//! What a process without rights puts into the memory of a machine that is to panic: pages that
//! look like a recording's.
//!
//! It runs in the virtual machine (`guest.sh`), as this program. The copies of the real pages are
//! taken as root, which is more than an attacker has; then it becomes nobody, and maps them: of a
//! session whose secret is its own, which says that it began a nanosecond after the real one and
//! was heard of later, and of one whose secret is the real one's public id.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flightrec_format::abi::page::{Lane, MAGIC, PAGE_SIZE};
use flightrec_format::identity::public_id;
use flightrec_format::live::{Generation, LiveRings};
use flightrec_format::meta::{self, Meta};
use nix::unistd::{Gid, Uid, geteuid, setgid, setgroups, setuid};

/// A secret of its own.
const SECRET: u64 = 0x666f_7267_6564_2121;
/// What the marks of `guest.sh` say, and what they say in the copies.
pub(super) const REAL: &str = "mark ";
pub(super) const FORGED: &str = "fake ";
/// By how much later the copies were recorded, as they say, ns.
const LATER: u64 = 10_000_000_000;
const NOBODY: u32 = 65534;

type Page = [u8; PAGE_SIZE];

/// Maps the pages, says so on one line, and stays.
pub(crate) fn run(bpffs: &Path) -> Result<()> {
    let recording = LiveRings::open(&Generation::find(bpffs)?, false)?;
    let real = recording.meta()?;
    let rings = rings(&recording);
    ensure!(rings.len() > 100, "{} pages in the rings", rings.len());
    drop(recording);
    setgroups(&[])?;
    setgid(Gid::from_raw(NOBODY))?;
    setuid(Uid::from_raw(NOBODY))?;
    ensure!(geteuid().as_raw() == NOBODY, "still user {}", geteuid());

    let mut pages = Vec::new();
    for secret in [SECRET, real.session] {
        pages.extend(session(&real, secret, &rings)?);
    }
    let memory = aligned(&pages);
    let forged = public_id(SECRET);
    println!(
        "real {:016x} forged {forged:016x} pages {} kept {}",
        real.session,
        pages.len(),
        memory.len()
    );
    drop((pages, rings));
    loop {
        thread::sleep(Duration::from_secs(1000));
        // What is mapped stays in use.
        std::hint::black_box(&memory);
    }
}

/// Copies of all pages of all rings.
fn rings(recording: &LiveRings) -> Vec<Page> {
    let mut found = Vec::new();
    for cpu in recording.cpus() {
        for lane in Lane::RINGS {
            found.extend(recording.pages(lane, cpu, 0, u64::MAX));
        }
    }
    found
}

/// A recording that says this secret, in memory.
fn session(real: &Meta, secret: u64, rings: &[Page]) -> Result<Vec<Page>> {
    let described = Meta { session: public_id(secret), started: real.started + 1, ..real.clone() };
    // A recording begins with two generations of its description.
    let mut pages = meta::pack(&described, 1, meta::HALF_PAGES)?;
    pages.extend(meta::pack(&described, 2, meta::HALF_PAGES)?);
    for page in rings {
        let mut page = *page;
        for at in [32, 40] {
            let base: &mut [u8; 8] =
                page.get_mut(at..at + 8).and_then(|base| base.try_into().ok()).context("a base")?;
            *base = u64::from_le_bytes(*base).wrapping_add(LATER).to_le_bytes();
        }
        replace(&mut page, REAL.as_bytes(), FORGED.as_bytes());
        pages.push(page);
    }
    for page in &mut pages {
        let head = (u128::from(MAGIC) | u128::from(secret) << 64).to_le_bytes();
        *page.first_chunk_mut().context("a head")? = head;
    }
    Ok(pages)
}

fn replace(page: &mut Page, from: &[u8], to: &[u8]) {
    let found: Vec<usize> = (0..page.len())
        .filter(|at| page.get(*at..).is_some_and(|rest| rest.starts_with(from)))
        .collect();
    for at in found {
        if let Some(place) = page.get_mut(at..at + to.len()) {
            place.copy_from_slice(to);
        }
    }
}

/// The pages at multiples of a page's size, somewhere in what is returned.
fn aligned(pages: &[Page]) -> Vec<u8> {
    let mut memory = vec![1u8; (pages.len() + 1) * PAGE_SIZE];
    let begin = memory.as_ptr().align_offset(PAGE_SIZE);
    for (place, page) in
        memory.get_mut(begin..).unwrap_or_default().chunks_exact_mut(PAGE_SIZE).zip(pages)
    {
        place.copy_from_slice(page);
    }
    memory
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::page::COPY_MAGIC;

    use super::*;

    #[test]
    fn a_forged_page_is_a_real_one_with_another_secret_and_other_words() {
        let mut real = [0; PAGE_SIZE];
        real[..8].copy_from_slice(&COPY_MAGIC.to_le_bytes());
        real[500..511].copy_from_slice(b"mark 1mark ");
        let meta = Meta { session: public_id(5), started: 7, ..Meta::default() };
        let pages = session(&meta, 6, &[real]).unwrap();
        assert!(pages.len() >= 3);
        assert!(
            pages
                .iter()
                .all(|page| page[..8] == MAGIC.to_le_bytes() && page[8..16] == 6u64.to_le_bytes())
        );
        let last = pages.last().unwrap();
        assert_eq!(&last[500..511], b"fake 1fake ");
        assert_eq!(last[32..40], LATER.to_le_bytes());
        let memory = aligned(&pages);
        let begin = memory.as_ptr().align_offset(PAGE_SIZE);
        assert_eq!(memory[begin..begin + PAGE_SIZE], pages[0]);
    }
}
