//! What is damaged in a session's files, for people.

use flightrec_store::{Damage, FileReader, What};

use super::SessionSource;
use flightrec_format::human::counted;

/// Most lines about damage in one chapter.
const REMARKS: usize = 10;

impl SessionSource {
    /// Says what is damaged: each once, and not more than a person reads.
    pub(super) fn remark(&mut self, damage: impl Iterator<Item = String>) {
        let mut more = 0;
        for remark in damage {
            if self.remarks.contains(&remark) {
                continue;
            }
            if self.remarks.len() < REMARKS {
                self.remarks.push(remark);
            } else {
                more += 1;
            }
        }
        if more != 0 {
            let places = counted(more, "place");
            self.remarks.push(format!("damaged: {places} more; `flightctl verify` names them all"));
        }
    }
}

/// What is wrong in a file, for people. The end of a block that was being written is no damage:
/// what it held is still in the rings, or in the next file, or is counted as missing.
pub(super) fn damage(reader: &FileReader) -> impl Iterator<Item = String> + '_ {
    let cut = |damage: &&Damage| !matches!(damage.what, What::Cut);
    reader.damage().iter().filter(cut).map(|damage| damage_line(reader, damage))
}

/// One piece of damage, with its file.
pub(super) fn damage_line(reader: &FileReader, damage: &Damage) -> String {
    format!("damaged: {}: {damage}", reader.path().display())
}
