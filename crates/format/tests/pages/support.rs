//! Events to test with: sequences that a ring could really hold.

use flightrec_format::abi::kinds::{BODY_MAX, IoSubmit, Kind};
use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::sample::{self, UserFrame};
use flightrec_format::abi::record::stack;
use flightrec_format::abi::record::{
    Abi, Exec, Fork, Rename, STRING_HEAD, StringStatus, TaskExit, WakeContext, fold, tracepoint,
};
use flightrec_format::decode::{
    Body, Call, Event, KernelStack, Plain, Sample, Stack, Text, Tracepoint,
};
use proptest::prelude::*;

/// CPU of all events.
pub(crate) const CPU: u16 = 3;

pub(crate) fn call(nr: u16, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call { nr, abi: Abi::Native, nargs: args.len() as u8, args: all, strings: Vec::new() }
}

pub(crate) fn text(index: u8, bytes: &[u8]) -> Text {
    Text { index, status: StringStatus::Whole, bytes: bytes.into() }
}

fn texts() -> impl Strategy<Value = Text> {
    let status = prop_oneof![
        Just(StringStatus::Whole),
        Just(StringStatus::Cut),
        Just(StringStatus::Unreadable)
    ];
    let text = (status, prop::collection::vec(1..=255u8, 0..256));
    // Of one that is cut in the middle there is more than a head.
    let ends = (Just(StringStatus::Ends), prop::collection::vec(1..=255u8, STRING_HEAD + 1..256));
    (0..16u8, prop_oneof![4 => text, 1 => ends]).prop_map(|(index, (status, bytes))| Text {
        index,
        status,
        bytes: bytes.into(),
    })
}

/// Of what is never cut in the middle: marks, acts, and arguments.
fn lines(index: u8) -> impl Strategy<Value = Text> {
    texts().prop_map(move |text| match text.status {
        StringStatus::Ends => Text { index, status: StringStatus::Cut, ..text },
        _ => Text { index, ..text },
    })
}

fn indexed(index: u8) -> impl Strategy<Value = Option<Text>> {
    prop::option::of(texts().prop_map(move |text| Text { index, ..text }))
}

/// Values as arguments have them: small, negative, addresses, anything.
fn values() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..300u64,
        any::<i16>().prop_map(|v| v as u64),
        any::<i32>().prop_map(|v| v as u64),
        0..1u64 << 47,
        any::<u64>()
    ]
}

fn calls() -> impl Strategy<Value = Call> {
    let abi = prop_oneof![4 => Just(Abi::Native), 1 => Just(Abi::Compat), 1 => Just(Abi::X32)];
    let strings = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(texts(), 0..3)];
    (0..0x1000u16, abi, prop::collection::vec(values(), 0..=6), strings)
        .prop_map(|(nr, abi, args, strings)| Call { abi, strings, ..call(nr, &args) })
}

fn tids() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 100..104u32, 1 => 0..1u32 << 22]
}

prop_compose! {
    fn forks()(parent_tid in tids(), parent_tgid in tids(), tid in tids(), tgid in tids(),
               start_time: u64, cgroup: u64, comm: [u8; 16]) -> Fork {
        Fork { parent_tid, parent_tgid, tid, tgid, start_time, cgroup, comm, shares: 0, }
    }
}

prop_compose! {
    fn execs()(tid in tids(), old_tid in tids(), tgid in tids(), args_len: u32, cgroup: u64,
               comm: [u8; 16]) -> Exec {
        Exec { tid, old_tid, tgid, args_len, cgroup, comm }
    }
}

prop_compose! {
    fn exits()(tid in tids(), tgid in tids(), code: u32, start_time: u64,
               comm: [u8; 16]) -> TaskExit {
        TaskExit { tid, tgid, code, left: 0, start_time, comm }
    }
}

/// A call without its time: how long the entry takes to its exit, in units of 16 ns, and whether it
/// folds.
#[derive(Debug, Clone)]
enum Step {
    Event(u32, Body),
    Call { tid: u32, call: Call, ret: i64, ticks: u64 },
}

/// Events of the lane's plain kinds, whatever their fields hold; `None`: it has none.
fn plains(lane: Lane) -> Option<impl Strategy<Value = Step>> {
    let kinds = Kind::ALL.into_iter().filter(|kind| kind.lane() == lane && kind.is_plain());
    let kinds: Vec<Kind> = kinds.collect();
    let plain = |(kind, tid, bytes): (Kind, u32, Vec<u8>)| {
        let plain = Plain::read(kind, &bytes).unwrap();
        Step::Event(plain.thread().unwrap_or(tid), Body::Plain(plain))
    };
    let bytes = prop::collection::vec(any::<u8>(), BODY_MAX);
    let of = |kinds| (prop::sample::select(kinds), tids(), bytes).prop_map(plain);
    (!kinds.is_empty()).then(|| of(kinds))
}

fn steps(lane: Lane) -> BoxedStrategy<Step> {
    match plains(lane) {
        Some(plains) => prop_oneof![6 => own_steps(lane), 1 => plains].boxed(),
        None => own_steps(lane),
    }
}

fn own_steps(lane: Lane) -> BoxedStrategy<Step> {
    let event = |(tid, body)| Step::Event(tid, body);
    match lane {
        Lane::Syscall => prop_oneof![
            (tids(), calls()).prop_map(|(tid, call)| Step::Event(tid, Body::Enter(call))),
            (tids(), calls(), any::<i64>()).prop_map(|(tid, call, ret)| Step::Event(
                tid,
                Body::Exit { call, ret, entered: None }
            )),
            (tids(), calls(), fold::LEAST..=fold::GREATEST, 0..fold::LIMIT_NS / 16)
                .prop_map(|(tid, call, ret, ticks)| Step::Call { tid, call, ret, ticks }),
        ]
        .boxed(),
        Lane::Sched => {
            let switch = (any::<u8>(), any::<u16>(), any::<[bool; 2]>(), tids(), any::<u8>())
                .prop_map(|(prev_prio, prev_state, [preempted, io_wait], next, next_prio)| {
                    Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio }
                });
            let waking = (tids(), any::<(u8, u16, u16, bool, u8)>()).prop_map(
                |(wakee, (prio, state, cpu, new, context))| Body::Waking {
                    wakee,
                    prio,
                    state,
                    cpu,
                    new,
                    context: WakeContext::from_bits(context),
                },
            );
            let migrate = (tids(), any::<u8>(), any::<u16>(), any::<u16>())
                .prop_map(|(thread, prio, from, to)| Body::Migrate { thread, prio, from, to });
            let stack = (any::<(u64, u16, bool)>(), prop::collection::vec(any::<u32>(), 0..33))
                .prop_map(|((slept, status, cut), frames)| {
                    let slept = (slept % 3 != 0).then_some(slept);
                    let status = stack::Status::of(status % 3);
                    Body::Stack(Stack { slept, status, cut, frames: frames.into() })
                });
            (tids(), prop_oneof![switch, waking, migrate, stack]).prop_map(event).boxed()
        }
        Lane::Kernel => {
            let kernel = prop::collection::vec(any::<u32>(), 0..=sample::FRAMES_MAX);
            let user = any::<u64>().prop_map(UserFrame::unpack);
            let user = prop::collection::vec(user, 0..=sample::FRAMES_MAX);
            let sample = |((user_mode, kernel_cut, user_cut, status), kernel, user): (
                (bool, bool, bool, u16),
                Vec<u32>,
                Vec<UserFrame>,
            )| {
                let status = stack::Status::of(status % 3);
                let (kernel, user) = (kernel.into(), user.into());
                Body::Sample(Sample { user_mode, status, kernel_cut, user_cut, kernel, user })
            };
            let rings = (any::<[u32; 6]>(), any::<u64>(), indexed(0)).prop_map(
                |([ring, operation, op, fd, flags, submitter], user_data, path)| Body::IoSubmit {
                    submit: IoSubmit {
                        ring,
                        operation,
                        user_data,
                        op,
                        fd: fd as i32,
                        flags,
                        submitter,
                    },
                    paths: path.into_iter().collect(),
                },
            );
            let samples = (any::<(bool, bool, bool, u16)>(), kernel, user).prop_map(sample);
            (tids(), prop_oneof![samples, rings, tracepoints()]).prop_map(event).boxed()
        }
        _ => prop_oneof![
            forks().prop_map(|f| (f.parent_tid, Body::Fork(f))),
            (execs(), indexed(0), prop::option::of(lines(1)))
                .prop_map(|(exec, file, args)| (exec.tid, Body::Exec { exec, file, args })),
            (tids(), tids(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(
                |(tid, tgid, old, new)| (tid, Body::Rename(Rename { tid, tgid, old, new }))
            ),
            exits().prop_map(|e| (e.tid, Body::TaskExit(e))),
            (tids(), lines(0)).prop_map(|(tid, t)| (tid, Body::Mark(t))),
            (tids(), any::<u16>(), lines(0)).prop_map(|(tid, act, t)| (tid, Body::Act(act, t))),
        ]
        .prop_map(event)
        .boxed(),
    }
}

fn tracepoints() -> impl Strategy<Value = Body> {
    let frames = prop::collection::vec(any::<u32>(), 0..=tracepoint::FRAMES_MAX);
    let stack = (any::<(u16, bool)>(), frames).prop_map(|((status, cut), frames)| KernelStack {
        status: stack::Status::of(status % 3),
        cut,
        frames: frames.into(),
    });
    let bytes = prop::collection::vec(any::<u8>(), 0..=tracepoint::BYTES_MAX);
    (any::<(u16, u8, bool)>(), bytes, prop::option::of(stack)).prop_map(
        |((id, context, cut), bytes, stack)| {
            let context = WakeContext::from_bits(context);
            Body::Tracepoint(Tracepoint { id, context, bytes: bytes.into(), cut, stack })
        },
    )
}

/// Events of one lane in the order of time. Exits that ask to be folded can be, as far as the
/// page allows.
pub(crate) fn events(lane: Lane, count: usize) -> impl Strategy<Value = Vec<Event>> {
    let gaps = prop_oneof![20 => 0..5_000u64, 1 => 0..20_000_000_000u64];
    (0..1u64 << 40, prop::collection::vec((gaps, steps(lane)), 0..count)).prop_map(
        |(start, steps)| {
            let mut time = start;
            let mut out = Vec::new();
            for (gap, step) in steps {
                time += gap;
                match step {
                    Step::Event(tid, body) => out.push(Event { time, cpu: CPU, tid, body }),
                    Step::Call { tid, call: entry, ret, ticks } => {
                        let exit = Call { abi: entry.abi, ..call(entry.nr, &[]) };
                        out.push(Event { time, cpu: CPU, tid, body: Body::Enter(entry) });
                        let entered = Some(time);
                        time += ticks * 16;
                        out.push(Event {
                            time,
                            cpu: CPU,
                            tid,
                            body: Body::Exit { call: exit, ret, entered },
                        });
                    }
                }
            }
            out
        },
    )
}

/// Any ring lane.
pub(crate) fn lanes() -> impl Strategy<Value = Lane> {
    prop::sample::select(Lane::RINGS.to_vec())
}
