use flightrec_format::abi::record::{Act, Exec, Fork, Rename, StringStatus, TaskExit, WakeContext};
use flightrec_format::meta::ContainerNames;
use flightrec_reader::pipeline::Wake;
use flightrec_reader::pipeline::testing::comm;
use serde_json::json;

use super::text::string;
use super::*;

/// What an event has beyond what all have.
fn own(body: Body, cx: &EventContext<'_>) -> Value {
    let mut object = object(body, cx);
    let fields = object.as_object_mut().unwrap();
    for key in ["time", "mono_ns", "cpu", "tid", "pid", "comm"] {
        fields.remove(key).unwrap();
    }
    object
}

#[test]
fn scheduling() {
    let cx = EventContext { next_comm: text::comm(b"a\"\xff"), ..context() };
    let switch = Body::Switch {
        prev_prio: 120,
        prev_state: 2,
        preempted: false,
        io_wait: true,
        next: 7,
        next_prio: 49,
    };
    let expected = json!({"event":"switch","prev_tid":8883,"prev_comm":"mysqld","prev_prio":120,
        "prev_state":"TASK_UNINTERRUPTIBLE","preempted":false,"io_wait":true,"next_tid":7,"next_comm":"a\"\\377","next_prio":49});
    assert_eq!(own(switch, &cx), expected);
    let idles = Body::Switch {
        prev_prio: 120,
        prev_state: 0,
        preempted: true,
        io_wait: false,
        next: 0,
        next_prio: 120,
    };
    let expected = json!({"event":"switch","prev_tid":8883,"prev_comm":"mysqld","prev_prio":120,
        "prev_state":"TASK_RUNNING","preempted":true,"io_wait":false,"gave_way_to_idle":true,"next_tid":0,"next_comm":"swapper/1",
        "next_prio":120});
    assert_eq!(own(idles, &cx), expected);
    let wake = Some(Wake { queued_on: 2, runs_on: 3, qlen: Some(4) });
    let waking = |new, cx: EventContext<'_>| {
        own(
            Body::Waking {
                wakee: 9,
                prio: 100,
                state: 1,
                cpu: 5,
                new,
                context: WakeContext::Softirq,
            },
            &cx,
        )
    };
    let expected = json!({"event":"waking","wakee_tid":9,"wakee_comm":null,"wakee_prio":100,"wakee_cpu":3,
        "queued_on":2,"slept_in":"TASK_INTERRUPTIBLE","qlen":4,"waker_context":"softirq"});
    assert_eq!(waking(false, EventContext { wake, ..context() }), expected);
    let new = waking(true, context());
    assert_eq!(
        (&new["event"], &new["wakee_cpu"], &new["qlen"]),
        (&json!("wakeup_new"), &json!(5), &Value::Null)
    );
    assert_eq!(new.get("slept_in"), None);
    let moved = own(Body::Migrate { thread: 0, prio: 255, from: 1, to: 2 }, &context());
    let expected = json!({"event":"migrate","moved_tid":0,"moved_comm":"swapper/1","moved_prio":255,
        "from_cpu":1,"to_cpu":2});
    assert_eq!(moved, expected);
}

#[test]
fn life() {
    let comm = comm("x");
    let fork = Fork {
        parent_tid: 1,
        parent_tgid: 1,
        tid: 5,
        tgid: 4,
        start_time: 0,
        cgroup: 77,
        comm,
        shares: 0,
    };
    let expected = json!({"event":"fork","child_tid":5,"child_pid":4,"child_comm":"x","cgroup":77});
    assert_eq!(own(Body::Fork(fork), &context()), expected);

    let exec = Exec { tid: 5, old_tid: 6, tgid: 5, args_len: 6, cgroup: 1, comm };
    let (file, args) =
        (string(0, StringStatus::Cut, b"/bin/ls"), string(1, StringStatus::Whole, b"ls\0-\xff\0"));
    let expected = json!({"event":"exec","file":"/bin/ls","file_cut":true,"argv":["ls","-\\377"],"new_comm":"x",
        "old_tid":6,"cgroup":1});
    assert_eq!(
        own(Body::Exec { exec, file: Some(file), args: Some(args.clone()) }, &context()),
        expected
    );
    let padded = string(0, StringStatus::Ends, ("x".repeat(127) + "/bin/ls").as_bytes());
    let cut = own(Body::Exec { exec, file: Some(padded), args: None }, &context());
    assert_eq!((&cut["file_end"], &cut["file_cut"]), (&json!("/bin/ls"), &json!(true)));
    let longer = Exec { args_len: 600, ..exec };
    let cut = own(Body::Exec { exec: longer, file: None, args: Some(args) }, &context());
    assert_eq!((&cut["file"], &cut["argv_cut"]), (&Value::Null, &json!(true)));
    assert_eq!(
        own(Body::Exec { exec: longer, file: None, args: None }, &context())["argv"],
        Value::Null
    );

    let rename = Rename { tid: 8884, tgid: 8880, old: comm, new: [0; 16] };
    let expected = json!({"event":"rename","renamed_tid":8884,"renamed_pid":8880,"old_comm":"x","new_comm":null});
    assert_eq!(own(Body::Rename(rename), &context()), expected);

    let exit = |code| {
        own(
            Body::TaskExit(TaskExit { tid: 1, tgid: 1, code, left: 0, start_time: 0, comm }),
            &context(),
        )
    };
    assert_eq!(exit(3 << 8), json!({"event":"exit","status":3}));
    assert_eq!(exit(0x8b), json!({"event":"exit","signal":"SIGSEGV","core_dumped":true}));
}

#[test]
fn lines_by_people_and_by_the_recorder() {
    let text = string(0, StringStatus::Whole, b"deploy\n");
    assert_eq!(
        own(Body::Mark(text.clone()), &context()),
        json!({"event":"mark","by":"user","text":"deploy\\n"})
    );
    let act = |act| own(Body::Act(act, text.clone()), &context());
    assert_eq!(act(Act::Start as u16), json!({"event":"mark","by":"recorder","text":"deploy\\n"}));
    assert_eq!(act(Act::Level as u16)["event"], "level");
    assert_eq!(act(u16::MAX)["event"], "mark");
    let cut = own(Body::Mark(string(0, StringStatus::Cut, b"x")), &context());
    assert_eq!(cut["text_cut"], true);
}

#[test]
fn a_container_is_told_of_its_threads_alone() {
    let id = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
    let uid = "1a2b3c4d-1111-2222-3333-0123456789ab";
    let [name, pod, namespace, image] = ["a\u{1b}\"\\", "shop-0", "prod", ""].map(str::to_owned);
    let meta = Meta {
        cgroups: [
            (4, "/system.slice/ssh.service".to_owned()),
            (5, format!("/kubepods/pod{uid}/{id}")),
        ]
        .into(),
        containers: [(5, ContainerNames { name, pod, namespace, image })].into(),
        ..meta()
    };
    let of = |cgroup: u64| -> Value {
        let body = Body::Migrate { thread: 1, prio: 120, from: 0, to: 1 };
        let event = Event { time: 1, cpu: 0, tid: 1, body };
        let mut out = Vec::new();
        Renderer::new(&meta, false, []).object(
            &event,
            &EventContext { cgroup, ..context() },
            &mut out,
        );
        serde_json::from_slice(&out).unwrap()
    };
    let line = of(5);
    let fields = ["container", "container_name", "pod", "pod_uid", "namespace"];
    let known = fields.map(|field| line[field].as_str().unwrap());
    assert_eq!(known, [id, "a\\33\"\\\\", "shop-0", uid, "prod"]);
    assert!(line.get("image").is_none(), "not known");
    for cgroup in [0, 4, 99] {
        assert!(fields.iter().all(|field| of(cgroup).get(field).is_none()), "{cgroup}");
    }
}
