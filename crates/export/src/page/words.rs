//! Texts of a page, each once.

use rustc_hash::FxHashMap;

use crate::redact::Redact;

/// Most bytes of texts that are kept while a page is made; after that, texts are left out.
const KEPT_MAX: usize = 24 << 20;
/// Most bytes of a text.
const TEXT_MAX: usize = 2048;

/// Texts by number. The empty text is 0.
#[derive(Debug)]
pub struct Words {
    by_text: FxHashMap<Box<str>, u32>,
    texts: Vec<Box<str>>,
    bytes: usize,
    refused: u64,
    redact: Redact,
}

impl Words {
    /// Of a page without what is hidden.
    pub fn new(redact: Redact) -> Self {
        let by_text = [("".into(), 0)].into_iter().collect();
        Self { by_text, texts: vec!["".into()], bytes: 0, refused: 0, redact }
    }

    /// The number of a text; 0 where there is no room for it.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(known) = self.by_text.get(text) {
            return *known;
        }
        let shown = self.redact.cut(text, TEXT_MAX);
        if let Some(known) = self.by_text.get(&*shown) {
            return *known;
        }
        let text = &*shown;
        if self.bytes.saturating_add(text.len()) > KEPT_MAX {
            self.refused += 1;
            return 0;
        }
        let number = self.texts.len() as u32;
        self.bytes += text.len();
        self.texts.push(text.into());
        self.by_text.insert(text.into(), number);
        number
    }

    /// A text by its number.
    pub fn text(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", |text| text)
    }

    /// How often there was no room.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_once_and_never_too_long() {
        let mut words = Words::new(Redact::default());
        assert_eq!((words.number(""), words.number("a"), words.number("a")), (0, 1, 1));
        let long = words.number(&"é".repeat(5000));
        assert!(words.text(long).ends_with("é...") && words.text(long).len() <= TEXT_MAX);
        assert_eq!((words.text(1), words.text(99), words.refused()), ("a", "", 0));
    }

    #[test]
    fn there_is_an_end_to_the_room() {
        let mut words = Words::new(Redact::default());
        let numbers: Vec<u32> = (0..20_000).map(|n| words.number(&format!("{n:02000}"))).collect();
        assert_eq!(numbers.last(), Some(&0));
        assert!(words.refused() > 0 && words.bytes <= KEPT_MAX);
    }
}
