//! The whole pass: over anything at all, and the same on several threads as on one.

use flightrec_reader::pipeline::testing::{call, event, switch, text as text_of, waking};
use flightrec_reader::pipeline::{EventContext, Merging, Wants};
use flightrec_reader::source::Collector;
use proptest::prelude::*;

use super::batch::{BATCH, WAITING};
use super::lines::BUFFER;
use super::*;
use crate::filter::FilterPlan;
use crate::json::{self, Aside};
use crate::text::{self, Options};
use flightrec_format::abi::page::{Lane, PAGE_SIZE};
use flightrec_format::abi::record::StringStatus;
use flightrec_format::control::Totals;
use flightrec_format::decode::{Body, Call};
use flightrec_format::encode::{PageWriter, write_header};
use flightrec_format::meta::{Argument, Meta, Syscall};
use flightrec_format::ring::LaneStream;

/// A page with a plausible header and any records.
pub(crate) fn page() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![
        1u8, 2, 3, 0x10, 0x11, 0x20, 0x21, 0x22, 0x23, 0x30, 0x31, 0x32, 0x33, 0x34,
    ]);
    let record = (kinds, 1u8..8, any::<u16>(), 0u32..1000, prop::collection::vec(any::<u64>(), 7));
    let lane = prop::sample::select(Lane::RINGS.to_vec());
    (lane, 0u16..3, 1u64..5, any::<[u64; 2]>(), prop::collection::vec(record, 0..60)).prop_map(
        |(lane, cpu, seq, [base_mono, base_tai], records)| {
            let mut body = Vec::new();
            for (kind, words, aux, upper, rest) in records {
                let head = u64::from(kind)
                    | u64::from(2 * words) << 8
                    | u64::from(aux) << 16
                    | u64::from(upper) << 32;
                body.push(head);
                body.extend(rest.into_iter().take(usize::from(words) - 1));
            }
            let mut header = PageWriter::new(1, lane, cpu, 0).header();
            (header.seq, header.base_mono, header.base_tai) = (seq, base_mono, base_tai);
            header.used = 32 + 2 * body.len() as u32;
            let mut bytes = write_header(&header).to_vec();
            bytes.extend(body.iter().flat_map(|word| word.to_le_bytes()));
            bytes.resize(PAGE_SIZE, 0);
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_pages_come_through(pages in prop::collection::vec(page(), 0..12)) {
        let meta = Meta { session: 1, cpus: vec![0, 1], ..Meta::default() };
        let mut collector = Collector::new(meta.clone());
        for page in &pages {
            collector.add(page).unwrap();
        }
        let recording = collector.finish(Totals::default());
        let decoded: usize = recording.streams.iter().map(|stream| stream.events().count()).sum();
        let filter = FilterPlan::all().resolve(&meta).unwrap();
        let renderer = || text::Renderer::new(&meta, Options::default());
        let alone = one_thread(&recording, renderer().into());
        let all = recording.streams.iter().flat_map(LaneStream::events);
        let beyond = all.filter(|e| e.time == u64::MAX).count();
        let mut out = Vec::new();
        let wall = recording.wall_clock(0);
        let (windows, format) = (Window::ALL.into(), renderer().into());
        let printed = run_on(true, &recording, windows, &filter, wall, format, &mut out).unwrap();
        prop_assert_eq!(printed as usize + beyond, decoded, "every event is printed once");
        prop_assert!(alone == out, "one thread writes the same");
        prop_assert!(out.iter().all(|b| *b == b'\n' || (b' '..=b'~').contains(b)));
    }
}

/// What [`Pass`] writes of a recording.
fn one_thread(recording: &PageSet, renderer: Box<dyn Render>) -> Vec<u8> {
    let filter = FilterPlan::all().resolve(&recording.meta).unwrap();
    let events = Merge::new(recording.streams.iter().map(LaneStream::events));
    let mut out = Vec::new();
    let mut pass = Pass::new(recording, Window::ALL, &filter, recording.wall_clock(0), renderer);
    for event in events.take_while(|event| event.time < u64::MAX) {
        pass.push(event, &mut out).unwrap();
    }
    pass.finish(&mut out).unwrap();
    out
}

/// Calls of two threads on two CPUs, some of which wake the other: `n` rounds. They open files,
/// read them and close them.
fn recording(n: u64) -> PageSet {
    let call_of = |nr, name: &str, first: &str| Syscall {
        nr,
        name: name.into(),
        args: Some(vec![Argument { name: first.into(), ctype: "unsigned int".into() }]),
    };
    let mut open = call_of(OPENAT, "openat", "dfd");
    open.args
        .as_mut()
        .unwrap()
        .push(Argument { name: "filename".into(), ctype: "const char *".into() });
    let native = vec![call_of(READ, "read", "fd"), call_of(CLOSE, "close", "fd"), open];
    let mut collector =
        Collector::new(Meta { session: 1, cpus: vec![0, 1], native, ..Meta::default() });
    for cpu in 0..2u16 {
        let (me, other) = (10 + u32::from(cpu), 11 - u32::from(cpu));
        let mut calls = PageWriter::new(1, Lane::Syscall, cpu, 0);
        let mut sched = PageWriter::new(1, Lane::Sched, cpu, 0);
        for i in 0..n {
            let time = 1000 + i * 1000 + u64::from(cpu) * 7;
            let mut begun = call([OPENAT, READ, CLOSE][(i % 3) as usize]);
            (begun.nargs, begun.args[0]) = (1, 5);
            if begun.nr == OPENAT {
                (begun.nargs, begun.args[0]) = (3, libc::AT_FDCWD as u64);
                begun.strings.push(text_of(1, StringStatus::Whole, &format!("/file/{}", i % 100)));
            }
            let ended = Call { nargs: 0, args: [0; 6], strings: Vec::new(), ..begun.clone() };
            let ret = if begun.nr == OPENAT { 5 } else { 0 };
            calls.push(&event(time, cpu, me, Body::Enter(begun))).unwrap();
            if i % 3 == 0 {
                sched.push(&waking(time + 10, cpu, me, other, 1 - cpu)).unwrap();
                sched.push(&switch(time + 400, cpu, me, 1, me)).unwrap();
            }
            calls
                .push(&event(time + 500, cpu, me, Body::Exit { call: ended, ret, entered: None }))
                .unwrap();
        }
        for page in calls.finish().iter().chain(&sched.finish()) {
            collector.add(page.as_slice()).unwrap();
        }
    }
    collector.finish(Totals::default())
}

/// Numbers of calls.
const READ: u16 = 0;
const CLOSE: u16 = 3;
const OPENAT: u16 = 257;

/// Rounds that make many more batches than can wait.
const MANY: u64 = 2 * (WAITING * BATCH) as u64;
/// Events in a batch.
const ONE: u64 = BATCH as u64;

#[test]
fn two_threads_write_what_one_writes() {
    for n in [0, 1, ONE / 4, ONE / 2 + 1, MANY] {
        let recording = recording(n);
        let meta = &recording.meta;
        let filter = FilterPlan::all().resolve(meta).unwrap();
        // Between events, at one, several at once, before all and after all.
        let times = [0, 1000, 1400, 1_000_123, 1_000_123, 2_000_000, u64::MAX];
        let asides = || times.map(|time| Aside { time, line: format!("gap at {time}\n") });
        for merge in [false, true] {
            let options = Options { merge, ..Options::default() };
            let text = text::Renderer::new(meta, options);
            let json = json::Renderer::new(meta, merge, asides());
            let renderers: [&dyn Fn() -> Box<dyn Render>; 2] =
                [&|| text.clone().into(), &|| json.clone().into()];
            for renderer in renderers {
                let expected = one_thread(&recording, renderer());
                let names = expected.windows(11).filter(|part| part == b"5</file/99>").count();
                assert!(n < MANY || names > 100, "{names} times a descriptor is named");
                let (wall, mut out) = (recording.wall_clock(0), Vec::new());
                let printed = run_on(
                    true,
                    &recording,
                    Window::ALL.into(),
                    &filter,
                    wall,
                    renderer(),
                    &mut out,
                )
                .unwrap();
                assert_eq!(
                    printed,
                    recording.streams.iter().map(|s| s.events().count() as u64).sum::<u64>()
                );
                // Not assert_eq: nobody wants to read megabytes.
                assert!(out == expected, "{n} rounds, merge {merge}: {} bytes", out.len());
            }
        }
    }
}

#[test]
fn two_threads_write_a_window_as_one_does() {
    let recording = recording(MANY);
    let meta = &recording.meta;
    let filter = FilterPlan::all().resolve(meta).unwrap();
    let end = recording.streams.iter().filter_map(LaneStream::last).max().unwrap();
    // In the middle of calls, between them, before all, near the end, after it.
    for from in [0, end / 3, end / 3 + 400, end - 2000, end + 1] {
        let window = Window { from, until: end - end / 4 };
        for merge in [false, true] {
            let renderer = text::Renderer::new(meta, Options { merge, ..Options::default() });
            let written = |on_two| {
                let (wall, mut out) = (recording.wall_clock(0), Vec::new());
                let printed = run_on(
                    on_two,
                    &recording,
                    window.into(),
                    &filter,
                    wall,
                    renderer.clone().into(),
                    &mut out,
                )
                .unwrap();
                (printed, out)
            };
            let alone = written(false);
            let all = recording.streams.iter().flat_map(LaneStream::events);
            assert_eq!(alone.0, all.filter(|event| window.contains(event.time)).count() as u64);
            let two = written(true);
            assert!(alone == two, "from {from}, merge {merge}: {} and {} events", alone.0, two.0);
        }
    }
}

/// A format that is no text, and that remembers what it wrote: times as differences.
#[derive(Clone, Default)]
struct Differences(u64);

impl Render for Differences {
    fn wants(&self) -> Wants {
        Wants { naming: Naming::Off, merging: Merging::Never, traces: false }
    }

    fn expect(&mut self, _start: &mut Start<'_>) {}

    fn event(&mut self, event: &Event, _known: &EventContext<'_>, out: &mut Vec<u8>) {
        out.extend(event.time.wrapping_sub(self.0).to_le_bytes());
        self.0 = event.time;
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(0xff);
    }
}

#[test]
fn a_format_may_be_binary_and_remember() {
    let recording = recording(MANY);
    let filter = FilterPlan::all().resolve(&recording.meta).unwrap();
    let times = Merge::new(recording.streams.iter().map(LaneStream::events)).map(|e| e.time);
    let (mut expected, mut last) = (Vec::new(), 0u64);
    for time in times {
        expected.extend(time.wrapping_sub(last).to_le_bytes());
        last = time;
    }
    expected.push(0xff);
    for on_two in [false, true] {
        let (wall, format) = (recording.wall_clock(0), Differences::default().into());
        let mut out = Vec::new();
        let window = Window::ALL.into();
        run_on(on_two, &recording, window, &filter, wall, format, &mut out).unwrap();
        assert!(out == expected, "on two: {on_two}: {} bytes, not {}", out.len(), expected.len());
    }
}

/// Takes so many bytes, then fails.
struct Full(usize, io::ErrorKind);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 if !bytes.is_empty() => Err(self.1.into()),
            n => {
                self.0 -= n;
                Ok(n)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_fails_ends_both_threads_and_is_told() {
    let recording = recording(MANY);
    let filter = FilterPlan::all().resolve(&recording.meta).unwrap();
    for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::StorageFull] {
        for room in [0, 1, BUFFER, 3 * BUFFER + 5] {
            let renderer = text::Renderer::new(&recording.meta, Options::default());
            let (wall, renderer) = (recording.wall_clock(0), renderer.into());
            let written = run_on(
                true,
                &recording,
                Window::ALL.into(),
                &filter,
                wall,
                renderer,
                &mut Full(room, kind),
            );
            assert_eq!(written.map_err(|e| e.kind()), Err(kind), "room for {room} bytes");
        }
    }
}

/// Renders nothing, and fails at an event.
struct Broken;

impl Render for Broken {
    fn wants(&self) -> Wants {
        Wants { naming: Naming::Off, merging: Merging::Never, traces: false }
    }

    fn expect(&mut self, _start: &mut Start<'_>) {}

    fn event(&mut self, event: &Event, _known: &EventContext<'_>, _out: &mut Vec<u8>) {
        assert!(event.time < 2000, "made to fail");
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}

#[test]
fn a_thread_that_fails_ends_the_other() {
    let recording = recording(MANY);
    let filter = FilterPlan::all().resolve(&recording.meta).unwrap();
    let window: Windows = Window::ALL.into();

    let front = Front::new(&recording, Holes::default());
    let back = || {
        let wall = recording.wall_clock(0);
        Back::new(&recording, window.clone(), &filter, wall, Broken.into())
    };
    let events = || {
        assert!(recording.streams.is_empty(), "made to fail");
        events(&recording, Window::ALL, false)
    };
    let end = End { until: u64::MAX, goes_on: false };
    let failed = pass(true, (front, back), events, end, &mut io::sink()).err().unwrap();
    assert_eq!(failed.to_string(), "a thread of flightctl failed; please report it");

    // The first would wait for room for ever.
    let run = || {
        let wall = recording.wall_clock(0);
        let all = window.clone();
        run_on(true, &recording, all, &filter, wall, Broken.into(), &mut io::sink())
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
}
