//! Distributed traces: what threads do while they work for one, as their marks say.

use std::process::Command;

use serde_json::Value;

use crate::support::start;

/// Calls of each thread in its span, and before and after it.
const CALLS: usize = 300;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Two threads at once, each of a span of its own; `faccessat2` marks its beginning and its end.
/// Returns their process's id.
fn work() -> String {
    let script = format!(
        "import ctypes, os, threading\n\
         libc = ctypes.CDLL(None)\n\
         def mark(text): libc.syscall(439, 0, text.encode(), 0, 0)\n\
         def calls(name):\n\
         \x20   for n in range({CALLS}): os.access('/nonexistent/' + name, 0)\n\
         def work(span):\n\
         \x20   calls('before')\n\
         \x20   mark(f'Orders:00-{TRACE}-{{span:016x}}-01')\n\
         \x20   calls(f'span-{{span}}')\n\
         \x20   mark('traceparent=')\n\
         \x20   calls('after')\n\
         threads = [threading.Thread(target=work, args=(span,)) for span in (1, 2)]\n\
         [thread.start() for thread in threads]\n\
         [thread.join() for thread in threads]\n"
    );
    let mut python = Command::new("python3").args(["-c", &script]).spawn().expect("python3");
    let pid = python.id().to_string();
    assert!(python.wait().expect("its end").success());
    pid
}

#[test]
fn a_trace_is_found_by_marks_of_faccessat2() {
    let recorder = start("");
    let pid = work();
    let dump = |args: &[&str]| {
        let window = ["dump", "--last", "1h", "--format", "jsonl", "--event", "sys_exit"];
        let window = [&window[..], &["--pid", &pid]].concat();
        let output = recorder.flightctl(&[&window[..], args].concat());
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let objects = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        objects.collect::<Vec<Value>>()
    };
    let ours = |objects: &[Value], name: &str| {
        let is_ours =
            |object: &&Value| object.to_string().contains(&format!("/nonexistent/{name}"));
        objects.iter().filter(is_ours).cloned().collect::<Vec<Value>>()
    };
    let of_trace = dump(&["--trace", TRACE]);
    for span in ["1", "2"] {
        let found = ours(&of_trace, &format!("span-{span}"));
        assert_eq!(found.len(), CALLS, "{}", recorder.log());
        for object in found {
            assert_eq!(object["trace_id"], TRACE);
            assert_eq!(object["span_id"], format!("{span:0>16}"), "{object}");
        }
    }
    for name in ["before", "after"] {
        assert!(ours(&of_trace, name).is_empty());
        let all = ours(&dump(&["--traces"]), name);
        assert_eq!(all.len(), 2 * CALLS, "{}", recorder.log());
        assert!(all.iter().all(|object| object.get("trace_id").is_none()));
    }
}
