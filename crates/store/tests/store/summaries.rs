//! A block's summary denies nothing that the block holds, whatever became of its file.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use flightrec_format::abi::kinds::Unit;
use flightrec_format::abi::record::StringStatus;
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::PageWriter;
use flightrec_store::block::PAGES_MAX;
use flightrec_store::summary::{self, BlockSummary, CallSummary, Missing};
use flightrec_store::{Damage, FileReader, FileWriter, Kind, What};
use proptest::prelude::*;

use crate::events::{CPU, events, lanes};
use crate::support::{SESSION, header, small};

fn written(path: &Path, blocks: &[Vec<Page>]) {
    let mut writer = FileWriter::new(fs::File::create(path).unwrap(), &header(), 1).unwrap();
    for pages in blocks {
        writer.pages(pages).unwrap();
    }
    writer.finish().unwrap();
}

/// The ids of threads and processes that an event has.
fn ids(event: &Event) -> Vec<u32> {
    let mut ids = vec![event.tid];
    match &event.body {
        Body::Switch { next, .. } => ids.push(*next),
        Body::Waking { wakee, .. } => ids.push(*wakee),
        Body::Migrate { thread, .. } => ids.push(*thread),
        Body::Fork(of) => ids.extend([of.parent_tid, of.parent_tgid, of.tid, of.tgid]),
        Body::Exec { exec, .. } => ids.extend([exec.tid, exec.old_tid, exec.tgid]),
        Body::Rename(of) => ids.extend([of.tid, of.tgid]),
        Body::TaskExit(of) => ids.extend([of.tid, of.tgid]),
        Body::Plain(of) => ids.extend(of.ids(Unit::Thread).chain(of.ids(Unit::Process))),
        _ => {}
    }
    ids
}

/// Holds the summary of a block of pages, which no recording describes, against their events.
/// `began`: by thread, when its call began that has no end before the block.
fn denies_nothing(entry: &BlockSummary, events: &[Event], began: &mut HashMap<u32, u64>) {
    let call = |call: &Call| {
        let key = (call.abi as u8, call.nr);
        entry.calls.iter().find(|of| of.call == key).expect("its call")
    };
    let mut last: HashMap<u16, (u64, bool)> = HashMap::new();
    let mut ends: HashMap<(u8, u16), u32> = HashMap::new();
    let mut alone = Vec::new();
    for (n, event) in events.iter().enumerate() {
        if let Body::Enter(call) | Body::Exit { call, .. } = &event.body {
            call.strings.iter().filter(|text| text.is_string()).for_each(|text| {
                let may_have = |name| entry.components.may_have(summary::hash(name));
                match text.status {
                    StringStatus::Whole => assert!(summary::names(&text.bytes).all(may_have)),
                    StringStatus::Cut | StringStatus::Ends => assert!(entry.components.vague),
                    StringStatus::Unreadable => {}
                }
            });
        }
        assert_ne!(entry.kinds >> (event.body.kind() as u8 & 0xf) & 1, 0);
        let ids = ids(event);
        assert!(ids.iter().all(|tid| entry.has_thread(*tid)), "{event:?}");
        assert!(ids.iter().all(|tid| entry.has_any_thread(&[*tid])));
        match &event.body {
            Body::Enter(of) => {
                let (known, lacks) = (call(of).missing, Missing::of(of));
                assert_eq!(known.arguments & lacks.arguments, lacks.arguments, "{event:?}");
                // What could not be read the end may have.
                let unreadable = |text: &Text| text.status == StringStatus::Unreadable;
                if !of.strings.iter().any(unreadable) {
                    assert_eq!(known.strings & lacks.strings, lacks.strings, "{event:?}");
                }
                let ends = |next: &Event| match next.body {
                    Body::Exit { entered, .. } => {
                        next.tid == event.tid && entered == Some(event.time)
                    }
                    _ => false,
                };
                if !events.get(n + 1).is_some_and(ends) {
                    alone.push((event.time, event.tid, None));
                }
            }
            Body::Exit { call: of, ret, entered } => {
                let (of, lacks) = (call(of), Missing::of(of));
                *ends.entry(of.call).or_default() += 1;
                let failed = of.errors.contains(&(ret.wrapping_neg() as u16));
                assert!(!(-4095..0).contains(ret) || failed, "{event:?}");
                match entered.map(|entered| event.time.saturating_sub(entered)) {
                    Some(took) => assert!(of.longest.is_none_or(|longest| took <= longest)),
                    None => alone.push((event.time, event.tid, Some((of, lacks)))),
                }
            }
            Body::Switch { next, .. } => {
                let cpu = entry.cpus.iter().find(|of| of.cpu == event.cpu).expect("its CPU");
                assert!(cpu.idles || *next != 0);
                let last = last.entry(event.cpu).or_insert((event.time, *next == 0));
                if last.0 <= event.time {
                    *last = (event.time, *next == 0);
                }
            }
            _ => {}
        }
    }
    alone.sort_by_key(|(time, ..)| *time);
    for (time, tid, end) in alone {
        let Some((of, lacks)) = end else {
            began.insert(tid, time);
            continue;
        };
        let took = began.remove(&tid).filter(|began| *began <= time).map(|began| time - began);
        let of: &CallSummary = of;
        assert!(of.longest.is_none_or(|longest| took.is_some_and(|took| took <= longest)));
        if took.is_none() {
            let unbegun = of.unbegun.expect("an end without its beginning");
            let Missing { strings, arguments } = lacks;
            let known = (unbegun.strings & strings, unbegun.arguments & arguments);
            assert_eq!(known, (strings, arguments));
        }
    }
    assert!(entry.calls.iter().all(|of| of.ended == ends.remove(&of.call).unwrap_or(0)));
    for (cpu, (_, idle)) in last {
        assert_eq!(entry.cpus.iter().find(|of| of.cpu == cpu).unwrap().ends_idle, idle);
    }
}

/// Whatever pages of a lane are, the summary of a block of them, if there is one, denies nothing.
pub(crate) fn of_any_pages_denies_nothing(pages: &[Page]) {
    let is_block = pages.iter().all(|page| page.lane() == pages[0].lane());
    if !is_block || pages.is_empty() || pages.len() > PAGES_MAX {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.flight");
    written(&path, &[pages.to_vec()]);
    let reader = FileReader::open(&path).unwrap();
    let block = reader.of(Kind::Pages).next().unwrap();
    let events: Vec<Event> = pages.iter().flat_map(|page| page.events()).collect();
    if let Some(summary) = reader.summary(block) {
        denies_nothing(&summary, &events, &mut HashMap::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_block_is_said_to_lack_what_it_holds(
        blocks in prop::collection::vec(
            lanes().prop_flat_map(|lane| (Just(lane), events(lane, 60))),
            1..5,
        ),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.flight");
        let blocks: Vec<Vec<Page>> = blocks
            .iter()
            .map(|(lane, events)| {
                let mut ring = PageWriter::new(SESSION, *lane, CPU, 37_000_000_000);
                for event in events {
                    ring.push(event).unwrap();
                }
                ring.finish().into_iter().map(|page| Page::new(page).unwrap()).collect()
            })
            .collect();
        written(&path, &blocks);
        let reader = FileReader::open(&path).unwrap();
        let mut began = HashMap::new();
        for block in reader.of(Kind::Pages) {
            let pages = reader.pages(block).unwrap();
            let events: Vec<Event> = pages.iter().flat_map(|(page, _)| page.events()).collect();
            let summary = reader.summary(block).expect("a summary");
            denies_nothing(&summary, &events, &mut began);
        }
    }
}

#[test]
fn a_block_that_is_cut_in_its_summary_is_read_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = small(dir.path());
    let bytes = fs::read(&path).unwrap();
    let whole = FileReader::open(&path).unwrap();
    let last = *whole.of(Kind::Pages).next_back().expect("a block");
    let pages = whole.pages(&last).unwrap();
    assert!(whole.summary(&last).is_some());
    let cut = dir.path().join("cut.flight");
    for end in [last.summary(), last.summary() + 1, last.end() - 1] {
        fs::write(&cut, &bytes[..end as usize]).unwrap();
        let reader = FileReader::open(&cut).unwrap();
        let block = *reader.of(Kind::Pages).next_back().expect("the block");
        assert_eq!((block.offset, reader.summary(&block)), (last.offset, None));
        assert_eq!(reader.pages(&block).unwrap().len(), pages.len());
        let [Damage { offset, what: What::Cut, .. }] = reader.damage() else {
            panic!("{:?}", reader.damage())
        };
        assert_eq!(*offset, last.summary());
    }
}
