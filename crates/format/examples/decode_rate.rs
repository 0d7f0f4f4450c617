//! How fast pages decode: events a second, by lane, the best and the median of several rounds.
//! `cargo run --release -p flightrec-format --example decode_rate`

use std::hint::black_box;
use std::time::Instant;

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::{Abi, StringStatus, WakeContext};
use flightrec_format::decode::{Body, Call, Event, Page, Text};
use flightrec_format::encode::{EncodeError, PageWriter};

const EVENTS: u64 = 2_000_000;
const ROUNDS: usize = 9;

fn call(nr: u16, args: &[u64], strings: Vec<Text>) -> Call {
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(args) {
        *to = *from;
    }
    Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: all, strings }
}

/// Calls of three arguments with their exits folded in; one in twenty opens a path.
fn syscalls(writer: &mut PageWriter) -> Result<(), EncodeError> {
    for i in 0..EVENTS / 2 {
        let (time, tid) = (i * 700, 1000 + (i / 64 % 5) as u32);
        let entry = if i % 20 == 0 {
            let path = Text {
                index: 1,
                status: StringStatus::Whole,
                bytes: b"/usr/lib/x86_64/libc.so.6"[..].into(),
            };
            call(257, &[-100i64 as u64, 0x7fff_1234_5678, 0x8_0000, 0], vec![path])
        } else {
            call(1, &[1, 0x5555_6666_7777, i % 5000], Vec::new())
        };
        let exit =
            Body::Exit { call: call(entry.nr, &[], Vec::new()), ret: 3, entered: Some(time) };
        writer.push(&Event { time, cpu: 0, tid, body: Body::Enter(entry) })?;
        writer.push(&Event { time: time + 300, cpu: 0, tid, body: exit })?;
    }
    Ok(())
}

/// Wakeups and switches by turns.
fn scheduling(writer: &mut PageWriter) -> Result<(), EncodeError> {
    for i in 0..EVENTS / 2 {
        let (tid, next) = if i % 2 == 0 { (7, 8) } else { (8, 7) };
        let waking = Body::Waking {
            wakee: next,
            prio: 120,
            state: 1,
            cpu: 0,
            new: false,
            context: WakeContext::Thread,
        };
        let switch = Body::Switch {
            prev_prio: 120,
            prev_state: 1,
            preempted: false,
            io_wait: false,
            next,
            next_prio: 120,
        };
        writer.push(&Event { time: i * 2000, cpu: 0, tid, body: waking })?;
        writer.push(&Event { time: i * 2000 + 500, cpu: 0, tid, body: switch })?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    type Fill = fn(&mut PageWriter) -> Result<(), EncodeError>;
    for (lane, fill) in [(Lane::Syscall, syscalls as Fill), (Lane::Sched, scheduling)] {
        let mut writer = PageWriter::new(1, lane, 0, 0);
        fill(&mut writer)?;
        let pages = writer.finish().into_iter().map(Page::new).collect::<Result<Vec<_>, _>>()?;
        let mut rates: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let start = Instant::now();
                let events = pages.iter().flat_map(Page::events).map(black_box).count();
                events as f64 / start.elapsed().as_secs_f64() / 1e6
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let (median, best) = (rates.get(ROUNDS / 2).unwrap_or(&0.0), rates.last().unwrap_or(&0.0));
        let bytes = pages.len() as f64 * 4096.0 / EVENTS as f64;
        println!(
            "{}: {median:.1} M events/s median, {best:.1} best; {bytes:.1} bytes an event",
            lane.name()
        );
    }
    Ok(())
}
