//! Sums of a window, read.

use std::path::Path;

use crate::dir;
use crate::file::{BlockHeader, SumsFile};
use crate::model::Period;

/// A period, and of which recording it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dated {
    /// `/proc/sys/kernel/random/boot_id`, as bytes.
    pub boot: [u8; 16],
    /// Recording session.
    pub session: u64,
    /// The sums.
    pub period: Period,
}

/// Reads the periods that touch the window [`since`, `until`) (ns since 1970), in the order of
/// writing. Blocks that `wants` refuses by their headers are passed over. Memory is that of a file
/// and a block. What is damaged is told, a line each.
///
/// # Errors
/// Where the directory can't be read.
pub fn read(
    state_dir: &Path,
    (since, until): (i64, i64),
    wants: impl Fn(&BlockHeader) -> bool,
    mut visit: impl FnMut(Dated),
) -> std::io::Result<Vec<String>> {
    let mut damage = Vec::new();
    // What was written twice, as an attempt failed half-way, counts once.
    let mut reached: Vec<(([u8; 16], u64), u64)> = Vec::new();
    for info in dir::files(state_dir)? {
        let path = info.path.display();
        let file = match SumsFile::open(&info.path) {
            Ok(file) => file,
            Err(e) => {
                damage.push(e.to_string());
                continue;
            }
        };
        for (at, bytes) in &file.damage {
            damage.push(format!("{path}: {bytes} bytes of sums at byte {at} can't be read"));
        }
        for (at, block) in file.blocks().copied().enumerate() {
            if block.wall >= until || block.wall_until <= since || !wants(&block) {
                continue;
            }
            let Some(periods) = file.periods(at) else {
                let minutes = length(&block) / 60_000_000_000;
                damage.push(format!("{path}: a block of {minutes} minutes of sums is damaged"));
                continue;
            };
            for period in periods {
                let BlockHeader { boot, session, .. } = block;
                let known = reached.iter().position(|(of, _)| *of == (boot, session));
                match known.and_then(|at| reached.get_mut(at)) {
                    Some((_, reached)) if period.from < *reached => continue,
                    Some((_, reached)) => *reached = period.until,
                    None => reached.push(((boot, session), period.until)),
                }
                if period.wall < until && period.wall_until() > since {
                    visit(Dated { boot, session, period });
                }
            }
        }
    }
    Ok(damage)
}

fn length(block: &BlockHeader) -> i64 {
    block.wall_until.saturating_sub(block.wall)
}
