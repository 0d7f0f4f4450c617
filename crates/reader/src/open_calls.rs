//! Calls that have begun and not ended, by thread: as many as machines have, and no more than are
//! to be held, whatever a file claims.

use rustc_hash::FxHashMap;

use flightrec_format::decode::{Call, Text};

/// Most calls.
const CALLS_MAX: usize = 1 << 16;
/// Most bytes that their strings take: 128 for each of so many calls.
const STRINGS_MAX: usize = 8 << 20;

/// What is remembered of each thread's call; a thread that there is no room for has none.
#[derive(Debug, Clone)]
pub(crate) struct OpenCalls<T> {
    /// With the bytes that the strings of the call take.
    by_thread: FxHashMap<u32, (usize, T)>,
    /// All these bytes.
    strings: usize,
}

impl<T> Default for OpenCalls<T> {
    fn default() -> Self {
        Self { by_thread: FxHashMap::default(), strings: 0 }
    }
}

impl<T> OpenCalls<T> {
    /// A thread begins a call, if there is room for what `make` makes of it. What is known of the
    /// one before is over.
    pub(crate) fn begin(&mut self, tid: u32, call: &Call, make: impl FnOnce() -> T) {
        self.end(tid);
        let of_one = |text: &Text| size_of::<Text>() + text.bytes.len();
        let strings = call.strings.iter().map(of_one).sum();
        let all = self.strings.saturating_add(strings);
        if self.by_thread.len() < CALLS_MAX && all <= STRINGS_MAX {
            self.strings = all;
            self.by_thread.insert(tid, (strings, make()));
        }
    }

    /// A thread's call is over.
    pub(crate) fn end(&mut self, tid: u32) -> Option<T> {
        let (strings, call) = self.by_thread.remove(&tid)?;
        self.strings = self.strings.saturating_sub(strings);
        Some(call)
    }

    /// A thread goes on as another one, which is over.
    pub(crate) fn rename(&mut self, old: u32, new: u32) {
        // Its strings stay counted.
        if let Some(call) = self.by_thread.remove(&old) {
            self.end(new);
            self.by_thread.insert(new, call);
        }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_thread.is_empty()
    }

    /// All are over.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use flightrec_format::abi::record::StringStatus;

    use super::*;

    impl<T> OpenCalls<T> {
        /// A thread's call.
        fn get(&self, tid: u32) -> Option<&T> {
            self.by_thread.get(&tid).map(|(_, call)| call)
        }
    }
    use crate::pipeline::testing::{call, text};

    fn of(length: usize) -> Call {
        Call { strings: vec![text(0, StringStatus::Whole, &"x".repeat(length))], ..call(2) }
    }

    #[test]
    fn a_thread_has_one_call() {
        let mut calls = OpenCalls::default();
        assert_eq!((calls.end(1), calls.is_empty()), (None, true));
        calls.begin(1, &of(9), || 'a');
        calls.begin(1, &of(5), || 'b');
        calls.begin(2, &of(7), || 'c');
        assert_eq!((calls.get(1), calls.get(2), calls.get(3)), (Some(&'b'), Some(&'c'), None));
        calls.rename(2, 1);
        calls.rename(3, 1);
        assert_eq!((calls.get(1), calls.get(2)), (Some(&'c'), None));
        assert_eq!((calls.end(1), calls.strings, calls.is_empty()), (Some('c'), 0, true));
        calls.begin(1, &of(5), || 'd');
        calls.clear();
        assert_eq!((calls.end(1), calls.strings), (None, 0));
    }

    #[test]
    fn there_is_room_for_so_many_calls_and_so_long_strings() {
        for (length, most) in [(80, CALLS_MAX), (1000, STRINGS_MAX / (1000 + size_of::<Text>()))] {
            let mut calls = OpenCalls::default();
            let long = of(length);
            let all = CALLS_MAX as u32 + 10;
            (0..all).for_each(|tid| calls.begin(tid, &long, || tid));
            assert_eq!((0..all).filter(|tid| calls.get(*tid) == Some(tid)).count(), most);
            // One that ends makes room for one.
            assert_eq!(calls.end(7), Some(7));
            calls.begin(all, &long, || all);
            calls.begin(7, &long, || 7);
            assert_eq!((calls.get(all), calls.get(7)), (Some(&all), None));
            // And so does one that is followed by another call of its thread.
            calls.begin(8, &long, || 1000);
            assert_eq!(calls.get(8), Some(&1000));
        }
    }
}
