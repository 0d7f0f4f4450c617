//! What in a line of the kernel's log is a quotation: names of threads, which anybody may choose.
//!
//! A line is text, and the kernel puts names into it as they are: `BUG: x[77]: segfault at …`. It
//! does so in a few forms, and of the thread in which it logs the name is known; all that is
//! replaced by `?` before words are looked for. What can't be told apart is in docs/triggers.md.

use super::kernel_log::Line;

/// What stands after the name of the running thread where the kernel begins a line with it and
/// tells no process id.
const AFTER_NAME: [&str; 4] =
    [" invoked oom-killer", ": page allocation failure", ": page allocation stalls", " uses "];

/// Beginnings of lines of subsystems that quote no name, but for those that are told by what stands
/// around them.
const OWN_PREFIXES: [&str; 3] = ["watchdog: ", "NMI watchdog: ", "rcu: "];

/// The line without the names that it quotes. `words`: what is looked for.
pub(super) fn without_names(line: &Line, words: &[String]) -> String {
    let mut text = line.text.clone();
    for (begin, end) in [
        // mm/oom_kill.c: `dump_oom_summary`, `__oom_kill_process`.
        (",task=", ",pid="),
        ("Killed process ", " total-vm:"),
        // kernel/hung_task.c: `check_hung_task`; kernel/sched/core.c: `sched_show_task`.
        ("INFO: task ", " blocked for more than"),
        ("task:", " state:"),
        // kernel/watchdog.c: `watchdog_timer_fn`.
        ("s! [", "]"),
    ] {
        mask(&mut text, begin, end);
    }
    // lib/dump_stack.c: `dump_stack_print_info`.
    for end in [" Not tainted", " Tainted: "] {
        mask(&mut text, " Comm: ", end);
    }
    mask(&mut text, "'", "'");
    mask(&mut text, "`", "'");
    mask(&mut text, "\"", "\"");
    if let Some(row) = process_row(&text) {
        return row;
    }
    running(line, text, words)
}

/// Replaces what stands between two parts, up to the last that may be the second: a name may hold
/// that, too.
fn mask(text: &mut String, begin: &str, end: &str) {
    let Some(from) = text.find(begin).map(|at| at + begin.len()) else { return };
    let Some(length) = text.get(from..).and_then(|rest| rest.rfind(end)) else { return };
    text.replace_range(from..from + length, "?");
}

/// A row of the table of processes that is logged when memory runs out: numbers, and then a name
/// (mm/oom_kill.c: `dump_task`).
fn process_row(text: &str) -> Option<String> {
    let (id, rest) = text.strip_prefix('[')?.split_once(']')?;
    id.trim().parse::<u32>().ok()?;
    let mut name = rest;
    while let Some((word, rest)) = name.trim_start().split_once(' ')
        && word.parse::<i64>().is_ok()
    {
        name = rest;
    }
    Some(text.get(..text.len() - name.len())?.to_owned() + "?")
}

/// Without the name of the thread that ran: where its process id follows, where the kernel is known
/// to begin with it, and, if it is one of the words, anywhere but at the line's beginning, where
/// those are the kernel's own.
fn running(line: &Line, text: String, words: &[String]) -> String {
    let name = line.comm.as_str();
    if name.is_empty() {
        return text;
    }
    let spaced = format!("{name} ");
    let is_word = words.iter().any(|word| spaced.contains(word.as_str()));
    let own = OWN_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
    let ids = [line.tid, line.tgid];
    let of_id = |rest: &str| {
        let forms = ids.map(|id| {
            [
                format!("[{id}]"),
                format!("({id})"),
                format!(" ({id})"),
                format!(":{id}"),
                format!("/{id}"),
            ]
        });
        forms.as_flattened().iter().any(|form| rest.starts_with(form.as_str()))
    };
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once(name) {
        out.push_str(before);
        let inside = is_word && !own && !out.is_empty();
        let quoted =
            of_id(after) || AFTER_NAME.iter().any(|form| after.starts_with(form)) || inside;
        out.push_str(if quoted { "?" } else { name });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::triggers::kernel_log::is_wanted;

    fn line(comm: &str, text: &str) -> Line {
        Line { tid: 77, tgid: 70, uid: 1000, written: false, comm: comm.into(), text: text.into() }
    }

    fn shown(comm: &str, text: &str) -> String {
        without_names(&line(comm, text), &config::KernelLog::default().lines)
    }

    fn fires(comm: &str, text: &str) -> bool {
        is_wanted(&config::KernelLog::default().lines, &line(comm, text))
    }

    #[test]
    fn names_that_look_like_the_kernels_words_are_no_alarm() {
        for (comm, text) in [
            (
                "BUG: x",
                "BUG: x[77]: segfault at 0 ip 0000000000401136 sp 00007ffc error 4 in \
                 x[401000+1000]",
            ),
            (
                "BUG: x",
                "traps: BUG: x[77] general protection fault ip:401136 sp:7ffc error:0 in \
                 x[401000+1000]",
            ),
            (
                "Oops: x",
                "traps: Oops: x[77] trap divide error ip:401136 sp:7ffc error:0 in x[401000+1000]",
            ),
            ("BUG: x", "BUG: x (70): drop_caches: 3"),
            (
                "BUG: x",
                "BUG: x invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            ),
            ("BUG: x", "BUG: x: page allocation failure: order:5, mode:0x40dc0, nodemask=(null)"),
            ("BUG: x", "futex_wake_op: BUG: x tries to shift op by -1; fix this program"),
            (
                "BUG: x",
                "x86/split lock detection: #AC: BUG: x/77 took a split_lock trap at address: \
                 0x401136",
            ),
            (
                "sh",
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/a,task=BUG: \
                 ,pid=,pid=9,uid=5",
            ),
            (
                "sh",
                "Memory cgroup out of memory: Killed process 9 (Oops: ) total-vm:) total-vm:5kB, \
                 anon-rss:1kB",
            ),
            (
                "sh",
                "[     77]  1000    77      1234      500    65536        0             0 BUG: x",
            ),
            ("sh", "CPU: 1 PID: 77 Comm: BUG: x Not tainted 6.1.0 #1"),
            (
                "sh",
                "CPU: 1 UID: 0 PID: 77 Comm: WARNING: CPU: x Tainted: G        W          6.12.0 \
                 #1",
            ),
            (
                "sh",
                "task:BUG: x         state:D stack:0     pid:77    ppid:1      flags:0x00004006",
            ),
            ("sh", "process '/tmp/BUG: x' started with executable stack"),
            ("sh", "warning: `BUG: x' uses 32-bit capabilities (legacy support in use)"),
            (
                "sh",
                "audit: type=1701 audit(1.0:2): auid=0 uid=0 comm=\"BUG: x\" exe=\"/tmp/BUG: y\" \
                 sig=11 res=1",
            ),
        ] {
            assert!(!fires(comm, text), "{text}: {}", shown(comm, text));
        }
    }

    #[test]
    fn no_name_hides_the_kernels_own_words() {
        for text in [
            "BUG: kernel NULL pointer dereference, address: 0000000000000000",
            "Oops: 0002 [#1] SMP NOPTI",
            "WARNING: CPU: 1 PID: 77 at kernel/fork.c:20 x+0x1/0x2",
            "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] \
             PREEMPT SMP",
            "watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [x:77]",
            "INFO: task x:77 blocked for more than 122 seconds.",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "watchdog: Watchdog detected hard LOCKUP on cpu 1",
            "BUG: KASAN: slab-out-of-bounds in x+0x1/0x2",
        ] {
            let names = [
                "sh",
                "BUG",
                "BUG:",
                "BUG: ",
                "BUG: kernel",
                "BUG: KASAN",
                "BUG: soft",
                "BUG: soft lock",
                "hard LOCKUP",
                "soft lockup",
                "Oops",
                "Oops: 0002",
                "WARNING",
                "WARNING: CPU",
                "general",
                "INFO",
                "blocked",
                "B",
                ":",
                "watchdog",
                "rcu",
                "x",
                "77",
                "",
                "'",
                "\"",
            ];
            for comm in names {
                assert!(fires(comm, text), "{comm:?} hides {text}: {}", shown(comm, text));
            }
        }
    }

    #[test]
    fn what_a_process_writes_is_no_word_of_the_kernel() {
        let written = Line { written: true, ..line("sh", "BUG: kernel NULL pointer dereference") };
        assert!(!is_wanted(&config::KernelLog::default().lines, &written));
    }

    #[test]
    fn rows_and_marks_are_masked_whole() {
        assert_eq!(shown("sh", "[  77] 0 77 5 -17 a b 5 c"), "[  77] 0 77 5 -17 ?");
        assert_eq!(shown("x", "x[77]: segfault"), "?[77]: segfault");
        assert_eq!(shown("BUG: ", "BUG: y: BUG: "), "BUG: y: ?");
        assert_eq!(shown("sh", "it's \u{e4}'s"), "it'?'s");
    }
}
