//! Blocked threads for people, and for programs.

use serde::Serialize;

use flightrec_analysis::TaskState;
use flightrec_format::abi::record::Abi;
use flightrec_format::abi::record::stack::{FRAMES_MAX, Status};
use flightrec_format::decode::Stack;
use flightrec_reader::names::TASK_STATE;
use flightrec_reader::source::{PageSet, Stacks, trust};
use flightrec_reader::threads::trim;

use super::blocked::Blocked;
use super::requests::RequestInFlight;
use crate::json::escape;
use crate::text::names::flags;
use crate::text::number::padded;
use crate::text::{self, Renderer};
use flightrec_format::human::span;

/// What stands over the lines.
pub(crate) const HEAD: &str = " BLOCKED FOR      TID      PID  NAME             STATE  IN\n";
/// Longest name, with its brackets.
const NAME_WIDTH: usize = 17;

/// What `--json` prints.
#[derive(Serialize)]
pub(crate) struct Document<T> {
    /// When, ns of `CLOCK_MONOTONIC`.
    mono_ns: u64,
    /// The worst first.
    threads: Vec<T>,
    /// Of a kernel dump: recordings that claim as much as this one, while nothing decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    disputed_by: Vec<String>,
    /// Threads that are alive and have no place in the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_place: Vec<u32>,
    /// Requests to disks that were not done when the machine died, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<RequestInFlight>,
}

impl<T> Document<T> {
    /// Of these threads of a recording.
    pub(crate) fn new(
        mono_ns: u64,
        threads: Vec<T>,
        recording: &PageSet,
        without_place: &[u32],
    ) -> Self {
        let disputed_by = trust::hex(&recording.disputed_by);
        let without_place = without_place.to_vec();
        Self { mono_ns, threads, disputed_by, without_place, requests: Vec::new() }
    }

    /// With these requests to disks.
    pub(crate) fn with_requests(self, requests: Vec<RequestInFlight>) -> Self {
        Self { requests, ..self }
    }
}

impl Blocked {
    /// Appends `    12.3 s     8883     8880  mysqld           D      fsync(7)`.
    pub(crate) fn line(&self, renderer: &Renderer, out: &mut Vec<u8>) {
        let more = if self.is_since_before() { "> " } else { "" };
        let otherwise: &[u8] = if self.is_kernel() { b"the kernel" } else { b"no system call" };
        self.row(
            &format!("{more}{}", span(self.time)),
            self.state.letter(),
            otherwise,
            renderer,
            out,
        );
        out.push(b'\n');
    }

    /// Appends a line with the functions that it waits in, below what it waits in.
    pub(crate) fn stack_line(&self, stacks: &Stacks, out: &mut Vec<u8>) {
        let indent = HEAD.len() - "IN\n".len() + 2;
        out.resize(out.len() + indent, b' ');
        match self.stack(stacks) {
            Some(stack) => text::stack::frames(&stack, &stacks.symbols, out),
            None => out.extend_from_slice(b"(no stack: it ran meanwhile)"),
        }
        out.push(b'\n');
    }

    /// Its stack; `None`: it was not blocked when stacks were taken.
    fn stack(&self, stacks: &Stacks) -> Option<Stack> {
        let frames = stacks.by_thread.get(&self.slot.tid)?.clone();
        let cut = frames.len() >= FRAMES_MAX;
        Some(Stack { slept: None, status: Status::Taken, cut, frames: frames.into() })
    }

    /// The same for a thread in any state, without the end of the line; `otherwise`: what stands
    /// for its call where it is in none.
    pub(crate) fn row(
        &self,
        time: &str,
        letter: char,
        otherwise: &[u8],
        renderer: &Renderer,
        out: &mut Vec<u8>,
    ) {
        // Most threads sleep for long; who can't be interrupted should not.
        let (paint, is_stuck) = (renderer.paint(), letter == TaskState::Uninterruptible.letter());
        let write = |out: &mut Vec<u8>| out.extend_from_slice(format!("{time:>12}").as_bytes());
        paint.time(if is_stuck { self.time } else { 0 }, out, write);
        for id in [self.slot.tid, self.slot.tgid] {
            padded(id, 9, b' ', out);
        }
        out.extend_from_slice(b"  ");
        let start = out.len();
        // As in ps(1): a kernel thread's name in brackets.
        let (before, after): (&[u8], &[u8]) =
            if self.is_kernel() { (b"[", b"]") } else { (b"", b"") };
        out.extend_from_slice(before);
        text::escape(trim(&self.slot.comm), out);
        out.extend_from_slice(after);
        let width = out.len() - start;
        out.resize(out.len() + NAME_WIDTH.saturating_sub(width).max(1), b' ');
        if is_stuck {
            paint.stuck(out);
        }
        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        if is_stuck {
            paint.end(out);
        }
        out.extend_from_slice(b"      ");
        match &self.call {
            Some(call) => renderer.call(call, self.names.names(), out),
            None => out.extend_from_slice(otherwise),
        }
    }

    /// As an object, with its stack if these are wanted.
    pub(crate) fn json(
        &self,
        renderer: &Renderer,
        stacks: Option<&Stacks>,
    ) -> impl Serialize + use<> {
        let mut object = self.object(self.state.letter(), None, renderer);
        object.stack = stacks.map(|stacks| {
            let frames = stacks.by_thread.get(&self.slot.tid).into_iter().flatten();
            frames.map(|at| frame(*at, stacks)).collect()
        });
        object
    }

    /// The same for a thread in any state, and on a CPU.
    pub(crate) fn object(&self, state: char, cpu: Option<u16>, renderer: &Renderer) -> Object {
        let slot = &self.slot;
        let mut task_state = Vec::new();
        flags(&TASK_STATE, u64::from(slot.state), &mut task_state);
        let call = self.call.as_ref().map(|call| {
            let mut text = Vec::new();
            renderer.call(call, self.names.names(), &mut text);
            let args = call
                .args
                .iter()
                .take(usize::from(call.nargs))
                .map(|arg| format!("{arg:#x}"))
                .collect();
            InCall { nr: call.nr, abi: abi(call.abi), args, text: ascii(&text) }
        });
        Object {
            tid: slot.tid,
            pid: slot.tgid,
            ppid: slot.ppid,
            comm: name(trim(&slot.comm)),
            kernel_thread: self.is_kernel(),
            prio: slot.prio,
            cgroup: Some(slot.cgroup).filter(|id| *id != 0),
            state,
            cpu,
            task_state: ascii(&task_state),
            blocked_ns: self.time,
            since_before_recording: self.is_since_before(),
            call,
            stack: None,
        }
    }
}

/// One thread.
#[derive(Serialize)]
pub(crate) struct Object {
    tid: u32,
    pid: u32,
    ppid: u32,
    comm: String,
    kernel_thread: bool,
    prio: i32,
    cgroup: Option<u64>,
    /// As ps(1) has it.
    state: char,
    /// Where it ran; of blocked ones none.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u16>,
    /// As the kernel has it.
    task_state: String,
    /// At least so long, where `since_before_recording`.
    blocked_ns: u64,
    since_before_recording: bool,
    call: Option<InCall>,
    /// Functions of the kernel that it waits in, from the innermost one out; none: it ran when they
    /// were taken. There only with `--stack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<Vec<Frame>>,
}

/// A frame of a stack: as in the JSON of events.
#[derive(Serialize)]
#[serde(untagged)]
enum Frame {
    /// In a function that is known.
    Known {
        symbol: String,
        offset: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        module: Option<String>,
    },
    /// In one that is not.
    Unknown { frame: u32 },
}

fn frame(frame: u32, stacks: &Stacks) -> Frame {
    match stacks.symbols.find(frame) {
        Some(of) => Frame::Known {
            symbol: name(of.function.as_bytes()),
            offset: of.offset,
            module: of.module.map(|module| name(module.as_bytes())),
        },
        None => Frame::Unknown { frame },
    }
}

/// The call that it waits in.
#[derive(Serialize)]
struct InCall {
    nr: u16,
    abi: &'static str,
    /// Registers, as hexadecimal digits: not every JSON reader takes 64 bits.
    args: Vec<String>,
    /// As people read it.
    text: String,
}

/// As in the JSON of events.
fn abi(abi: Abi) -> &'static str {
    match abi {
        Abi::Native => "native",
        Abi::Compat => "compat",
        Abi::X32 => "x32",
    }
}

fn ascii(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A name in the notation that events have in JSON.
fn name(bytes: &[u8]) -> String {
    let mut quoted = b"\"".to_vec();
    escape::name(bytes, &mut quoted);
    quoted.push(b'"');
    // What was made for the inside of a JSON string is one.
    serde_json::from_slice(&quoted).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::blocked::tests::meta;
    use super::*;
    use crate::text::Options;
    use crate::text::stack::tests::symbols;
    use flightrec_format::abi::slot::{BLOCKED, IN_SYSCALL, KTHREAD, TaskSlot};
    use flightrec_reader::fds::FdNames;

    const S: u64 = 1_000_000_000;

    fn thread(flags: u32, since: u64) -> Blocked {
        let slot = TaskSlot {
            seq: 0,
            tid: 8883,
            tgid: 8880,
            flags: BLOCKED | flags,
            start_time: 0,
            cgroup: 7,
            comm: *b"my\nsql\0\0\0\0\0\0\0\0\0\0",
            since,
            state: 2,
            nr: 0,
            args: [3, 0x1000, 512, 0, 0, 0],
            ppid: 1,
            prio: 120,
            abi: 0,
            known: 0,
        };
        Blocked::new(slot, &meta(), 22 * S + 300_000_000)
    }

    fn line(thread: &Blocked) -> String {
        let mut out = Vec::new();
        thread.line(&Renderer::new(&meta(), Options::default()), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn who_can_not_be_interrupted_stands_out() {
        let line = |colour, thread: Blocked| {
            let renderer = Renderer::new(&meta(), Options { colour, ..Options::default() });
            let mut out = Vec::new();
            thread.line(&renderer, &mut out);
            String::from_utf8(out).unwrap()
        };
        let plain = line(false, thread(0, 20 * S));
        let painted = line(true, thread(0, 20 * S));
        assert!(
            painted.starts_with("\x1b[1;35m       2.3 s\x1b[0m ")
                && painted.contains(" \x1b[1;31mD\x1b[0m "),
            "{painted}"
        );
        let codes = ["\x1b[1;35m", "\x1b[1;31m", "\x1b[0m"];
        assert_eq!(codes.iter().fold(painted, |text, code| text.replace(code, "")), plain);
        let mut sleeper = thread(0, 20 * S);
        sleeper.state = TaskState::Sleeping;
        assert_eq!(
            line(true, sleeper.clone()),
            line(false, sleeper),
            "most threads sleep for long"
        );
    }

    #[test]
    fn lines_stand_under_their_head() {
        let text = line(&thread(IN_SYSCALL, 11 * S));
        assert_eq!(
            text,
            "      11.3 s     8883     8880  my\\nsql          D      read(3, 0x1000, 512)\n"
        );
        for (column, what) in [("NAME", "my"), ("STATE", "D "), ("IN\n", "read")] {
            assert_eq!(HEAD.find(column), text.find(what), "{column}");
        }
        assert!(line(&thread(0, 0)).starts_with("    > 12.3 s "), "{}", line(&thread(0, 0)));
        assert!(line(&thread(0, 0)).ends_with("no system call\n"));
        assert!(line(&thread(KTHREAD, 0)).contains("  [my\\nsql]        D      the kernel\n"));
    }

    #[test]
    fn descriptors_have_their_names() {
        let mut thread = thread(IN_SYSCALL, 0);
        thread.names = FdNames::kept(&[(3, b"/etc/hosts".as_slice().into())])
            .keep(thread.call.as_ref().unwrap(), None);
        assert!(line(&thread).ends_with("read(3</etc/hosts>, 0x1000, 512)\n"), "{}", line(&thread));
        let json =
            serde_json::to_value(thread.json(&Renderer::new(&meta(), Options::default()), None))
                .unwrap();
        assert_eq!(json["call"]["text"], "read(3</etc/hosts>, 0x1000, 512)");
    }

    #[test]
    fn stacks_stand_below_what_threads_wait_in() {
        let thread = thread(IN_SYSCALL, 20 * S);
        let with = |frames: Option<Vec<u32>>| Stacks {
            by_thread: frames.into_iter().map(|frames| (8883, frames)).collect(),
            symbols: symbols(&["pipe_read", "read [x]"]),
        };
        let text = |frames| {
            let mut out = Vec::new();
            thread.stack_line(&with(frames), &mut out);
            String::from_utf8(out).unwrap()
        };
        let known = text(Some(vec![107, 210, 999]));
        assert_eq!(known.trim_start(), "pipe_read <- read [x] <- ?0x3e7\n");
        assert_eq!(known.find('p'), HEAD.find("IN\n").map(|at| at + 2));
        assert_eq!(text(None).trim_start(), "(no stack: it ran meanwhile)\n");
        assert!(text(Some(vec![107; FRAMES_MAX])).ends_with(" <- ...\n"));

        let renderer = Renderer::new(&meta(), Options::default());
        let json = |stacks: Option<&Stacks>| {
            serde_json::to_value(thread.json(&renderer, stacks)).unwrap().get("stack").cloned()
        };
        let frames = serde_json::json!([
            {"symbol": "pipe_read", "offset": 7},
            {"symbol": "read", "offset": 10, "module": "x"},
            {"frame": 999},
        ]);
        assert_eq!(json(Some(&with(Some(vec![107, 210, 999])))), Some(frames));
        assert_eq!(json(Some(&with(None))), Some(serde_json::json!([])));
        assert_eq!(json(None), None, "not asked for");
    }

    #[test]
    fn objects() {
        let json = serde_json::to_value(
            thread(IN_SYSCALL, 0).json(&Renderer::new(&meta(), Options::default()), None),
        )
        .unwrap();
        assert_eq!(
            (&json["tid"], &json["state"], &json["task_state"]),
            (&8883.into(), &"D".into(), &"TASK_UNINTERRUPTIBLE".into())
        );
        assert_eq!(
            (&json["comm"], &json["blocked_ns"]),
            (&"my\\nsql".into(), &(12_300_000_000u64).into())
        );
        assert_eq!(json["since_before_recording"], true);
        assert_eq!(
            (&json["call"]["text"], &json["call"]["args"][1]),
            (&"read(3, 0x1000, 512)".into(), &"0x1000".into())
        );
    }
}
