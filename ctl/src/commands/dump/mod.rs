//! `flightctl dump`: what was recorded: events, or which boots or recordings there are.

pub mod args;
pub mod boots;
pub mod plan;
pub mod vmcore;

pub use self::args::DumpArgs;
pub use self::plan::DumpPlan;
use super::prelude::*;
use crate::events;

impl Arguments for DumpArgs {
    const HELP: Help = Help {
        about: "Print recorded events, one per line, in time order across all CPUs",
        examples: &[
            ("flightctl dump", "the last 10 seconds of the whole machine"),
            ("flightctl dump --last 1m --pid 4711", "one process, all of its threads"),
            (
                "flightctl dump --since 14:03:05 --until 14:03:07.5",
                "what happened at that time today",
            ),
            ("flightctl dump --around 14:03:07", "5 s before and after it; append :30s for more"),
            (
                "flightctl dump --around 1767225600.25:1s",
                "1 s around a UNIX time, as programs print it",
            ),
            (
                "flightctl dump --all --syscall fsync,fdatasync",
                "every sync that the recording still holds",
            ),
            (
                "flightctl dump --unit nginx --errors",
                "failed calls of a service, with their errors",
            ),
            (
                "flightctl dump --tree 4711 --syscall %file,%process",
                "files and processes of a build or a script",
            ),
            (
                "flightctl dump --path '/etc/**' --syscall '!close'",
                "which processes use files below /etc",
            ),
            ("flightctl dump --slower-than 100ms", "calls that took long"),
            (
                "flightctl dump --slower-than 1ms --faster-than 10ms --comm 'nginx*'",
                "calls between two durations",
            ),
            (
                "flightctl dump --event switch,waking --tid 4711",
                "when a thread ran, and which thread woke it",
            ),
            ("flightctl dump --unit nginx --slower-than 100ms", "slow calls of a service"),
            (
                "flightctl dump --tree 4711 --errors",
                "failed calls of a process and its descendants",
            ),
            ("flightctl dump --path '/etc/**' --merge", "calls on these files, one line per call"),
            (
                "flightctl dump --format jsonl | jq -c 'select(.ret < 0)'",
                "failed calls as JSON, for programs",
            ),
            (
                "flightctl dump --comm nginx --strict -o /tmp/nginx.txt",
                "write to a file; fail if anything is missing",
            ),
            ("flightctl dump --list-boots", "list the recorded boots"),
            ("flightctl dump --boot -1 --last 1m", "how the previous boot ended"),
            ("flightctl dump incident.flight", "a saved file, from any machine"),
            ("flightctl dump --snapshot latest", "the window of the newest snapshot"),
            (
                "flightctl dump --vmcore /var/crash/202603041200/dump.202603041200",
                "the last 10 s before a panic",
            ),
            (
                "flightctl dump --vmcore vmcore --store /mnt/var/lib/flightrec --last 1h",
                "the same with the files of that boot, further back",
            ),
            (
                "flightctl dump --vmcore /proc/vmcore --in-flight",
                "the call that each thread was in at the panic",
            ),
            (
                "flightctl --bpffs-dir /run/flightrec/bpf dump",
                "without flightd, from the kernel's memory (as root)",
            ),
        ],
        exits: &[Exit::Fine, Exit::Nothing, Exit::Error, Exit::Incomplete],
    };
    type Plan = DumpPlan;

    fn plan(self, recorder: RecorderArgs, now: &Zoned) -> Result<DumpPlan> {
        DumpPlan::new(self, &recorder, now)
    }

    fn remarks(&self, now: &Zoned) -> Vec<String> {
        self.past.window.remarks(now)
    }

    fn file(&self) -> Option<&Path> {
        self.shown.output.as_deref()
    }
}

impl Plan for DumpPlan {
    fn run(&self) -> Result<Exit> {
        match self {
            Self::Boots(plan) => boots::run(plan),
            Self::Events(plan) => events::run(plan),
            Self::Vmcore(plan) => vmcore::run(plan),
        }
    }
}
