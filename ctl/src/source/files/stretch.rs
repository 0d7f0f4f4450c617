//! Where a window that does not fit into memory is parted.

/// Moments that part blocks (their beginnings and sizes) into stretches of about `most` bytes.
pub(super) fn part(begins: &[u64], mut blocks: Vec<(u64, u64)>, most: u64) -> Vec<u64> {
    blocks.sort_unstable();
    let mut cuts: Vec<u64> = Vec::new();
    // Bytes since the last cut, and since the last file began behind it.
    let (mut sum, mut since_begin, mut begin) = (0u64, 0u64, None);
    let mut begins = begins.iter().copied().peekable();
    for (first, bytes) in blocks {
        while let Some(next) = begins.next_if(|next| *next <= first) {
            if cuts.last().is_none_or(|cut| next > *cut) && sum != 0 {
                (begin, since_begin) = (Some(next), 0);
            }
        }
        if sum.saturating_add(bytes) > most && sum != 0 {
            // At a file's beginning, unless that is nearly as far back as the last cut.
            let (cut, left) = match begin.take() {
                Some(begin) if since_begin <= most / 2 => (begin, since_begin),
                _ => (first, 0),
            };
            if cuts.last().is_none_or(|last| cut > *last) {
                cuts.push(cut);
                sum = left;
            }
        }
        sum = sum.saturating_add(bytes);
        since_begin = since_begin.saturating_add(bytes);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_parted_where_files_begin() {
        let blocks = |n: u64| (0..n).map(|i| (i * 10, 1)).collect::<Vec<_>>();
        assert_eq!(part(&[0, 45], blocks(10), 10), [0u64; 0], "all at once");
        assert_eq!(part(&[0, 45], blocks(10), 8), [45], "five before, five behind");
        assert_eq!(part(&[0, 45], blocks(20), 8), [45, 130], "no file begins near the second cut");
        assert_eq!(part(&[0, 11], blocks(10), 8), [80], "too far back");
        assert_eq!(part(&[], blocks(10), 4), [40, 80]);
        assert_eq!(part(&[0], vec![(5, 9), (5, 9), (5, 9), (6, 9)], 8), [5, 6], "a block is never parted");
    }
}
