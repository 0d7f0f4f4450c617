//! What threads are in the middle of, and which containers or units they are in: for whoever has
//! room to show it.

use rustc_hash::FxHashMap;

use flightrec_analysis::State;
use flightrec_analysis::reason::{Reason, ReasonKind, Wait};
use flightrec_format::containers::Containers;
use flightrec_format::decode::{Call, Event};
use flightrec_reader::fds::Fds;
use flightrec_reader::names::TASK_STATE;
use flightrec_reader::source::PageSet;
use flightrec_reader::threads::Threads;

use crate::text::names::flags;
use crate::text::{Options, Renderer, escape};
use crate::why::words::object;

/// Longest text, bytes: wider is no terminal.
const TEXT_MAX: usize = 500;

/// What is needed to tell it.
#[derive(Debug)]
pub struct Doing {
    renderer: Renderer,
    fds: Fds,
    /// The containers, or else the units, of control groups, by id.
    units: FxHashMap<u64, String>,
}

impl Doing {
    /// Of a recording, from the time at which its events begin.
    pub fn new(recording: &PageSet) -> Self {
        let groups = recording.meta.cgroups.iter();
        let containers = Containers::new(&recording.meta);
        let place = |(id, path): (&u64, &String)| {
            let container = containers.get(*id).map(|of| text(&of.label()));
            Some((*id, container.or_else(|| unit(path))?))
        };
        let units = groups.filter_map(place).collect();
        let renderer = Renderer::new(&recording.meta, Options::default());
        Self { renderer, fds: Fds::of(recording, true), units }
    }

    /// Goes past an event; `threads` are as before it.
    pub(super) fn apply(&mut self, event: &Event, threads: &Threads) {
        self.fds.advance(event.time.saturating_sub(1));
        self.fds.apply(event, threads);
    }

    /// The container, or else the unit, of a control group.
    pub(super) fn unit(&self, cgroup: u64) -> String {
        self.units.get(&cgroup).cloned().unwrap_or_default()
    }

    /// What a thread waits for, or the call that it is in.
    pub(super) fn text(&self, state: State, call: Option<&Call>, tid: u32, tgid: u32) -> String {
        let mut text = Vec::new();
        match (state, call) {
            (State::Dead, _) | (State::Running | State::Unknown, None) => {}
            (State::Runnable, _) => text.extend_from_slice(b"a CPU"),
            (State::Held, _) => text.extend_from_slice(b"its CPU is idle: a quota, or a migration"),
            (State::Blocked(_), Some(call)) => {
                self.renderer.call(call, self.fds.names(tid, tgid), &mut text);
                let printed = String::from_utf8_lossy(&text).into_owned();
                let object = object(&printed);
                let wait = Wait {
                    state,
                    call: printed.split_once('(').map(|(name, _)| name),
                    command: call.args.get(1).copied(),
                    object: object.as_deref().map(str::as_bytes),
                    ..Wait::default()
                };
                let reason = Reason::of(&wait);
                // The call itself says more than that it is one.
                if reason.kind != ReasonKind::Call {
                    text = reason.to_string().into_bytes();
                }
            }
            (_, Some(call)) => self.renderer.call(call, self.fds.names(tid, tgid), &mut text),
            (State::Blocked(_), None)
                if Reason::of(&Wait { state, ..Wait::default() }).is_idle() =>
            {
                text.extend_from_slice(b"work");
            }
            (State::Blocked(state) | State::Stopped(state), None) => {
                flags(&TASK_STATE, u64::from(state), &mut text);
            }
        }
        text.truncate(TEXT_MAX);
        // Every byte is ASCII.
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// The unit that a control group is in, as text.
fn unit(path: &str) -> Option<String> {
    flightrec_reader::unit(path).map(text)
}

/// A name, fit to print.
fn text(name: &str) -> String {
    let mut text = Vec::new();
    escape(name.as_bytes(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flightrec_format::control::Totals;
    use flightrec_format::meta::{Argument, Meta, Syscall};
    use flightrec_reader::pipeline::testing::call;
    use flightrec_reader::source::Collector;

    #[test]
    fn the_innermost_unit() {
        let of = |path| unit(path);
        assert_eq!(of("/system.slice/nginx.service").as_deref(), Some("nginx.service"));
        assert_eq!(of("/system.slice/web.service/worker").as_deref(), Some("web.service"));
        assert_eq!(
            of("/user.slice/user-1000.slice/session-3.scope").as_deref(),
            Some("session-3.scope")
        );
        assert_eq!((of("/"), of("/docker/abc")), (None, None));
        assert_eq!(of("/a\u{1b}.service").as_deref(), Some("a\\33.service"));
    }

    #[test]
    fn the_call_or_what_is_waited_for() {
        let fd = Argument { name: "fd".into(), ctype: "int".into() };
        let read = Syscall { nr: 0, name: "read".into(), args: Some(vec![fd]) };
        let sleep = Syscall { nr: 35, name: "nanosleep".into(), args: None };
        let meta = Meta { native: vec![read, sleep], ..Meta::default() };
        let doing = Doing::new(&Collector::new(meta).finish(Totals::default()));
        let read = Call { nargs: 1, args: [3, 0, 0, 0, 0, 0], ..call(0) };
        let text = |state, call: Option<&Call>| doing.text(state, call, 5, 5);
        assert_eq!(text(State::Blocked(2), Some(&read)), "read(3)");
        assert_eq!(text(State::Blocked(1), Some(&call(35))), "timer");
        assert_eq!(text(State::Running, Some(&read)), "read(3)");
        assert_eq!(text(State::Runnable, Some(&read)), "a CPU");
        assert_eq!(text(State::Held, Some(&read)), "its CPU is idle: a quota, or a migration");
        assert_eq!(text(State::Blocked(2), None), "TASK_UNINTERRUPTIBLE");
        // TASK_IDLE, as a kernel thread without work.
        assert_eq!(text(State::Blocked(0x402), None), "work");
        assert_eq!(
            (text(State::Running, None), text(State::Dead, Some(&read))),
            (String::new(), String::new())
        );
    }
}
