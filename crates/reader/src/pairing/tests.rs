//! Calls within which recorded events are missing.

use super::*;
use crate::pipeline::testing::{enter, exit, switch};

/// Thread 1 makes call 9 on CPU 0; calls of it are missing from 200 to 300.
fn pairing(unscheduled: &[(u64, u64)]) -> Pairing<()> {
    let mut holes = Holes::default();
    holes.lose(0, [(200, 300)]);
    holes.unschedule(unscheduled.iter().copied());
    Pairing::new(holes, 100)
}

fn begins(time: u64) -> Event {
    enter(time, 0, 1, 9)
}

fn ends(time: u64) -> Event {
    exit(time, 0, 1, 9)
}

/// It loses its CPU.
fn off(time: u64) -> Event {
    switch(time, 0, 1, 1, 7)
}

/// It gets it again.
fn on(time: u64) -> Event {
    switch(time, 0, 7, 1, 1)
}

/// When the call began that the last of these ends, an exit.
fn began(pairing: &mut Pairing<()>, events: &[Event]) -> Option<u64> {
    let mut last = Taken::Nothing;
    for event in events {
        last = pairing.event(event, |_| (), |_| ());
    }
    let Taken::Ended(ended) = last else { panic!("{last:?}") };
    assert_ne!(ended.entry().is_some(), ended.dropped().is_some(), "{ended:?}");
    ended.entry().map(|entry| entry.time)
}

#[test]
fn what_is_missing_may_have_been_the_exit() {
    let began = |events: &[Event]| began(&mut pairing(&[]), events);
    assert_eq!(began(&[begins(100), ends(200)]), Some(100));
    assert_eq!(began(&[begins(300), ends(400)]), Some(300));
    assert_eq!(began(&[begins(100), ends(400)]), None);
    assert_eq!(began(&[begins(100), ends(250)]), None);
}

#[test]
fn who_does_not_run_ends_no_call() {
    let began = |events: &[Event]| began(&mut pairing(&[]), events);
    assert_eq!(began(&[begins(100), off(110), on(390), ends(400)]), Some(100));
    let often = [begins(100), off(110), on(120), off(130), on(390), off(391), on(399), ends(400)];
    assert_eq!(began(&often), Some(100));
    assert_eq!(began(&[begins(100), off(210), on(390), ends(400)]), None, "it ran before");
    assert_eq!(began(&[begins(100), off(110), on(290), ends(400)]), None, "it ran again");
    let between = [begins(100), off(110), on(250), off(260), on(390), ends(400)];
    assert_eq!(began(&between), None, "it ran in the middle");
    let before = [off(110), begins(120), on(390), ends(400)];
    assert_eq!(began(&before), None, "off and on are of two calls");
}

/// Calls of CPU 1 are missing from 200 to 300.
#[test]
fn what_is_missing_elsewhere_is_not_of_who_stays() {
    let began = |events: &[Event], unscheduled: &[(u64, u64)]| {
        let mut holes = Holes::default();
        holes.lose(1, [(200, 300)]);
        holes.unschedule(unscheduled.iter().copied());
        began(&mut Pairing::new(holes, 100), events)
    };
    assert_eq!(began(&[begins(100), ends(400)], &[]), Some(100));
    assert_eq!(began(&[begins(100), ends(400)], &[(220, 230)]), None, "it may have moved");
    assert_eq!(began(&[begins(100), exit(400, 1, 1, 9)], &[]), None, "it has");
    assert_eq!(began(&[begins(100), off(210), on(390), ends(400)], &[]), Some(100));
    let there = switch(250, 1, 7, 1, 1);
    assert_eq!(began(&[begins(100), off(110), there, exit(400, 1, 1, 9)], &[]), None);
}

#[test]
fn a_switch_that_is_missing_may_have_been_to_it() {
    let all = [begins(100), off(110), on(390), ends(400)];
    let began = |unscheduled| began(&mut pairing(&[unscheduled]), &all);
    assert_eq!(began((220, 230)), None);
    assert_eq!(began((380, 500)), None);
    assert_eq!([began((50, 110)), began((390, 500))], [Some(100), Some(100)]);
}

#[test]
fn what_is_settled_is_asked_no_more() {
    let settle = |events: &[Event]| {
        let mut pairing = pairing(&[]);
        let (mut dropped, last) = (Vec::new(), &events[events.len() - 1..]);
        for event in &events[..events.len() - 1] {
            pairing.event(event, |_| (), |_| ());
        }
        pairing.settle(350, |entry| dropped.push(entry.time));
        assert!(!pairing.holes().has_losses());
        let Taken::Ended(ended) = pairing.event(&last[0], |_| (), |_| ()) else { panic!() };
        (dropped, ended.entry().map(|entry| entry.time), ended.seen)
    };
    assert_eq!(settle(&[begins(100), off(110), ends(400)]), (vec![], Some(100), Some(100)));
    assert_eq!(settle(&[begins(100), ends(400)]), (vec![100], None, Some(100)));
    assert_eq!(settle(&[begins(310), ends(400)]), (vec![], Some(310), Some(310)));
    assert_eq!(settle(&[begins(360), ends(400)]), (vec![], Some(360), Some(360)));
}
