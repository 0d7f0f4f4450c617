//! Stretches of time that may overlap, on tracks where none does.

/// Most tracks of one kind: as many requests as a disk has under way at most times.
const TRACKS_MAX: usize = 256;

/// Tracks of one kind, each with the end of its last stretch.
#[derive(Debug, Clone, Default)]
pub struct Lanes {
    ends: Vec<u64>,
}

impl Lanes {
    /// The track for a stretch, by its number from 0 on. Stretches come in the order of their ends.
    /// `None`: more overlap than there are tracks.
    pub fn place(&mut self, from: u64, until: u64) -> Option<usize> {
        let free = self.ends.iter().position(|end| *end <= from);
        if let Some(place) = free {
            if let Some(end) = self.ends.get_mut(place) {
                *end = until.max(*end);
            }
            return Some(place);
        }
        (self.ends.len() < TRACKS_MAX).then(|| {
            self.ends.push(until);
            self.ends.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_overlap_are_on_different_tracks() {
        let mut lanes = Lanes::default();
        let places = [(0, 10), (5, 12), (10, 13), (11, 14), (12, 15)];
        let found: Vec<_> = places.map(|(from, until)| lanes.place(from, until)).into();
        assert_eq!(found, [Some(0), Some(1), Some(0), Some(2), Some(1)]);
    }

    #[test]
    fn tracks_are_bounded() {
        let mut lanes = Lanes::default();
        let placed = (0..1000).filter(|_| lanes.place(0, 9).is_some()).count();
        assert_eq!(placed, TRACKS_MAX);
    }
}
