//! When system calls were detached for the budget's sake, as the recorder's own lines tell: no
//! counter knows what happened then.

use flightrec_format::abi::page::Lane;
use flightrec_format::abi::record::Act;
use flightrec_format::decode::{Body, Event};

use super::PageSet;

/// From when to when, in order, ns of `CLOCK_MONOTONIC`. A time whose beginning is not there began
/// before all that is, one whose end is not there lasts.
pub fn detached(recording: &PageSet) -> Vec<(u64, u64)> {
    let tasks = recording.streams.iter().filter(|stream| stream.lane() == Lane::Task);
    let act = |event: Event| match event.body {
        Body::Act(act, _) if act == Act::Detached as u16 => Some((event.time, true)),
        Body::Act(act, _) if act == Act::Attached as u16 => Some((event.time, false)),
        _ => None,
    };
    let mut acts: Vec<(u64, bool)> =
        tasks.flat_map(|stream| stream.events().filter_map(act)).collect();
    acts.sort_unstable();
    between(&acts)
}

fn between(acts: &[(u64, bool)]) -> Vec<(u64, u64)> {
    let (mut out, mut since) = (Vec::new(), None);
    for (i, (time, detached)) in acts.iter().enumerate() {
        match (*detached, since) {
            (true, None) => since = Some(*time),
            (false, Some(from)) => {
                out.push((from, *time));
                since = None;
            }
            (false, None) if i == 0 => out.push((0, *time)),
            _ => {}
        }
    }
    out.extend(since.map(|from| (from, u64::MAX)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_each_act_to_the_next_other_one() {
        assert_eq!(between(&[]), []);
        assert_eq!(
            between(&[(3, true), (5, false), (8, true), (9, true)]),
            [(3, 5), (8, u64::MAX)]
        );
        assert_eq!(between(&[(5, false), (6, false), (8, true), (9, false)]), [(0, 5), (8, 9)]);
    }
}
