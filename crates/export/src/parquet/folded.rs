//! Stacks as texts. Threads wait in the same places again and again: those texts are made once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use flightrec_format::abi::record::stack::Status;
use flightrec_format::decode::{Sample, Stack};

use crate::stacks::{Frame, Frames};

/// Most stacks that are remembered; then all are forgotten.
const KNOWN_MAX: usize = 4096;

/// A stack as texts; nothing where there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct Text {
    /// The function that it is named by.
    pub(super) function: Option<Arc<str>>,
    /// All functions, from the outermost in.
    pub(super) text: Option<Arc<str>>,
}

/// Texts of stacks.
#[derive(Debug, Default)]
pub(super) struct Folded {
    waits: FxHashMap<Box<[u32]>, Text>,
}

impl Folded {
    /// Forgets all: functions may have other names.
    pub(super) fn forget(&mut self) {
        self.waits.clear();
    }

    /// Where a thread waited.
    pub(super) fn of_wait(&mut self, stack: &Stack, frames: &Frames) -> Text {
        if stack.status != Status::Taken {
            return Text::default();
        }
        if let Some(known) = self.waits.get(&*stack.frames) {
            return known.clone();
        }
        let frames = frames.of_wait(stack).unwrap_or_default();
        let text = Text {
            function: Frames::blocked(&frames).map(Into::into),
            text: Some(folded(&frames).into()),
        };
        if self.waits.len() >= KNOWN_MAX {
            self.waits.clear();
        }
        self.waits.insert(stack.frames.to_vec().into(), text.clone());
        text
    }

    /// What ran.
    pub(super) fn of_sample(sample: &Sample, frames: &Frames) -> Text {
        let Some(frames) = frames.of_sample(sample) else { return Text::default() };
        Text {
            function: frames.first().map(|frame| frame.function.as_str().into()),
            text: Some(folded(&frames).into()),
        }
    }
}

/// Functions from the outermost in, as in folded stacks.
fn folded(frames: &[Frame]) -> String {
    let mut text = String::new();
    for frame in frames.iter().rev() {
        if !text.is_empty() {
            text.push(';');
        }
        // A `;` would end the frame.
        text.extend(frame.function.chars().map(|c| if c == ';' { ':' } else { c }));
    }
    text
}
