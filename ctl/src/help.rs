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
            example("flightctl status", "does it record, since when, what was lost"),
            example("flightctl dump --last 5s", "what the machine did just now"),
            example("flightctl dump --help", "windows, filters, more examples"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "dump",
        examples: &[
            example("flightctl dump", "the last 10 seconds of the whole machine"),
            example("flightctl dump --last 1m --pid 4711", "one process, all its threads"),
            example(
                "flightctl dump --since 14:03:05 --until 14:03:07.5",
                "what happened at that time today",
            ),
            example(
                "flightctl dump --around 14:03:07",
                "5 s before and behind it; :30s behind it is more",
            ),
            example(
                "flightctl dump --around 1767225600.25:1s",
                "times as programs print them, too",
            ),
            example(
                "flightctl dump --all --syscall fsync,fdatasync",
                "every sync that is still there",
            ),
            example(
                "flightctl dump --unit nginx --errors",
                "which calls of a service failed, and how",
            ),
            example(
                "flightctl dump --tree 4711 --syscall %file,%process",
                "what a build or a script did",
            ),
            example(
                "flightctl dump --path '/etc/**' --syscall '!close'",
                "who uses files below /etc",
            ),
            example("flightctl dump --slower-than 100ms", "which calls took long"),
            example(
                "flightctl dump --slower-than 1ms --faster-than 10ms --comm 'nginx*'",
                "or not so long",
            ),
            example(
                "flightctl dump --event switch,waking --tid 4711",
                "when a thread ran, and who woke it",
            ),
            example(
                "flightctl dump --unit nginx --slower-than 100ms",
                "calls of a service that took long",
            ),
            example(
                "flightctl dump --tree 4711 --errors",
                "calls that failed, of a process and its descendants",
            ),
            example(
                "flightctl dump --path '/etc/**' --merge",
                "who did what to files, a call a line",
            ),
            example("flightctl dump --format jsonl | jq -c 'select(.ret < 0)'", "for programs"),
            example(
                "flightctl dump --comm nginx --strict -o /tmp/nginx.txt",
                "into a file; fails if anything is missing",
            ),
            example("flightctl dump --list-boots", "which boots there are files of"),
            example("flightctl dump --boot -1 --last 1m", "how the boot before this one ended"),
            example("flightctl dump incident.flight", "a saved file, from any machine: its window"),
            example("flightctl dump --snapshot latest", "the window of the newest snapshot"),
            example(
                "flightctl dump --vmcore /var/crash/202603041200/dump.202603041200",
                "the last 10 s before a panic",
            ),
            example(
                "flightctl dump --vmcore vmcore --store /mnt/var/lib/flightrec --last 1h",
                "its files as well",
            ),
            example(
                "flightctl dump --vmcore /proc/vmcore --in-flight",
                "what every thread was in the middle of then",
            ),
            example(
                "flightctl --bpffs-dir /run/flightrec/bpf dump",
                "without flightd, from the kernel's memory (root)",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "save",
        examples: &[
            example("flightctl save --last 30s -o incident.flight", "keep what just happened"),
            example(
                "flightctl save --since 14:03 --until 14:05 -o slow.flight",
                "keep what happened at that time today",
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
                "keep what matters",
            ),
            example(
                "flightctl recover /proc/vmcore -o /mnt/panic.flight",
                "in the crash kernel, before the dump",
            ),
            example("flightctl dump panic.flight --last 5s", "read it, on any machine"),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    },
    Notes {
        command: "ls",
        examples: &[
            example("flightctl ls", "the files of this machine"),
            example("flightctl ls --json /mnt/var/lib/flightrec", "those of another, for programs"),
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
            example("flightctl ps", "who waits, for how long, in which call; the worst first"),
            example(
                "flightctl ps --state D",
                "who can't even be killed; exit status 1 when nobody is",
            ),
            example("flightctl ps --json | jq -r '.threads[0].call.text'", "the worst one's call"),
            example(
                "flightctl ps --vmcore vmcore --state D",
                "who was stuck when the machine died",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "follow",
        examples: &[
            example("flightctl follow --comm nginx --errors", "calls that fail, as they fail"),
            example("flightctl follow --syscall process --merge", "what programs are started"),
            example(
                "flightctl follow --for 60s --strict -o /tmp/minute.txt",
                "a minute; fails if anything was skipped",
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
            example("flightctl top --around 14:03:07 --sort delay", "who waited for a CPU then"),
            example(
                "flightctl top incident.flight",
                "of the window of a saved file, or a snapshot",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "mark",
        examples: &[
            example(
                "flightctl mark 'deploy of 1.2 begins'",
                "say what you do, for whoever reads the recording",
            ),
            example("flightctl dump --all --event mark", "find the marks again"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "snapshot",
        examples: &[
            example("flightctl snapshot --reason 'the shop hangs'", "keep what was just now"),
            example("flightctl snapshot --last 2m --reason 'deploy failed'", "keep more of it"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "snapshots",
        examples: &[
            example("flightctl snapshots", "what was kept, and why"),
            example("flightctl snapshots show latest", "the first answer of the newest"),
            example("flightctl snapshots show 20260304T120000Z-oom.flight", "of one by its file"),
            example("flightctl dump --snapshot latest --errors", "its events"),
            example(
                "flightctl snapshots --json | jq -r '.snapshots[0].path'",
                "the newest one's file",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error],
    },
    Notes {
        command: "status",
        examples: &[
            example("flightctl status", "for people"),
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
            example(
                "flightctl doctor",
                "what to do before the day of the panic; as root it sees more",
            ),
            example("flightctl doctor --json | jq '.checks[] | select(.fix)'", "for programs"),
        ],
        exits: &[Exit::Fine, Exit::NotReady, Exit::Error],
    },
    Notes {
        command: "budget",
        examples: &[
            example("flightctl budget", "what recording costs, and on what"),
            example("flightctl budget set 0.5%", "at most so much of all CPUs, from now on (root)"),
            example("flightctl budget set --per-cpu 2%", "and of each CPU"),
            example("flightctl budget --json | jq .spent.minute.all_percent", "for programs"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    },
    Notes {
        command: "metrics",
        examples: &[
            example("flightctl metrics", "as OpenMetrics text"),
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
