//! What stretches of the timeline are, each once, and which of their texts have room in the page.

use flightrec_export::page::model::{Sort, Timeline};
use flightrec_export::page::words::Words;
use flightrec_export::redact::Redact;
use rustc_hash::FxHashMap;

/// Most different ones that are kept while the page is made.
const KEPT_MAX: usize = 400_000;
/// Most bytes of texts in the page.
const BYTES_MAX: usize = 1_000_000;

/// A stretch in words, by the numbers of texts.
pub(super) type What = [u32; 5];

/// What there is.
#[derive(Debug)]
pub(super) struct Whats {
    pub(super) words: Words,
    known: FxHashMap<What, u32>,
    all: Vec<What>,
}

/// What goes into the page.
pub(super) struct Told {
    /// For each that there was: its number in the page.
    numbers: FxHashMap<u32, u32>,
    /// How many are told without some of their texts.
    pub(super) cut: u64,
}

impl Told {
    /// The number in the page.
    pub(super) fn number(&self, what: u32) -> u32 {
        self.numbers.get(&what).copied().unwrap_or(0)
    }
}

impl Whats {
    /// An empty table. `redact` hides matches in every text before it is stored.
    pub(super) fn new(redact: Redact) -> Self {
        Self { words: Words::new(redact), known: FxHashMap::default(), all: Vec::new() }
    }

    /// The number of one: what it is, the call, the waker, the stack.
    pub(super) fn number(&mut self, sort: Sort, texts: [&str; 4]) -> u32 {
        let [what, call, waker, stack] = texts.map(|text| self.words.number(text));
        let mut row = [sort as u32, what, call, waker, stack];
        if self.all.len() >= KEPT_MAX && !self.known.contains_key(&row) {
            row = [sort as u32, 0, 0, 0, 0];
        }
        *self.known.entry(row).or_insert_with(|| {
            self.all.push(row);
            self.all.len() as u32 - 1
        })
    }

    /// Puts those that are used into the page, the most important first: after a limit without
    /// their texts.
    pub(super) fn tell(&self, used: impl Iterator<Item = u32>, page: &mut Timeline) -> Told {
        page.words = vec![String::new()];
        let mut words: FxHashMap<u32, u32> = [(0, 0)].into_iter().collect();
        let mut told = Told { numbers: FxHashMap::default(), cut: 0 };
        let mut room = BYTES_MAX;
        for what in used {
            if told.numbers.contains_key(&what) {
                continue;
            }
            let Some([sort, texts @ ..]) = self.all.get(what as usize).copied() else { continue };
            let mut is_cut = false;
            let mut number = |text: u32| {
                if let Some(known) = words.get(&text) {
                    return *known;
                }
                let word = self.words.text(text);
                // In JSON a little longer: quotes, a comma, escapes.
                let Some(left) = room.checked_sub(word.len() + 8) else {
                    is_cut = true;
                    return 0;
                };
                room = left;
                page.words.push(word.to_owned());
                words.insert(text, page.words.len() as u32 - 1);
                page.words.len() as u32 - 1
            };
            let [mut text, call, waker, stack] = texts.map(&mut number);
            if text == 0 {
                // Of a call its name at least.
                text = call;
            }
            told.cut += u64::from(is_cut);
            told.numbers.insert(what, page.whats.len() as u32);
            page.whats.push([sort, text, call, waker, stack]);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_told_and_the_first_have_room() {
        let mut whats = Whats::new(Redact::default());
        let long = |n: u32| format!("{n:02000}");
        let numbers: Vec<u32> =
            (0..700).map(|n| whats.number(Sort::Call, [&long(n), "read", "", ""])).collect();
        assert_eq!(whats.number(Sort::Call, [&long(3), "read", "", ""]), numbers[3]);
        let unused = whats.number(Sort::Running, ["unused", "", "", ""]);
        let mut page = Timeline::default();
        let told = whats.tell(numbers.iter().copied().chain([numbers[0]]), &mut page);
        assert_eq!((page.whats.len(), told.number(numbers[5])), (700, 5));
        assert!(!page.words.contains(&"unused".to_owned()) && told.number(unused) == 0);
        assert!(page.words.iter().map(String::len).sum::<usize>() <= BYTES_MAX);
        assert!(page.whats.iter().all(|of| of[1] != 0), "{:?}", page.whats);
    }
}
