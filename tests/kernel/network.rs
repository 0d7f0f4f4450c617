//! Connections: held against the kernel's own tracer, over the loopback interface.

use std::collections::BTreeMap;

use flightrec_tests::{Ftrace, PATIENCE, Recorder, c_program, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::json::valid_dump;
use crate::lacking::{btf_without, status};
use crate::support::{dump, lost_of_kernel_lane, run, start};

/// Memory of the tracer for each CPU.
const TRACE_KIB: usize = 4096;

/// Makes connections; the server's port.
fn connections(args: &[&str]) -> u32 {
    run(&c_program("connections", &[]), args).id("port")
}

/// The events of a kind of the connections with a port at either end.
fn events(recorder: &Recorder, kind: &str, port: u32) -> Vec<Value> {
    let events = valid_dump(recorder, &["--last", "1h", "--event", kind]).into_iter();
    events.filter(|event| event["local_port"] == port || event["remote_port"] == port).collect()
}

/// Events of connections that were refused or skipped so far.
fn lost(recorder: &Recorder) -> u64 {
    lost_of_kernel_lane(&status(recorder), &["inet_sock", "tcp_"])
}

/// The changes of state, by how often each happened.
fn changes(events: &[Value]) -> BTreeMap<String, usize> {
    let mut changes = BTreeMap::new();
    for event in events {
        let name = |field: &str| event[field].as_str().expect("a state").to_owned();
        *changes.entry(format!("{} {}", name("old_state"), name("new_state"))).or_default() += 1;
    }
    changes
}

/// The same by ftrace, of `oldstate=TCP_CLOSE newstate=TCP_SYN_SENT`.
fn traced(trace: &str, port: u32) -> BTreeMap<String, usize> {
    let ends = [format!("sport={port} "), format!("dport={port} ")];
    let mut changes = BTreeMap::new();
    for line in trace.lines().filter(|line| ends.iter().any(|end| line.contains(end.as_str()))) {
        let state = |field: &str| {
            let (_, rest) = line.split_once(field).expect("a state");
            rest.split_whitespace().next().expect("a state").trim_start_matches("TCP_").to_owned()
        };
        let change = format!("{} {}", state("oldstate="), state("newstate="));
        *changes.entry(change).or_default() += 1;
    }
    changes
}

/// Changes of state that a recorder has counted.
fn counted(status: &Value) -> u64 {
    status["lanes"]["kernel"]["events"]["sock_state"].as_u64().expect("a number")
}

#[test]
fn connections_are_those_that_the_kernel_traces() {
    let recorder = start("");
    for (family, host) in [("4", "127.0.0.1"), ("6", "::1")] {
        let before = lost(&recorder);
        let trace = Ftrace::start(&["sock/inet_sock_set_state"], TRACE_KIB).expect("ftrace");
        let port = connections(&[family, "50"]);
        // The last change of a connection may come in ksoftirqd, after its processes' end.
        let told = || events(&recorder, "sock_state", port);
        let is_lost = || lost(&recorder) > before;
        let are_closed = || is_lost() || changes(&told()).get("LAST_ACK CLOSE") == Some(&50);
        assert!(wait_until(PATIENCE, are_closed), "{family}: {:?}", changes(&told()));
        let trace = trace.stop().expect("the trace");
        let (events, is_lost) = (told(), is_lost());
        let changes = changes(&events);
        assert!(is_lost || changes == traced(&trace, port), "{family}: {changes:?}");
        for change in ["CLOSE SYN_SENT", "SYN_SENT ESTABLISHED", "ESTABLISHED CLOSE_WAIT"] {
            assert!(is_lost || changes.get(change) == Some(&50), "{change}: {changes:?}");
        }
        let ends = |event: &Value| {
            ["local", "remote"].into_iter().all(|end| event[end] == host)
                && event["protocol"] == "tcp"
        };
        // Who listens has no other end.
        let all = events.iter().filter(|event| {
            !event["new_state"]
                .as_str()
                .is_some_and(|of| of == "LISTEN" || of == "CLOSE" && event["old_state"] == "LISTEN")
        });
        assert!(all.clone().all(ends), "{events:#?}");
        // A thread asks for a connection; who listens hears of it in a softirq.
        let of = |change: &str| -> Vec<&str> {
            let (old, new) = change.split_once(' ').expect("two");
            let of = events
                .iter()
                .filter(|event| event["old_state"] == old && event["new_state"] == new);
            of.map(|event| event["context"].as_str().expect("a context")).collect()
        };
        assert!(of("CLOSE SYN_SENT").iter().all(|context| *context == "thread"));
        assert!(of("LISTEN SYN_RECV").contains(&"softirq"));
        let begins = events.iter().find(|event| event["new_state"] == "SYN_SENT").expect("one");
        assert_eq!(begins["comm"], "connections");
        // All events of one connection's end have the name of its socket.
        let of_socket = events.iter().filter(|event| event["socket"] == begins["socket"]);
        assert!(of_socket.count() >= 4, "{events:#?}");
    }
    let text = dump(&recorder, &["--last", "1h", "--event", "sock_state"]);
    let line = text.iter().find(|line| line.text.contains("new_state=SYN_SENT local=127.0.0.1"));
    let line = &line.unwrap_or_else(|| panic!("{text:#?}")).text;
    assert!(
        line.starts_with("(SOCK_STATE) socket=0x") && line.contains(" protocol=tcp "),
        "{line}"
    );
}

#[test]
fn who_is_refused_and_who_gets_no_answer() {
    let recorder = start("");
    let port = connections(&["refused"]);
    let refused = changes(&events(&recorder, "sock_state", port));
    assert_eq!(refused.get("SYN_SENT CLOSE"), Some(&1), "{refused:?}");

    let before = lost(&recorder);
    let trace = Ftrace::start(&["tcp/tcp_retransmit_skb"], TRACE_KIB).expect("ftrace");
    // The first one is sent again after a second (`TCP_TIMEOUT_INIT`, include/net/tcp.h).
    let port = connections(&["silent", "3500"]);
    let trace = trace.stop().expect("the trace");
    let again = events(&recorder, "tcp_retransmit", port);
    let to = format!("dport={port} ");
    let traced = trace.lines().filter(|line| line.contains(&to)).count();
    let missing = traced.checked_sub(again.len()).expect("no more than the kernel's");
    let lost = lost(&recorder) - before;
    assert!(traced > 0 && missing as u64 <= lost, "{missing} of {traced} missing, {lost} lost");
    for event in again {
        assert_eq!((&event["state"], &event["remote"]), (&"SYN_SENT".into(), &"127.0.0.1".into()));
        assert_eq!(event["context"], "softirq");
    }
}

#[test]
fn connections_have_a_switch_of_their_own() {
    let recorder = start("[record]\nnetwork = false\n");
    connections(&["4", "5"]);
    let status = status(&recorder);
    assert_eq!(status["switched_off"], serde_json::json!(["network"]), "{status:#}");
    assert_eq!(counted(&status), 0);
}

#[test]
fn a_kernel_without_the_members_is_recorded_without_connections() {
    let dir = TempDir::new().expect("directory");
    let btf = btf_without(&["skc_state"], dir.path());
    let recorder = start(&format!("[kernel]\nbtf = \"{}\"", btf.display()));
    connections(&["4", "5"]);
    let status = status(&recorder);
    assert_eq!(counted(&status), 0);
    let lacking = status["lacking"].to_string();
    assert!(lacking.contains("states of connections"), "{lacking}");
}
