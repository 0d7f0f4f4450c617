//! Functions that are probed: which return belongs to which entry, and how deep a thread is in
//! them.
//!
//! A call is known by its function and by where its thread's stack was: a return finds the entry
//! whose return address it has taken off the stack. Whoever is entered at the same place of the
//! stack, or above it, has left all that was entered below: by longjmp, by an exception, or without
//! being recorded. So what never returns is forgotten, and the depth is right again. Where events
//! may be missing, no duration is told.

use flightrec_format::abi::function;
use flightrec_format::abi::kinds::{Function, Kind};
use flightrec_format::decode::{Body, Event};
use rustc_hash::FxHashMap;

use crate::holes::Holes;

/// Most threads whose calls are remembered, and most calls of one.
const CALLERS_MAX: usize = 4096;
const DEPTH_MAX: usize = 256;
/// Two places that are farther apart are of two stacks: of a signal handler, or a coroutine. No
/// stack of a thread is larger by default (`ulimit -s`), bytes.
const STACK_MAX: i32 = 8 << 20;

/// What is known of a function's entry or return, or of a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FunctionCall {
    /// In how many other probed functions the thread is.
    pub depth: u32,
    /// Of a return: how long the call took.
    pub duration_ns: Option<u64>,
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Frame {
    probe: u32,
    stack: u32,
    entered: u64,
}

/// Calls that have not returned, by thread.
#[derive(Debug, Clone, Default)]
pub struct Functions {
    threads: FxHashMap<u32, Vec<Frame>>,
    /// When events may be missing.
    holes: Holes,
}

impl Functions {
    /// With events missing at these times.
    pub fn new(holes: Holes) -> Self {
        Self { holes, ..Self::default() }
    }

    /// Goes on with what is read from `from` on.
    pub fn go_on(&mut self, holes: Holes, from: u64) {
        self.holes.go_on(holes, from);
    }

    /// Goes past an event, and tells what is known of it.
    #[inline]
    pub fn take(&mut self, event: &Event) -> Option<FunctionCall> {
        match &event.body {
            Body::Plain(plain) if plain.kind() == Kind::Function => {
                Function::read(plain.bytes()).map(|of| self.take_function(event, &of))
            }
            // Whoever has its id next has not called these.
            Body::TaskExit(_) | Body::Exec { .. } if !self.threads.is_empty() => {
                self.threads.remove(&event.tid);
                None
            }
            _ => None,
        }
    }

    fn take_function(&mut self, event: &Event, of: &Function) -> FunctionCall {
        if !self.threads.contains_key(&event.tid) && self.threads.len() >= CALLERS_MAX {
            self.threads.clear();
        }
        let frames = self.threads.entry(event.tid).or_default();
        match of.point {
            function::RETURN => {
                // The return address is off the stack; not so in the kernel of some releases.
                let is_its = |frame: &Frame| {
                    frame.probe == of.probe && [8, 0].contains(&of.stack.wrapping_sub(frame.stack))
                };
                let Some(at) = frames.iter().rposition(is_its) else {
                    leave(frames, of.stack);
                    return FunctionCall { depth: frames.len() as u32, duration_ns: None };
                };
                let entered = frames.get(at).map_or(0, |frame| frame.entered);
                frames.truncate(at);
                let is_whole = entered >= self.holes.since(event.time);
                FunctionCall {
                    depth: at as u32,
                    duration_ns: is_whole.then(|| event.time.saturating_sub(entered)),
                }
            }
            function::ENTRY => {
                leave(frames, of.stack);
                // At the same place is what called it in its own stead at its end, unless it is in
                // there itself already.
                let is_again = |frame: &Frame| (frame.probe, frame.stack) == (of.probe, of.stack);
                if let Some(at) = frames.iter().rposition(is_again) {
                    frames.truncate(at);
                }
                let depth = frames.len() as u32;
                if frames.len() >= DEPTH_MAX {
                    frames.remove(0);
                }
                frames.push(Frame { probe: of.probe, stack: of.stack, entered: event.time });
                FunctionCall { depth, duration_ns: None }
            }
            // A mark is in the frame of who passes it, below the return address.
            _ => {
                leave(frames, of.stack);
                FunctionCall { depth: frames.len() as u32, duration_ns: None }
            }
        }
    }
}

/// Forgets those that were entered below a place of the stack, where there is something else now.
fn leave(frames: &mut Vec<Frame>, stack: u32) {
    let is_left =
        |frame: &Frame| (1..STACK_MAX).contains(&(stack.wrapping_sub(frame.stack) as i32));
    while frames.last().is_some_and(is_left) {
        frames.pop();
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::decode::Plain;
    use proptest::prelude::*;

    use super::*;

    fn event(time: u64, (probe, point, stack): (u32, u32, u32)) -> Event {
        let of = Function {
            probe,
            point,
            stack,
            arguments: 0,
            a0: 0,
            a1: 0,
            a2: 0,
            a3: 0,
            a4: 0,
            a5: 0,
        };
        let plain = Plain::read(Kind::Function, &of.bytes()).unwrap();
        Event { time, cpu: 0, tid: 7, body: Body::Plain(plain) }
    }

    /// Depth and duration of each, 10 ns apart.
    fn told(points: &[(u32, u32, u32)]) -> Vec<(u32, Option<u64>)> {
        let mut functions = Functions::default();
        let events = points.iter().enumerate().map(|(i, of)| event(10 * (i as u64 + 1), *of));
        events
            .map(|event| functions.take(&event).unwrap())
            .map(|of| (of.depth, of.duration_ns))
            .collect()
    }

    const F: u32 = 1;
    const G: u32 = 2;
    const IN: u32 = function::ENTRY;
    const OUT: u32 = function::RETURN;

    #[test]
    fn calls_nest() {
        let calls = [
            (F, IN, 1000),
            (G, IN, 900),
            (F, IN, 800),
            (F, OUT, 808),
            (G, OUT, 908),
            (F, OUT, 1008),
        ];
        let wanted = [(0, None), (1, None), (2, None), (2, Some(10)), (1, Some(30)), (0, Some(50))];
        assert_eq!(told(&calls), wanted);
    }

    #[test]
    fn what_never_returns_is_forgotten() {
        // F calls G, which jumps back to main; main calls F again, and again.
        let round = [(F, IN, 1000), (G, IN, 900)];
        let calls: Vec<_> = round.iter().copied().cycle().take(2000).collect();
        assert!(told(&calls).iter().all(|(depth, _)| *depth <= 1));
        // Main itself is at a higher place.
        let calls = [(F, IN, 1000), (G, IN, 900), (G, IN, 1100), (G, OUT, 1108), (F, OUT, 1008)];
        assert_eq!(told(&calls), [(0, None), (1, None), (0, None), (0, Some(10)), (0, None)]);
    }

    #[test]
    fn a_call_in_its_own_stead_is_inside() {
        let calls = [(F, IN, 1000), (G, IN, 1000), (G, OUT, 1008), (F, OUT, 1008)];
        assert_eq!(told(&calls), [(0, None), (1, None), (1, Some(10)), (0, Some(30))]);
    }

    #[test]
    fn another_stack_leaves_the_first_alone() {
        let far = 1000 + (64 << 20);
        let calls = [(F, IN, 1000), (G, IN, far), (G, OUT, far + 8), (F, OUT, 1008)];
        assert_eq!(told(&calls), [(0, None), (1, None), (1, Some(10)), (0, Some(30))]);
    }

    #[test]
    fn where_events_may_be_missing_no_duration_is_told() {
        let mut holes = Holes::new(0);
        holes.extend([(15, 16)]);
        let mut functions = Functions::new(holes);
        functions.take(&event(10, (F, IN, 1000)));
        let returned = functions.take(&event(20, (F, OUT, 1008))).unwrap();
        assert_eq!(returned, FunctionCall { depth: 0, duration_ns: None });
    }

    proptest! {
        #[test]
        fn any_calls_do_no_harm(
            calls in prop::collection::vec((0u32..4, 0u32..4, any::<u32>()), 0..600)
        ) {
            prop_assert!(told(&calls).iter().all(|(depth, _)| *depth as usize <= DEPTH_MAX));
        }
    }
}
