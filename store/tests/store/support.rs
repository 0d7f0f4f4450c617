//! Small recordings to write and read.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Abi;
use flightrec_format::decode::{Body, Call, Event, Page};
use flightrec_format::encode::PageWriter;
use flightrec_format::meta::Meta;

pub(crate) const SESSION: u64 = 0x5e55_1011;
pub(crate) const BOOT: [u8; 16] = *b"0123456789abcdef";

/// A ring of system calls on a CPU.
pub(crate) fn ring(cpu: u16) -> PageWriter {
    PageWriter::new(SESSION, Lane::Syscall, cpu, 37_000_000_000)
}

/// An entry that nothing folds into.
pub(crate) fn enter(time: u64, tid: u32, arg: u64) -> Event {
    let call = Call { nr: 1, abi: Abi::Native, nargs: 2, args: [1, arg, 0, 0, 0, 0], strings: Vec::new() };
    Event { time, cpu: 0, tid, body: Body::Enter(call) }
}

/// The ring's pages that are full, and the open one.
pub(crate) fn pages(writer: &PageWriter, closed: Vec<Box<[u8; 4096]>>) -> Vec<Page> {
    closed.into_iter().chain(writer.current()).map(|page| Page::new(page).unwrap()).collect()
}

pub(crate) fn meta() -> Meta {
    Meta { session: SESSION, host: "testhost".into(), started: 50, cpus: vec![0, 1], ..Meta::default() }
}
