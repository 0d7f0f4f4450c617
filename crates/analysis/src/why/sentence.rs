//! The answer in a sentence.

use std::fmt::Write as _;

use super::answer::{Link, Who};

/// Links that are said; of more, the first and the last ones.
const SAID_MAX: usize = 6;

impl Who {
    /// `` `orders` (4711) ``
    pub fn label(&self) -> String {
        match self.comm.as_str() {
            "" => format!("thread {}", self.tid),
            comm => format!("`{comm}` ({})", self.tid),
        }
    }
}

/// A chain in a sentence.
pub(super) fn sentence(links: &[Link]) -> String {
    let Some(first) = links.first() else { return String::new() };
    // Writing to a string can't fail.
    let mut text = format!("{} {}", first.who.label(), first.did);
    // Threads of one kind that wait for one another in a row say the same over and over.
    let mut said: Vec<(&Link, usize)> = vec![(first, 0)];
    for link in links.iter().skip(1) {
        match said.last_mut() {
            Some((last, more)) if said_like(last, link) && !std::ptr::eq(*last, first) => {
                *more += 1;
            }
            _ => said.push((link, 0)),
        }
    }
    let left_out = said.len().saturating_sub(SAID_MAX);
    let mut by = first.by;
    for (at, (link, more)) in said.iter().enumerate().skip(1) {
        if left_out != 0 && (SAID_MAX / 2..SAID_MAX / 2 + left_out).contains(&at) {
            if at == SAID_MAX / 2 {
                let _ = write!(text, " through {left_out} more threads");
            }
            by = link.by;
            continue;
        }
        text += by;
        text += " ";
        text += &link.who.label();
        if !link.did.is_empty() {
            text += if by.ends_with("where") { " " } else { ", which " };
            text += &link.did;
        }
        if *more != 0 {
            let _ = write!(text, " (and for {more} more like it)");
        }
        by = link.by;
    }
    text
}

/// Whether two links say the same of threads that are alike.
fn said_like(a: &Link, b: &Link) -> bool {
    a.who.comm == b.who.comm && a.state == b.state && a.call == b.call && a.object == b.object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(tid: u32, comm: &str, did: &str) -> Link {
        let who = Who { tid, comm: comm.into(), ..Who::default() };
        Link { who, did: did.into(), by: " for", ..Link::default() }
    }

    #[test]
    fn a_chain_reads_from_the_thread_to_the_cause() {
        let links = [link(1, "front", "waited 3 s in read"), link(2, "back", "slept 3 s")];
        assert_eq!(
            sentence(&links),
            "`front` (1) waited 3 s in read for `back` (2), which slept 3 s"
        );
        let sent = Link { by: ", sent by", ..link(1, "a", "was stopped for 2 ms by SIGSTOP") };
        assert_eq!(
            sentence(&[sent, link(2, "", "")]),
            "`a` (1) was stopped for 2 ms by SIGSTOP, sent by thread 2"
        );
    }

    #[test]
    fn what_repeats_is_said_once() {
        let more = (3..6).map(|tid| link(tid, "gc", "waited"));
        let links: Vec<Link> =
            [link(1, "a", "waited"), link(2, "gc", "waited")].into_iter().chain(more).collect();
        assert_eq!(
            sentence(&links),
            "`a` (1) waited for `gc` (2), which waited (and for 3 more like it)"
        );
        let long: Vec<Link> = (0..20).map(|tid| link(tid, &format!("t{tid}"), "waited")).collect();
        let text = sentence(&long);
        assert!(text.contains(" more threads") && text.ends_with("`t19` (19), which waited"));
    }
}
