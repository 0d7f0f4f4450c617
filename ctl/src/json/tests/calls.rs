use flightrec_format::abi::record::{Abi, NR_INVALID, StringStatus};
use flightrec_format::decode::{Call, Text};
use serde_json::json;

use super::text::{call, string};
use super::*;

fn enter(call: Call) -> Value {
    object(Body::Enter(call), &context())
}

fn exit(nr: u16, ret: i64) -> Value {
    object(Body::Exit { call: call(nr, &[], Vec::new()), ret, entered: None }, &context())
}

fn whole(index: u8, bytes: &[u8]) -> Text {
    string(index, StringStatus::Whole, bytes)
}

const CWD: u64 = libc::AT_FDCWD as u64;

#[test]
fn an_entry_to_the_letter() {
    let flags = libc::O_CLOEXEC as u64;
    let open = call(257, &[CWD, 0x7ffc_0000, flags, 0], vec![whole(1, b"/etc/\"hosts")]);
    let expected = concat!(
        r#"{"time":"2026-03-04T14:03:07.123456789Z","mono_ns":1000000,"cpu":1,"tid":8883,"pid":8880,"comm":"mysqld","#,
        r#""event":"sys_enter","syscall":"openat","nr":257,"abi":"native","args":["#,
        r#"{"name":"dfd","value":-100,"text":"AT_FDCWD"},"#,
        r#"{"name":"filename","value":2147221504,"text":"\"/etc/\\\"hosts\""},"#,
        r#"{"name":"flags","value":524288,"text":"O_RDONLY|O_CLOEXEC"}]}"#,
    );
    assert_eq!(line(Body::Enter(open), &context()), expected);
}

#[test]
fn values_are_what_their_type_makes_of_the_register() {
    let args = |call| enter(call)["args"].as_array().unwrap().clone();
    let value =
        |nr, values: &[u64], at: usize| args(call(nr, values, Vec::new()))[at]["value"].clone();
    assert_eq!(value(257, &[0xdead_beef_ffff_ff9c, 1, 0], 0), json!(-100));
    assert_eq!(value(0, &[0xffff_ffff, 0x7ffc_dead_b000, 512], 0), json!(-1));
    assert_eq!(value(0, &[3, 0x7ffc_dead_b000, u64::MAX], 1), json!(0x7ffc_dead_b000_u64));
    assert_eq!(value(0, &[3, 1, u64::MAX], 2), json!("0xffffffffffffffff"));
    assert_eq!(value(8, &[3, -10i64 as u64, 2], 1), json!(-10));
    assert_eq!(value(92, &[1, 1000, 0xffff_ffff], 2), json!(-1));
    assert_eq!(value(16, &[1, 0xc020_660b, 16], 1), json!(0xc020_660b_u32));
    assert_eq!(value(72, &[3, 2, 1], 2), json!(1));
    assert_eq!(args(call(72, &[3, 3, 0], Vec::new())).len(), 2, "F_GETFL takes no argument");
    assert_eq!(
        args(call(257, &[CWD, 1, 0, 0o644], Vec::new())).len(),
        3,
        "no mode without O_CREAT"
    );
}

#[test]
fn strings() {
    let path = |text| enter(call(257, &[CWD, 0x1000, 0, 0], vec![text]))["args"][1].clone();
    assert_eq!(path(whole(1, "/tmp/grün\x1b\n".as_bytes()))["text"], r#""/tmp/grün\33\n""#);
    assert_eq!(path(whole(1, b"\xff\\"))["text"], r#""\377\\""#);
    assert_eq!(path(string(1, StringStatus::Cut, b"/long"))["text"], r#""/long"..."#);
    let padded = "x".repeat(127) + "./secret";
    assert_eq!(
        path(string(1, StringStatus::Ends, padded.as_bytes()))["text"],
        format!(r#""{}"..."./secret""#, "x".repeat(127))
    );
    assert_eq!(path(string(1, StringStatus::Unreadable, b""))["text"], "0x1000 /* unreadable */");
}

#[test]
fn what_was_not_recorded_is_null_or_absent() {
    let args = |call| enter(call)["args"].clone();
    assert_eq!(
        args(call(257, &[CWD], Vec::new())),
        json!([{"name":"dfd","value":-100,"text":"AT_FDCWD"}])
    );
    let alone = json!([
        {"name":"dfd","value":null,"text":"..."},
        {"name":"filename","value":null,"text":"\"/x\""},
    ]);
    assert_eq!(args(call(257, &[], vec![whole(1, b"/x")])), alone);
    assert_eq!(args(call(39, &[], Vec::new())), json!([]));
}

#[test]
fn unknown_calls() {
    let odd = enter(call(NR_INVALID, &[0x1234], Vec::new()));
    assert_eq!(
        (&odd["syscall"], &odd["nr"], &odd["args"]),
        (&json!("syscall_4660"), &json!(4660), &json!([]))
    );
    let lost = exit(NR_INVALID, -38);
    assert_eq!((&lost["syscall"], &lost["nr"]), (&json!("syscall_?"), &Value::Null));
    let unnamed = enter(call(4000, &[1, 0x7fff_0000_0000], Vec::new()));
    assert_eq!(
        unnamed["args"][1],
        json!({"name":"arg1","value":0x7fff_0000_0000_u64,"text":"0x7fff00000000"})
    );
}

#[test]
fn other_tables() {
    let open = Call { abi: Abi::Compat, ..call(5, &[1, 0, 0], vec![whole(0, b"/f")]) };
    let open = enter(open);
    assert_eq!(
        (&open["syscall"], &open["abi"], &open["nr"]),
        (&json!("open"), &json!("compat"), &json!(5))
    );
    assert_eq!(open["args"][0]["text"], r#""/f""#);
    assert_eq!(enter(Call { abi: Abi::X32, ..call(39, &[], Vec::new()) })["abi"], "x32");
}

#[test]
fn results() {
    let failed = exit(257, -2);
    assert_eq!((&failed["ret"], &failed["errno"]), (&json!(-2), &json!("ENOENT")));
    assert!(failed.get("args").is_none() && failed.get("duration_ns").is_none());
    assert_eq!(exit(0, -512)["errno"], "ERESTARTSYS");
    assert_eq!(exit(0, -4095)["errno"], "4095");
    assert!(exit(0, 512).get("errno").is_none());
    assert_eq!(exit(9, 0x7f12_3456_7000)["ret"], 0x7f12_3456_7000_u64);
    assert_eq!(exit(15, -4).get("errno"), None, "a restored register is no error");
    let slept = object(
        Body::Exit { call: call(0, &[3, 4096, 10], Vec::new()), ret: 10, entered: None },
        &context(),
    );
    assert_eq!(slept["args"][0]["text"], "3");
    let folded = object(
        Body::Exit { call: call(39, &[], Vec::new()), ret: 7, entered: Some(999_500) },
        &context(),
    );
    assert_eq!(folded["duration_ns"], 500);
}

#[test]
fn a_whole_call() {
    let cx = EventContext { merged: Some(WALL - 1000), duration_ns: Some(1000), ..context() };
    let read = call(0, &[3, 4096, 10], Vec::new());
    let both = object(Body::Exit { call: read, ret: 10, entered: None }, &cx);
    assert_eq!(both["event"], "sys_exit");
    assert_eq!(both["entered"], "2026-03-04T14:03:07.123455789Z");
    assert_eq!(both["entered_mono_ns"], 999_000);
    assert_eq!(both["args"].as_array().map(Vec::len), Some(3));
    let none = object(Body::Exit { call: call(39, &[], Vec::new()), ret: 7, entered: None }, &cx);
    assert_eq!(none["args"], json!([]));
}
