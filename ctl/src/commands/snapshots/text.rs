//! Snapshots as text: the list, and the first answer of one.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use flightrec_format::unseen::visible;
use flightrec_reader::names::TASK_STATE;
use flightrec_store::snapshot::{Involved, Thread, Wait, WaitKind, Why, WhyThread};

use super::shown::Shown;
use crate::text::names::flags;
use crate::text::stack::is_entry;
use flightrec_format::human::{bytes, counted, span};

fn local(time: Option<Timestamp>, zone: &TimeZone, format: &str) -> String {
    time.map_or_else(
        || "?".to_owned(),
        |time| time.to_zoned(zone.clone()).strftime(format).to_string(),
    )
}

pub(super) fn list(entries: &[Shown], zone: &TimeZone) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut text = format!("{:<19}  {:<36} {:>9} {:>6}  REASON\n", "TIME", "ID", "SIZE", "AGAIN");
    for entry in entries {
        let time = local(entry.time, zone, "%Y-%m-%d %H:%M:%S");
        let (size, reason) = (bytes(entry.bytes), visible(&entry.about.reason));
        // Writing to a string can't fail.
        let _ =
            writeln!(text, "{time:<19}  {:<36} {size:>9} {:>6}  {reason}", entry.id, entry.repeats);
    }
    text
}

/// The first answer.
pub(super) fn answer(entry: &Shown, zone: &TimeZone) -> String {
    let (about, summary) = (&entry.about, &entry.about.summary);
    let mut text = format!("{}: {}\n", visible(&about.cause), visible(&about.reason));
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!("when      {}", local(entry.time, zone, "%Y-%m-%d %H:%M:%S%.3f %Z")));
    if !about.subject.is_empty() {
        line(format!("of        {}", visible(&about.subject)));
    }
    if entry.repeats != 0 {
        let last = local(entry.last_repeat, zone, "%H:%M:%S");
        line(format!("again     {} more, the last at {last}", counted(entry.repeats, "time")));
    }
    let (before, after) =
        (about.time.saturating_sub(about.held_from), about.until.saturating_sub(about.time));
    line(format!(
        "window    {} before and {} after it, {}",
        span(before),
        span(after),
        bytes(entry.bytes)
    ));
    if about.held_from > about.from {
        line(format!(
            "          without its first {}",
            span(about.held_from.saturating_sub(about.from))
        ));
    }
    if let Some(page) = &entry.page {
        line(format!("page      {}", visible(page)));
    }
    for note in &summary.notes {
        line(format!("note      {}", visible(note)));
    }
    if let Some(why) = &summary.why {
        line(String::new());
        why_lines(why).into_iter().for_each(&mut line);
    }
    if !summary.involved.is_empty() {
        line("\nthreads that it names".into());
        summary.involved.iter().for_each(|involved| line(involved_line(involved)));
    }
    if !summary.waits.is_empty() {
        line("\nlongest waits".into());
        for wait in &summary.waits {
            line(wait_line(wait));
            stack_line(wait).into_iter().for_each(&mut line);
        }
    }
    if !summary.hogs.is_empty() {
        line("\nran the most".into());
        for hog in &summary.hogs {
            line(format!("{:>11}  {}", span(hog.ns), thread(&hog.thread)));
        }
    }
    if !summary.failures.is_empty() {
        line("\ncalls that failed".into());
        for failure in &summary.failures {
            let (call, error) = (visible(&failure.call), visible(&failure.error));
            line(format!(
                "{:>11}  {call} {error}, most of {}",
                failure.count,
                thread(&failure.thread)
            ));
        }
    }
    let which =
        if entry.by_file { visible(&entry.path) } else { format!("--snapshot {}", entry.id) };
    line(format!("\nflightctl why {which}\nflightctl dump {which}"));
    text
}

/// The answer of `flightctl why`: the sentence, and where it is more than one, the links to the
/// cause.
fn why_lines(why: &Why) -> Vec<String> {
    let mut lines = vec![visible(&why.sentence)];
    if why.chain.len() > 1 {
        let links = (1..).zip(&why.chain).map(|(number, of)| {
            let WhyThread { tid, pid, name, .. } = &of.thread;
            let who = Thread { tid: *tid, tgid: pid.unwrap_or(0), name: name.clone() };
            format!("{number:>11}. {} {}", thread(&who), visible(&of.did))
        });
        lines.extend(links);
    }
    let doubts = why.chain.iter().filter_map(|of| of.doubt.as_ref()).chain(&why.doubts);
    lines.extend(doubts.map(|doubt| format!("uncertain {}", visible(doubt))));
    lines
}

fn involved_line(involved: &Involved) -> String {
    let Involved { thread: who, ran, queued, held, blocked, calls } = involved;
    let (ran, queued, blocked, calls) =
        (span(*ran), span(*queued), span(*blocked), counted(*calls, "call"));
    let held = if *held == 0 { String::new() } else { format!(", was held {}", span(*held)) };
    format!(
        "{:>11}  {}: ran {ran}, waited {queued} for a CPU{held}, was blocked {blocked}, {calls}",
        "",
        thread(who)
    )
}

fn wait_line(wait: &Wait) -> String {
    let what = match wait.kind {
        WaitKind::Queued if wait.idle => {
            "runnable while its CPU was idle (its quota was used up)".to_owned()
        }
        WaitKind::Queued => "for a CPU".to_owned(),
        WaitKind::Blocked => {
            let mut state = Vec::new();
            flags(&TASK_STATE, u64::from(wait.state), &mut state);
            String::from_utf8(state).unwrap_or_default()
        }
    };
    let call = wait.call.as_ref().map_or_else(String::new, |call| format!(" in {}", visible(call)));
    let waker = match (&wait.waker, wait.waker_context.as_deref()) {
        (Some(waker), _) => format!(", woken by {}", thread(waker)),
        (None, Some("softirq")) => ", woken by a softirq".to_owned(),
        (None, Some("hardirq")) => ", woken by an interrupt".to_owned(),
        (None, Some("nmi")) => ", woken by a non-maskable interrupt".to_owned(),
        _ => String::new(),
    };
    format!("{:>11}  {}: {what}{call}{waker}", span(wait.ns), thread(&wait.thread))
}

/// Where it waited, without the way into the kernel; `None`: not known.
fn stack_line(wait: &Wait) -> Option<String> {
    let entries = wait.stack.iter().rev().take_while(|of| is_entry(of)).count();
    let shown = wait.stack.get(..wait.stack.len() - entries).unwrap_or_default();
    let names: Vec<String> = shown.iter().map(visible).collect();
    (!names.is_empty()).then(|| format!("{:>11}    in {}", "", names.join(" <- ")))
}

fn thread(thread: &Thread) -> String {
    let name = visible(&thread.name);
    match thread.tgid {
        0 => format!("{name} ({})", thread.tid),
        tgid if tgid == thread.tid => format!("{name} ({tgid})"),
        tgid => format!("{name} ({} of {tgid})", thread.tid),
    }
}

#[cfg(test)]
mod tests {
    use super::super::shown::moment;
    use super::*;
    use flightrec_store::snapshot::{About, Failure, Hog, Summary, WhyLink};
    use flightrec_store::snapshots::Entry;

    fn entry() -> Shown {
        let db = Thread { tid: 12, tgid: 10, name: "db\u{1b}[1m".into() };
        let about = About {
            cause: "blocked".into(),
            subject: "process 10".into(),
            reason: "db \u{7}waits".into(),
            time: 40_000_000_000,
            wall: 1_795_262_703_000_000_000,
            from: 10_000_000_000,
            until: 45_000_000_000,
            held_from: 20_000_000_000,
            summary: Summary {
                notes: vec!["a \u{1b}note".into()],
                why: Some(Why {
                    sentence: "db\u{1b}[1m (12) waited".into(),
                    chain: [(12, 10, "db\u{1b}[1m", "waited 31.0 s"), (5, 5, "disk", "was in I/O")]
                        .map(|(tid, pid, name, did)| {
                            let thread = WhyThread {
                                tid,
                                pid: Some(pid),
                                name: name.into(),
                                ..WhyThread::default()
                            };
                            WhyLink { thread, did: did.into(), ..WhyLink::default() }
                        })
                        .into(),
                    doubts: vec!["a \u{1b}doubt".into()],
                    ..Why::default()
                }),
                involved: vec![Involved {
                    thread: db.clone(),
                    ran: 1_000_000,
                    calls: 1,
                    ..Involved::default()
                }],
                waits: vec![Wait {
                    thread: db.clone(),
                    ns: 31_000_000_000,
                    state: 2,
                    call: Some("fsync".into()),
                    waker: Some(Thread { tid: 5, tgid: 5, name: "disk".into() }),
                    stack: ["wait\u{1b}", "fsync [xfs]", "do_syscall_64"].map(Into::into).into(),
                    ..Wait::default()
                }],
                hogs: vec![Hog { thread: Thread { tid: 9, ..Thread::default() }, ns: 5_000_000 }],
                failures: vec![Failure {
                    call: "read".into(),
                    error: "EIO".into(),
                    count: 3,
                    thread: db,
                }],
                ..Summary::default()
            },
            ..About::default()
        };
        let file = Entry {
            id: "x-blocked".into(),
            path: "/s/x-blocked.flight".into(),
            bytes: 2048,
            modified: 0,
        };
        Shown {
            repeats: 7,
            last_repeat: moment(1_795_262_713_000_000_000),
            ..Shown::new(&file, about)
        }
    }

    #[test]
    fn a_wakeup_by_an_interrupt_names_no_thread() {
        let woken = |waker: Option<Thread>, context: Option<&str>| {
            let wait = Wait { waker, waker_context: context.map(str::to_owned), ..Wait::default() };
            wait_line(&wait).split_once("woken by ").map(|(_, by)| by.to_owned())
        };
        let disk = Thread { tid: 5, tgid: 5, name: "disk".into() };
        assert_eq!(woken(Some(disk.clone()), Some("thread")).unwrap(), "disk (5)");
        // Written by a release that did not know.
        assert_eq!(woken(Some(disk), None).unwrap(), "disk (5)");
        assert_eq!(woken(None, Some("hardirq")).unwrap(), "an interrupt");
        assert_eq!(woken(None, Some("softirq")).unwrap(), "a softirq");
        assert_eq!(woken(None, Some("nmi")).unwrap(), "a non-maskable interrupt");
        assert_eq!((woken(None, None), woken(None, Some("unknown"))), (None, None));
    }

    #[test]
    fn the_first_answer_as_people_read_it() {
        let text = answer(&entry(), &TimeZone::UTC);
        let expected = "\
blocked: db \\7waits
when      2026-11-21 12:05:03.000 UTC
of        process 10
again     7 times more, the last at 12:05:13
window    20.0 s before and 5.0 s after it, 2 KiB
          without its first 10.0 s
note      a \\33note

db\\33[1m (12) waited
          1. db\\33[1m (12 of 10) waited 31.0 s
          2. disk (5) was in I/O
uncertain a \\33doubt

threads that it names
             db\\33[1m (12 of 10): ran 1.0 ms, waited 0.0 ms for a CPU, was blocked 0.0 ms, 1 call

longest waits
     31.0 s  db\\33[1m (12 of 10): TASK_UNINTERRUPTIBLE in fsync, woken by disk (5)
               in wait\\33 <- fsync [xfs]

ran the most
     5.0 ms   (9)

calls that failed
          3  read EIO, most of db\\33[1m (12 of 10)

flightctl why --snapshot x-blocked
flightctl dump --snapshot x-blocked
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_quota_is_no_other_thread() {
        let thread = Thread { tid: 12, tgid: 12, name: "db".into() };
        let wait =
            Wait { thread, ns: 90_000_000, kind: WaitKind::Queued, idle: true, ..Wait::default() };
        let line = wait_line(&wait);
        assert_eq!(
            line,
            "    90.0 ms  db (12): runnable while its CPU was idle (its quota was used up)"
        );
        assert_eq!(wait_line(&Wait { idle: false, ..wait }), "    90.0 ms  db (12): for a CPU");
    }

    #[test]
    fn the_list_names_reasons_and_counts_on_one_line_each() {
        let text = list(&[entry()], &TimeZone::UTC);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[1].starts_with("2026-11-21 12:05:03  x-blocked "), "{text}");
        assert!(lines[1].contains("2 KiB      7  db \\"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
        assert_eq!(list(&[], &TimeZone::UTC), "");
    }
}
