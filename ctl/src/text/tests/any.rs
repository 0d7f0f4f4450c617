use flightrec_format::abi::kinds::{BODY_MAX, IoSubmit, Kind};
use flightrec_format::abi::record::sample::UserFrame;
use flightrec_format::abi::record::stack::Status;
use flightrec_format::abi::record::{Exec, Fork, Rename, TaskExit, WakeContext};
use flightrec_format::decode::{Plain, Sample, Stack, Tracepoint};
use proptest::prelude::*;

use super::super::Wake;
use super::*;

fn text() -> impl Strategy<Value = Text> {
    let status = prop_oneof![
        Just(StringStatus::Whole),
        Just(StringStatus::Cut),
        Just(StringStatus::Unreadable)
    ];
    (any::<u8>(), status, prop::collection::vec(any::<u8>(), 0..40))
        .prop_map(|(index, status, bytes)| Text { index: index % 8, status, bytes: bytes.into() })
}

fn calls() -> impl Strategy<Value = Call> {
    let abi = prop_oneof![Just(Abi::Native), Just(Abi::Compat), Just(Abi::X32)];
    let nr = prop_oneof![0u16..450, any::<u16>()];
    let arg =
        prop_oneof![Just(0u64), 0u64..70_000, any::<u64>(), any::<i32>().prop_map(|v| v as u64)];
    (nr, abi, any::<u8>(), prop::array::uniform6(arg), prop::collection::vec(text(), 0..4))
        .prop_map(|(nr, abi, nargs, args, strings)| Call {
            nr,
            abi,
            nargs: nargs % 9,
            args,
            strings,
        })
}

prop_compose! {
    fn exec()(tid: u32, old_tid: u32, args_len in 0u32..60, cgroup: u64, comm: [u8; 16]) -> Exec {
        Exec { tid, old_tid, tgid: tid, args_len, cgroup, comm }
    }
}

fn bodies() -> impl Strategy<Value = Body> {
    prop_oneof![
        calls().prop_map(Body::Enter),
        (calls(), any::<i64>(), any::<Option<u64>>()).prop_map(|(call, ret, entered)| Body::Exit {
            call,
            ret,
            entered
        }),
        (any::<(u8, u16, bool, bool, u32, u8)>()).prop_map(
            |(prev_prio, prev_state, preempted, io_wait, next, next_prio)| {
                Body::Switch { prev_prio, prev_state, preempted, io_wait, next, next_prio }
            }
        ),
        (any::<(u32, u8, u16, u16, bool, u8)>()).prop_map(
            |(wakee, prio, state, cpu, new, context)| {
                let context = WakeContext::from_bits(context);
                Body::Waking { wakee, prio, state, cpu, new, context }
            }
        ),
        (any::<(u32, u8, u16, u16)>()).prop_map(|(thread, prio, from, to)| Body::Migrate {
            thread,
            prio,
            from,
            to
        }),
        (any::<(u64, u16, bool)>(), prop::collection::vec(any::<u32>(), 0..33)).prop_map(
            |((slept, status, cut), frames)| Body::Stack(Stack {
                slept: (slept != 0).then_some(slept),
                status: Status::of(status),
                cut,
                frames: frames.into()
            })
        ),
        (
            any::<(bool, u16, bool, bool)>(),
            prop::collection::vec(any::<u32>(), 0..33),
            prop::collection::vec((0u16..3, any::<u64>()), 0..33)
        )
            .prop_map(|((user_mode, status, kernel_cut, user_cut), kernel, user)| {
                let user = user.into_iter().map(|(binary, at)| UserFrame { binary, at }).collect();
                let (status, kernel) = (Status::of(status), kernel.into());
                Body::Sample(Sample { user_mode, status, kernel_cut, user_cut, kernel, user })
            }),
        (any::<([u32; 6], u64)>(), prop::collection::vec(text(), 0..3)).prop_map(
            |(([ring, operation, op, fd, flags, submitter], user_data), paths)| Body::IoSubmit {
                submit: IoSubmit {
                    ring,
                    operation,
                    user_data,
                    op: op % 80,
                    fd: fd as i32,
                    flags,
                    submitter
                },
                paths
            }
        ),
        (any::<(u16, u8, bool)>(), prop::collection::vec(any::<u8>(), 0..80)).prop_map(
            |((id, context, cut), bytes)| {
                let context = WakeContext::from_bits(context);
                let id = id % 4;
                Body::Tracepoint(Tracepoint { id, context, bytes: bytes.into(), cut, stack: None })
            }
        ),
        (any::<(u32, u32, [u8; 16])>()).prop_map(|(tid, tgid, comm)| Body::Fork(Fork {
            parent_tid: tid,
            parent_tgid: tgid,
            tid,
            tgid,
            start_time: 0,
            cgroup: 0,
            comm,
            shares: 0,
        })),
        (exec(), prop::option::of(text()), prop::option::of(text()))
            .prop_map(|(exec, file, args)| Body::Exec { exec, file, args }),
        (any::<(u32, [u8; 16], [u8; 16])>()).prop_map(|(tid, old, new)| Body::Rename(Rename {
            tid,
            tgid: tid,
            old,
            new
        })),
        (any::<(u32, u32, [u8; 16])>()).prop_map(|(tid, code, comm)| Body::TaskExit(TaskExit {
            tid,
            tgid: tid,
            code,
            left: 0,
            start_time: 0,
            comm,
        })),
        text().prop_map(Body::Mark),
        (any::<u16>(), text()).prop_map(|(act, text)| Body::Act(act, text)),
        // Any kind that has fields has a default line.
        (prop::sample::select(Kind::ALL.to_vec()), prop::collection::vec(any::<u8>(), BODY_MAX))
            .prop_filter_map("it has no fields", |(kind, body)| Plain::read(kind, &body))
            .prop_map(Body::Plain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    #[test]
    fn any_event_is_printable_lines(
        body in bodies(),
        time: u64,
        cpu: u16,
        tid: u32,
        wall_ns: i64,
        names: ([u8; 16], [u8; 16]),
        entry_seen: bool,
        duration_ns: Option<u64>,
        wake: Option<(u16, u16, Option<u32>)>,
    ) {
        thread_local! {
            static RENDERER: std::cell::RefCell<Renderer> = std::cell::RefCell::new(renderer());
        }
        let two = matches!(body, Body::Switch { .. });
        let cx = EventContext {
            wall_ns,
            comm: names.0,
            duration_ns,
            entry_seen,
            next_comm: names.1,
            wake: wake.map(|(queued_on, runs_on, qlen)| Wake { queued_on, runs_on, qlen }),
            ..EventContext::default()
        };
        let mut out = Vec::new();
        let event = Event { time, cpu, tid, body };
        RENDERER.with_borrow_mut(|renderer| renderer.line(&event, &cx, &mut out));
        let lines: Vec<&[u8]> = out.split_inclusive(|b| *b == b'\n').collect();
        prop_assert_eq!(lines.len(), if two { 2 } else { 1 });
        for line in lines {
            let (end, line) = line.split_last().unwrap();
            prop_assert_eq!(*end, b'\n');
            prop_assert!(line.iter().all(|b| (0x20..0x7f).contains(b)), "{}", line.escape_ascii());
        }
    }
}
