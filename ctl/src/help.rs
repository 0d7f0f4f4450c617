//! What help and manual pages say beyond the options: examples, exit status. One table for both,
//! and tests hold every example against the definition.

use std::fmt::Write as _;

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::Exit;

/// A command line, and what it is for.
#[derive(Debug)]
pub struct Example {
    /// The line, as typed.
    pub line: &'static str,
    /// What it does.
    pub says: &'static str,
}

/// What is said of one command.
#[derive(Debug)]
pub struct Notes {
    /// The command; `flightctl` for the program as a whole.
    pub command: &'static str,
    /// At least one.
    pub examples: &'static [Example],
    /// How it may end.
    pub exits: &'static [Exit],
}

const fn example(line: &'static str, says: &'static str) -> Example {
    Example { line, says }
}

/// Every command's notes.
pub const NOTES: &[Notes] = &[
    Notes {
        command: "flightctl",
        examples: &[
            example("flightctl status", "is it recording, since when, what was lost"),
            example("flightctl dump --last 5s", "what the machine did in the last 5 seconds"),
            example("flightctl dump --help", "windows, filters, more examples"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "dump",
        examples: &[
            example("flightctl dump", "the last 10 seconds of the whole machine"),
            example("flightctl dump --last 1m --pid 4711", "one process, all of its threads"),
            example(
                "flightctl dump --since 14:03:05 --until 14:03:07.5",
                "what happened at that time today",
            ),
            example(
                "flightctl dump --around 14:03:07",
                "5 s before and after it; append :30s for more",
            ),
            example(
                "flightctl dump --around 1767225600.25:1s",
                "1 s around a UNIX time, as programs print it",
            ),
            example(
                "flightctl dump --all --syscall fsync,fdatasync",
                "every sync that the recording still holds",
            ),
            example(
                "flightctl dump --unit nginx --errors",
                "failed calls of a service, with their errors",
            ),
            example(
                "flightctl dump --tree 4711 --syscall %file,%process",
                "files and processes of a build or a script",
            ),
            example(
                "flightctl dump --path '/etc/**' --syscall '!close'",
                "which processes use files below /etc",
            ),
            example("flightctl dump --slower-than 100ms", "calls that took long"),
            example(
                "flightctl dump --slower-than 1ms --faster-than 10ms --comm 'nginx*'",
                "calls between two durations",
            ),
            example(
                "flightctl dump --event switch,waking --tid 4711",
                "when a thread ran, and which thread woke it",
            ),
            example("flightctl dump --unit nginx --slower-than 100ms", "slow calls of a service"),
            example(
                "flightctl dump --tree 4711 --errors",
                "failed calls of a process and its descendants",
            ),
            example(
                "flightctl dump --path '/etc/**' --merge",
                "calls on these files, one line per call",
            ),
            example(
                "flightctl dump --format jsonl | jq -c 'select(.ret < 0)'",
                "failed calls as JSON, for programs",
            ),
            example(
                "flightctl dump --comm nginx --strict -o /tmp/nginx.txt",
                "write to a file; fail if anything is missing",
            ),
            example("flightctl dump --list-boots", "list the recorded boots"),
            example("flightctl dump --boot -1 --last 1m", "how the previous boot ended"),
            example("flightctl dump incident.flight", "a saved file, from any machine"),
            example("flightctl dump --snapshot latest", "the window of the newest snapshot"),
            example(
                "flightctl dump --vmcore /var/crash/202603041200/dump.202603041200",
                "the last 10 s before a panic",
            ),
            example(
                "flightctl dump --vmcore vmcore --store /mnt/var/lib/flightrec --last 1h",
                "the same with the files of that boot, further back",
            ),
            example(
                "flightctl dump --vmcore /proc/vmcore --in-flight",
                "the call that each thread was in at the panic",
            ),
            example(
                "flightctl --bpffs-dir /run/flightrec/bpf dump",
                "without flightd, from the kernel's memory (as root)",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "save",
        examples: &[
            example("flightctl save --last 30s -o incident.flight", "save what just happened"),
            example(
                "flightctl save --since 14:03 --until 14:05 -o slow.flight",
                "save what happened at that time today",
            ),
            example("flightctl dump incident.flight", "read it, on any machine"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "recover",
        examples: &[
            example(
                "flightctl recover /var/crash/202603041200/dump.202603041200 -o panic.flight",
                "extract the recording from a dump",
            ),
            example(
                "flightctl recover /proc/vmcore -o /mnt/panic.flight",
                "in the crash kernel, before the dump is taken",
            ),
            example("flightctl dump panic.flight --last 5s", "read it, on any machine"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "ls",
        examples: &[
            example("flightctl ls", "the files of this machine"),
            example(
                "flightctl ls --json /mnt/var/lib/flightrec",
                "the files of another machine, as JSON",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "verify",
        examples: &[
            example("flightctl verify", "check all files of this machine"),
            example("flightctl verify incident.flight", "check one file"),
        ],
        exits: &[Exit::Fine, Exit::Damaged, Exit::Error],
    },
    Notes {
        command: "ps",
        examples: &[
            example("flightctl ps", "blocked threads, longest first, with their calls"),
            example(
                "flightctl ps --state D",
                "uninterruptible threads; exit status 1 if there are none",
            ),
            example(
                "flightctl ps --json | jq -r '.threads[0].call.text'",
                "the call that is blocked the longest",
            ),
            example("flightctl ps --vmcore vmcore --state D", "uninterruptible threads at a panic"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "follow",
        examples: &[
            example("flightctl follow --comm nginx --errors", "failed calls, live"),
            example(
                "flightctl follow --syscall process --merge",
                "programs that are started, live",
            ),
            example(
                "flightctl follow --for 60s --strict -o /tmp/minute.txt",
                "one minute; fail if anything was skipped",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "top",
        examples: &[
            example("flightctl top", "the busiest threads, live; q quits"),
            example(
                "flightctl top --once -n 5 --interval 3s",
                "one table of three seconds, as text",
            ),
            example(
                "flightctl top --around 14:03:07 --sort delay",
                "threads that waited for a CPU at that time",
            ),
            example(
                "flightctl top incident.flight",
                "for the window of a saved file or a snapshot",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "mark",
        examples: &[
            example(
                "flightctl mark 'deploy of 1.2 begins'",
                "note what you do, for readers of the recording",
            ),
            example("flightctl dump --all --event mark", "list all marks"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "snapshot",
        examples: &[
            example(
                "flightctl snapshot --reason 'the shop hangs'",
                "save a snapshot of recent history",
            ),
            example(
                "flightctl snapshot --last 2m --reason 'deploy failed'",
                "save the last two minutes",
            ),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "snapshots",
        examples: &[
            example("flightctl snapshots", "list the snapshots and their causes"),
            example("flightctl snapshots show latest", "the summary of the newest one"),
            example(
                "flightctl snapshots show 20260304T120000Z-oom.flight",
                "the summary of a snapshot file",
            ),
            example("flightctl dump --snapshot latest --errors", "its failed calls"),
            example(
                "flightctl snapshots --json | jq -r '.snapshots[0].path'",
                "the file of the newest one",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "status",
        examples: &[
            example("flightctl status", "print the status as text"),
            example(
                "flightctl status --json | jq .lanes.syscall.held_seconds",
                "how far back system calls go",
            ),
            example(
                "flightctl status --json | jq '[.lanes[].lost | add] | add'",
                "events lost since the start",
            ),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "doctor",
        examples: &[
            example("flightctl doctor", "check this machine; as root it can check more"),
            example(
                "flightctl doctor --json | jq '.checks[] | select(.fix)'",
                "what to fix, as JSON",
            ),
        ],
        exits: &[Exit::Fine, Exit::NotReady, Exit::Error],
    },
    Notes {
        command: "budget",
        examples: &[
            example("flightctl budget", "the cost of recording, by part and CPU"),
            example("flightctl budget set 0.5%", "limit recording to 0.5 % of all CPUs (as root)"),
            example("flightctl budget set --per-cpu 2%", "limit the probes to 2 % of each CPU"),
            example(
                "flightctl budget --json | jq .spent.minute.all_percent",
                "total cost, as JSON",
            ),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "metrics",
        examples: &[
            example("flightctl metrics", "print all metrics"),
            example(
                "flightctl metrics | sponge /var/lib/prometheus/node-exporter/flightrec.prom",
                "for node_exporter's textfile collector, from a timer",
            ),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
];

/// A command's notes.
pub fn notes(command: &str) -> Option<&'static Notes> {
    NOTES.iter().find(|notes| notes.command == command)
}

/// The whole command line, with examples and exit status behind each command's help.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, with_notes);
    }
    with_notes(command)
}

fn with_notes(command: clap::Command) -> clap::Command {
    match notes(command.get_name()) {
        Some(notes) => command.after_help(notes.text()),
        None => command,
    }
}

impl Notes {
    /// Both, as text.
    fn text(&self) -> String {
        let mut text = String::from("Examples:\n");
        for Example { line, says } in self.examples {
            // Writing to a string can't fail.
            let _ = writeln!(text, "  {line}\n        {says}");
        }
        text.push_str("\nExit status:\n");
        for exit in self.exits {
            let _ = writeln!(text, "  {}  {}", exit.code(), exit.describe());
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use clap::FromArgMatches;
    use jiff::Zoned;

    /// The words of a line up to the first pipe: in single quotes a word, else by blanks.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (i, part) in line.split('\'').enumerate() {
            if i % 2 == 1 {
                words.push(part.to_owned());
            } else {
                words.extend(part.split_whitespace().map(str::to_owned));
            }
        }
        let end = words.iter().position(|word| word == "|").unwrap_or(words.len());
        words.truncate(end);
        words
    }

    #[test]
    fn every_command_has_examples() {
        let mut all = command();
        all.build();
        for sub in
            all.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
        {
            let name = sub.get_name();
            let help = sub.clone().render_long_help().to_string();
            assert!(
                help.contains("Examples:\n  flightctl "),
                "no examples in the help of {name}: add it to help::NOTES"
            );
            assert!(help.contains("Exit status:\n  0  "), "no exit status in the help of {name}");
            let own = notes(name)
                .expect("notes")
                .examples
                .iter()
                .any(|e| words(e.line).contains(&name.to_owned()));
            assert!(own, "no example of {name} is one of it");
        }
        assert!(all.render_help().to_string().contains("Examples:"));
    }

    #[test]
    fn every_example_is_right() {
        for notes in NOTES {
            for example in notes.examples {
                // As the program does: syntax, then sense.
                match command().try_get_matches_from(words(example.line)) {
                    Ok(matches) => {
                        let plan =
                            Plan::new(Cli::from_arg_matches(&matches).unwrap(), &Zoned::now());
                        assert!(plan.is_ok(), "{}: {plan:?}", example.line);
                    }
                    Err(e) => assert!(!e.use_stderr(), "{}: {e}", example.line),
                }
            }
        }
    }

    #[test]
    fn no_command_has_two_notes() {
        let mut names: Vec<&str> = NOTES.iter().map(|notes| notes.command).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "only the first of them is shown");
    }

    #[test]
    fn notes_are_of_commands_that_exist() {
        let all = command();
        for notes in NOTES {
            assert!(
                notes.command == all.get_name() || all.find_subcommand(notes.command).is_some(),
                "{notes:?}"
            );
        }
    }

    #[test]
    fn help_fits_a_terminal() {
        for notes in NOTES {
            for line in notes.text().lines() {
                assert!(line.chars().count() <= 80, "{line:?}");
            }
        }
    }
}
