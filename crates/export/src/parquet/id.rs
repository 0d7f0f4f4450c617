//! Which recording a row is of.

use std::ops::Deref;

use super::columns::Rows;

/// A recording, as all tables have it.
#[derive(Debug, Default)]
pub(super) struct Id {
    pub(super) number: u64,
    pub(super) text: String,
}

impl Id {
    /// Appends it to a row.
    #[inline]
    pub(super) fn write(&self, rows: &mut Rows) {
        rows.keyed(u128::from(self.number), || self.text.as_str().into());
    }
}

impl Deref for Id {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}
