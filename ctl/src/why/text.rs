//! An answer as text: the sentence, the shares of the time, the chain with its evidence, doubts.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_analysis::why::{Answer, Link, Who};
use flightrec_reader::wall::WallClock;

use super::run::Answered;
use flightrec_format::human::counted;

/// Shares below that are not shown one by one, per cent.
const SMALL: f64 = 0.1;
/// Most shares that are shown.
const SHARES_MAX: usize = 12;

/// The answer.
pub(super) fn answer(of: &mut Answered, zone: &TimeZone) -> String {
    let Answered { answer, wall, .. } = of;
    // Writing to a string can't fail.
    let mut out = format!("{}\n", answer.sentence);
    if answer.subject.is_some() {
        shares(answer, wall, zone, &mut out);
    }
    if !answer.chain.is_empty() {
        out.push_str("\nChain of causes:\n");
    }
    for (number, link) in (1..).zip(&answer.chain) {
        self::link(number, link, wall, zone, &mut out);
    }
    if !answer.doubts.is_empty() {
        out.push_str("\nUncertain:\n");
    }
    for doubt in &answer.doubts {
        let _ = writeln!(out, "  - {doubt}");
    }
    out
}

fn shares(answer: &Answer, wall: &mut WallClock, zone: &TimeZone, out: &mut String) {
    let whole = answer.until.saturating_sub(answer.from);
    let group = answer.subject.as_ref().and_then(group);
    let group = group.map_or(String::new(), |group| format!(", in {group}"));
    let from = moment(answer.from, wall, zone);
    let until = moment(answer.until, wall, zone);
    let _ = writeln!(out, "\nThe time from {from} to {until} ({}){group}:", ms(whole));
    let mut rest = (0, 0.0);
    for (at, share) in answer.shares.iter().enumerate() {
        if at >= SHARES_MAX || share.percent < SMALL {
            rest = (rest.0 + share.ns, rest.1 + share.percent);
            continue;
        }
        let often = if share.count > 1 && share.state != "running" {
            format!(" ({})", counted(share.count, "time"))
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  {:>5.1} %  {:>12}  {:<11}  {}{often}",
            share.percent,
            ms(share.ns),
            share.state,
            share.what
        );
    }
    if rest.0 != 0 {
        let _ = writeln!(out, "  {:>5.1} %  {:>12}  {:<11}  ", rest.1, ms(rest.0), "other");
    }
}

fn link(number: usize, link: &Link, wall: &mut WallClock, zone: &TimeZone, out: &mut String) {
    let did = if link.did.is_empty() { "caused it" } else { &link.did };
    let _ = writeln!(out, "  {number}. {} {did}", link.who.label());
    let mut place = String::new();
    if link.until > link.from {
        let longest = if link.count > 1 { "the longest: " } else { "" };
        let ns = link.until - link.from;
        let from = moment(link.from, wall, zone);
        place = format!("{longest}{} from {from} on", ms(ns));
    } else if link.from != 0 {
        place = format!("at {}", moment(link.from, wall, zone));
    }
    if let Some(group) = group(&link.who) {
        place = if place.is_empty() { group.to_owned() } else { format!("{place}; {group}") };
    }
    if !place.is_empty() {
        let _ = writeln!(out, "       {place}");
    }
    for line in &link.evidence {
        let _ = writeln!(out, "       {line}");
    }
    if let Some(doubt) = &link.doubt {
        let _ = writeln!(out, "       uncertain: {doubt}");
    }
}

/// The control group of a thread, unless it is in none but the root.
fn group(who: &Who) -> Option<&str> {
    who.group.as_deref().filter(|group| *group != "/")
}

/// A length in ms, to the microsecond.
fn ms(ns: u64) -> String {
    format!("{}.{:03} ms", ns / 1_000_000, ns / 1000 % 1000)
}

/// A time of day, to the microsecond.
fn moment(mono: u64, wall: &mut WallClock, zone: &TimeZone) -> String {
    let at = Timestamp::from_nanosecond(i128::from(wall.wall(mono)));
    let text = at.map(|at| at.to_zoned(zone.clone()).strftime("%H:%M:%S%.6f").to_string());
    text.unwrap_or_else(|_| format!("{mono} ns"))
}
