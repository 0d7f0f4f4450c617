//! `flightctl budget`

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Serialize;

use flightrec_format::control::{Account, SPANS, Spent, Status};
use flightrec_reader::control::Client;

use super::prelude::*;
use crate::output::Output;
use crate::schema::document;
use crate::state::{Budget, State};
use flightrec_format::human::span;

/// Arguments of `budget`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BudgetArgs {
    /// Print one JSON object; field names and units are stable.
    #[arg(long)]
    json: bool,
    /// Change it instead of showing it.
    #[command(subcommand)]
    command: Option<BudgetCommand>,
}

/// What else is done with the budget.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Change the limits, as root, until flightd next reads its configuration.
    #[command(arg_required_else_help = true)]
    Set {
        /// CPU time of the whole machine, for example `0.5%`; `off` for no limit.
        #[arg(value_name = "TOTAL", value_parser = parse_share)]
        total: Option<u32>,
        /// CPU time that the probes may use of each CPU.
        #[arg(long, value_name = "SHARE", value_parser = parse_share)]
        per_cpu: Option<u32>,
    },
}

/// The budget, to show or to change.
#[derive(Debug, PartialEq)]
pub struct BudgetPlan {
    /// Directory of the control socket.
    runtime_dir: PathBuf,
    what: What,
}

/// What is done with the budget.
#[derive(Debug, PartialEq)]
enum What {
    /// It is shown.
    Show {
        /// As JSON.
        json: bool,
    },
    /// It is changed until the configuration is read again; millionths of CPU time, 0: no limit,
    /// `None`: as before.
    Set {
        /// Of the whole machine.
        total: Option<u32>,
        /// Of each CPU.
        per_cpu: Option<u32>,
    },
}

impl Arguments for BudgetArgs {
    const HELP: Help = Help {
        about: "Show what recording costs and its limits: by part and CPU; now, in the last \
                minute, and since flightd started",
        examples: &[
            ("flightctl budget", "the cost of recording, by part and CPU"),
            ("flightctl budget set 0.5%", "limit recording to 0.5 % of all CPUs (as root)"),
            ("flightctl budget set --per-cpu 2%", "limit the probes to 2 % of each CPU"),
            ("flightctl budget --json | jq .spent.minute.all_percent", "total cost, as JSON"),
        ],
        exits: &[Exit::Fine, Exit::Error],
    };
    type Plan = BudgetPlan;

    fn plan(self, recorder: RecorderArgs, _: &Zoned) -> Result<BudgetPlan> {
        let what = match self.command {
            None => What::Show { json: self.json },
            Some(BudgetCommand::Set { total, per_cpu }) => What::Set { total, per_cpu },
        };
        Ok(BudgetPlan { runtime_dir: recorder.runtime_dir, what })
    }
}

impl Plan for BudgetPlan {
    fn run(&self) -> Result<Exit> {
        let mut client = Client::connect(&self.runtime_dir)?;
        match self.what {
            What::Set { total, per_cpu } => client.set_budget(total, per_cpu)?,
            What::Show { json } => {
                let (account, status) = (client.account()?, client.status()?);
                let shown = Shown::new(&account, status);
                let text = if json { document(&shown)? } else { shown.text(&account) };
                Output::standard().print(text.as_bytes())?;
            }
        }
        Ok(Exit::Fine)
    }
}

/// A share of CPU time in millionths; 0 for `off`.
fn parse_share(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    let number = text.strip_suffix('%').map(str::trim_end);
    let number = number.filter(|number| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
    let percent: Option<f64> = number.and_then(|number| number.parse().ok());
    match percent {
        Some(percent) if (0.01..=100.0).contains(&percent) => {
            Ok((percent * 10_000.0).round() as u32)
        }
        Some(_) => Err("not within 0.01% to 100%; `off` is no limit".to_owned()),
        None => {
            Err("not a share of CPU time; use percent, for example 0.5%, or `off` for no limit"
                .to_owned())
        }
    }
}

/// The account, with the names that `--json` has: scripts rely on them.
#[derive(Debug, Serialize)]
struct Shown {
    /// How much is recorded of what is configured.
    level: &'static str,
    /// What may be spent, and what an event costs.
    budget: Budget,
    /// CPU time of each CPU that the probes may take; null: no limit.
    per_cpu_percent: Option<f64>,
    /// Seconds of unspent allowance that may be spent at once.
    burst_seconds: u32,
    /// What may be spent of the total at once now; below 0: spent in advance.
    left_seconds: f64,
    /// The steps by which the recording degrades, in this order.
    degrade_order: Vec<String>,
    /// Whether system calls may be detached.
    may_detach: bool,
    /// For how long they were, since the daemon began.
    detached_seconds: f64,
    /// The whole machine.
    spent: Spans<Parts>,
    /// Each CPU.
    cpus: Vec<Cpu>,
    #[serde(skip)]
    level_text: String,
}

/// The same of three spans of time.
#[derive(Debug, Serialize)]
struct Spans<T> {
    /// The last second or two.
    now: T,
    /// The last minute.
    minute: T,
    /// Since the daemon began.
    start: T,
}

impl<T> Spans<T> {
    fn from(values: [T; SPANS]) -> Self {
        let [now, minute, start] = values;
        Self { now, minute, start }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.now, &self.minute, &self.start].into_iter()
    }
}

/// What was spent on what, in percent of all CPUs together.
#[derive(Debug, Serialize)]
struct Parts {
    /// How long the span is.
    seconds: f64,
    calls_percent: f64,
    strings_percent: f64,
    sched_percent: f64,
    disk_percent: f64,
    overhead_percent: f64,
    drain_percent: f64,
    daemon_percent: f64,
    /// Answers to clients; not part of all.
    readers_percent: f64,
    all_percent: f64,
}

/// One of the parts.
type Part = fn(&Parts) -> f64;

/// One CPU's probes.
#[derive(Debug, Serialize)]
struct Cpu {
    #[serde(rename = "cpu")]
    number: u16,
    /// Steps that are taken.
    level: u32,
    /// What its probes may take now; null: no limit.
    limit_percent: Option<f64>,
    /// What they take, of this CPU.
    spent_percent: Spans<f64>,
}

fn percent(millionths: u32) -> Option<f64> {
    (millionths != 0).then(|| f64::from(millionths) / 10_000.0)
}

/// `ns` of so many CPUs for so long, in percent.
fn share(ns: u64, span: u64, cpus: usize) -> f64 {
    let whole = span as f64 * cpus as f64;
    if whole > 0.0 { ns as f64 * 100.0 / whole } else { 0.0 }
}

fn all(spent: &Spent) -> u64 {
    let Spent { calls, strings, sched, disk, floor } = *spent;
    [calls, strings, sched, disk, floor].into_iter().fold(0, u64::saturating_add)
}

impl Shown {
    fn new(account: &Account, status: Status) -> Self {
        let state = State::of_daemon(status);
        let cpus = account.cpus.len();
        let parts = |i: usize| {
            let span = account.spans.get(i).copied().unwrap_or(0);
            let [drain, daemon, readers] = account.daemon.get(i).copied().unwrap_or_default();
            let sum = |part: fn(&Spent) -> u64| {
                let of = account.cpus.iter().filter_map(|cpu| cpu.spent.get(i)).map(part);
                of.fold(0, u64::saturating_add)
            };
            let share = |ns: u64| share(ns, span, cpus);
            Parts {
                seconds: span as f64 / 1e9,
                calls_percent: share(sum(|spent| spent.calls)),
                strings_percent: share(sum(|spent| spent.strings)),
                sched_percent: share(sum(|spent| spent.sched)),
                disk_percent: share(sum(|spent| spent.disk)),
                overhead_percent: share(sum(|spent| spent.floor)),
                drain_percent: share(drain),
                daemon_percent: share(daemon),
                readers_percent: share(readers),
                all_percent: share(sum(all).saturating_add(drain).saturating_add(daemon)),
            }
        };
        let of_cpu = |cpu: &flightrec_format::control::CpuAccount| Cpu {
            number: cpu.cpu,
            level: cpu.level,
            limit_percent: percent(cpu.limit),
            spent_percent: Spans::from([0, 1, 2].map(|i: usize| {
                let span = account.spans.get(i).copied().unwrap_or(0);
                cpu.spent.get(i).map_or(0.0, |spent| share(all(spent), span, 1))
            })),
        };
        Self {
            level: state.level.name(),
            level_text: state.level_text(),
            budget: state.budget,
            per_cpu_percent: percent(account.per_cpu),
            burst_seconds: account.burst_seconds,
            left_seconds: account.left as f64 / 1e9,
            degrade_order: account.order.clone(),
            may_detach: account.may_detach,
            detached_seconds: account.detached as f64 / 1e9,
            spent: Spans::from([0, 1, 2].map(parts)),
            cpus: account.cpus.iter().map(of_cpu).collect(),
        }
    }

    fn text(&self, account: &Account) -> String {
        let mut out = String::new();
        let mut row = |name: &str, value: &str| {
            // Writing to a string can't fail.
            let _ = writeln!(out, "{name:<12} {value}");
        };
        let limit = |limit: Option<f64>, of: &str| {
            limit.map_or_else(|| format!("no limit {of}"), |percent| format!("{percent} % {of}"))
        };
        let total = limit(percent(account.total), "of all CPUs together");
        let per_cpu = limit(self.per_cpu_percent, "of each CPU");
        row("limits", &format!("{total}; {per_cpu}; {} s of it in a burst", self.burst_seconds));
        if account.total != 0 {
            row(
                "left",
                &format!(
                    "{:.1} ms of the total may be spent at \
                                  once",
                    self.left_seconds * 1e3
                ),
            );
        }
        row("level", &self.level_text);
        let order = if self.degrade_order.is_empty() {
            "no steps".to_owned()
        } else {
            self.degrade_order.join(", ")
        };
        let detach = if self.may_detach { "; system calls may be detached" } else { "" };
        row("degrades", &format!("{order}{detach}"));
        if account.detached != 0 {
            row("detached", &format!("for {} since flightd began", span(account.detached)));
        }
        let Budget {
            call_ns,
            string_ns,
            sched_ns,
            call_overhead_ns,
            sched_overhead_ns,
            disk_ns,
            disk_overhead_ns,
            measured,
            ..
        } = &self.budget;
        let how = if *measured { "measured here" } else { "assumed" };
        row(
            "an event",
            &format!(
                "a call costs {call_ns} ns ({call_overhead_ns} of it probe overhead), a string \
                 {string_ns}, a switch or wakeup {sched_ns} ({sched_overhead_ns}), a disk event \
                 {disk_ns} ({disk_overhead_ns}); {how}"
            ),
        );
        let running = account.spans.last().copied().unwrap_or(0);
        let _ = writeln!(
            out,
            "\n{:<34}{:>10}{:>10}{:>14}\n{:<34}{:>10}{:>10}{:>14}",
            "percent of all CPUs together",
            "now",
            "1 min",
            "since start",
            "",
            "",
            "",
            format!("({})", span(running))
        );
        let lines: [(&str, Part); 9] = [
            ("probes: system calls", |p| p.calls_percent),
            ("probes: their strings", |p| p.strings_percent),
            ("probes: scheduling", |p| p.sched_percent),
            ("probes: disk requests", |p| p.disk_percent),
            ("probe overhead", |p| p.overhead_percent),
            ("drain, compression, writing", |p| p.drain_percent),
            ("flightd otherwise", |p| p.daemon_percent),
            ("in all", |p| p.all_percent),
            ("not included: answering readers", |p| p.readers_percent),
        ];
        for (name, part) in lines {
            figures(&mut out, name, self.spent.iter().map(part));
        }
        out.push_str("\npercent of each CPU\n");
        for cpu in &self.cpus {
            let limit = cpu
                .limit_percent
                .map_or_else(|| "no limit".to_owned(), |limit| format!("of {limit:.2}"));
            let name = format!("CPU {:<4} level {}, {limit}", cpu.number, cpu.level);
            figures(&mut out, &name, cpu.spent_percent.iter().copied());
        }
        out
    }
}

fn figures(out: &mut String, name: &str, values: impl Iterator<Item = f64>) {
    // Writing to a string can't fail.
    let _ = write!(out, "  {name:<32}");
    for (value, width) in values.zip([10, 10, 14]) {
        let _ = write!(out, "{value:>width$.3}");
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::testing::status;
    use flightrec_format::control::CpuAccount;
    use serde_json::Value;

    fn account() -> Account {
        const S: u64 = 1_000_000_000;
        let spent =
            |n: u64| Spent { calls: n, strings: 2 * n, sched: 3 * n, disk: 0, floor: 4 * n };
        let cpu = |cpu, level, limit, n| CpuAccount {
            cpu,
            level,
            limit,
            spent: [spent(n), spent(30 * n), spent(50 * n)],
        };
        Account {
            per_cpu: 50_000,
            total: 10_000,
            burst_seconds: 30,
            order: vec!["no_strings".into(), "quiet_only".into()],
            may_detach: true,
            left: -5_000_000,
            detached: 2 * S,
            spans: [S, 60 * S, 100 * S],
            daemon: [[10_000_000, 2_000_000, 4_000_000], [0; 3], [0; 3]],
            cpus: vec![cpu(0, 0, 50_000, 1_000_000), cpu(1, 2, 0, 0)],
        }
    }

    #[test]
    fn every_figure_is_shown() {
        let account = account();
        let text = Shown::new(&account, status()).text(&account);
        for part in [
            "limits       1 % of all CPUs together; 5 % of each CPU; 30 s of it in a burst\n",
            "left         -5.0 ms of the total may be spent at once\n",
            "level        untimed_exits: no_strings, untimed_exits on CPU 1\n",
            "degrades     no_strings, quiet_only; system calls may be detached\n",
            "detached     for 2.0 s since flightd began\n",
            "an event     a call costs 260 ns (140 of it probe overhead), a string 120, a \
             switch or wakeup 200 (100), a disk event 250 (110); measured here\n",
            "  probes: system calls                 0.050     0.025         0.025\n",
            "  probe overhead                       0.200     0.100         0.100\n",
            "  drain, compression, writing          0.500     0.000         0.000\n",
            "  in all                               1.100     0.250         0.250\n",
            "  not included: answering readers      0.200     0.000         0.000\n",
            "  CPU 0    level 0, of 5.00            1.000     0.500         0.500\n",
            "  CPU 1    level 2, no limit           0.000     0.000         0.000\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
    }

    #[test]
    fn json_has_the_documented_names() {
        let json = serde_json::to_value(Shown::new(&account(), status())).unwrap();
        for (pointer, want) in [
            ("/level", Value::from("untimed_exits")),
            ("/budget/total_percent", 1.0.into()),
            ("/per_cpu_percent", 5.0.into()),
            ("/left_seconds", (-0.005).into()),
            ("/degrade_order/0", "no_strings".into()),
            ("/detached_seconds", 2.0.into()),
            ("/spent/now/all_percent", 1.1.into()),
            ("/spent/now/readers_percent", 0.2.into()),
            ("/spent/minute/seconds", 60.0.into()),
            ("/spent/start/overhead_percent", 0.1.into()),
            ("/cpus/1/limit_percent", Value::Null),
            ("/cpus/0/spent_percent/now", 1.0.into()),
        ] {
            assert_eq!(json.pointer(pointer), Some(&want), "{pointer}");
        }
    }

    #[test]
    fn a_daemon_that_knows_no_cpu() {
        let account = Account { cpus: Vec::new(), spans: [0; SPANS], ..account() };
        let text = Shown::new(&account, status()).text(&account);
        assert!(text.contains("in all") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn shares_are_percent() {
        assert_eq!(
            ["1%", "0.5 %", "off", "100%"].map(|text| parse_share(text).ok()),
            [10_000, 5000, 0, 1_000_000].map(Some)
        );
        for wrong in ["1", "0%", "101%", "inf%", "-1%", "%", "1e1%"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }
}
