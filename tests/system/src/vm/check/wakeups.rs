//! The contexts of wakeups, held against those that the kernel's own tracer has.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flightrec_format::abi::record::WakeContext;
use flightrec_tests::wakeups::{Agreement, Wakeup, of_ftrace};
use serde_json::Value;

/// The share of wakeups that must have the same context.
const LEAST: f64 = 0.999;
/// So many of each kind there are, or it was no trial.
const ENOUGH: u64 = 100;

/// How many wakeups have the same context by both.
#[derive(Debug)]
pub(super) struct Contexts {
    /// In percent.
    share: f64,
    traced: u64,
    /// For people.
    pub(super) line: String,
}

impl Contexts {
    /// For the table of kernels.
    pub(super) fn cell(&self) -> String {
        format!("{:.2} % of {}", self.share, self.traced)
    }
}

/// Both saw the same wakeups in the same contexts. Where timers of threads expire in softirqs
/// (PREEMPT_RT), hard interrupts wake few.
pub(super) fn contexts(files: &Path) -> Result<Contexts> {
    let trace = fs::read_to_string(files.join("wakeups.trace")).context("no trace of wakeups")?;
    let dump = fs::read_to_string(files.join("wakeups.jsonl")).context("no dump of wakeups")?;
    let recorded: Vec<Wakeup> = super::events(&dump)?.iter().map(wakeup).collect::<Result<_>>()?;
    let agreement = Agreement::of(&of_ftrace(&trace), &recorded);
    let [thread, softirq, hardirq] =
        [WakeContext::Thread, WakeContext::Softirq, WakeContext::Hardirq]
            .map(|context| agreement.in_context(context));
    let found = format!(
        "contexts of wakeups: {:.3} % of {} as ftrace has them ({thread} by threads, {softirq} \
         in softirqs, {hardirq} in hard interrupts)",
        100.0 * agreement.share(),
        agreement.traced()
    );
    ensure!(agreement.share() >= LEAST, "{found}: {agreement:?}");
    ensure!(thread >= ENOUGH && softirq >= ENOUGH && softirq + hardirq >= 2 * ENOUGH, "{found}");
    let traced = agreement.traced() as u64;
    Ok(Contexts { share: 100.0 * agreement.share(), traced, line: found })
}

fn wakeup(event: &Value) -> Result<Wakeup> {
    let number =
        |field: &str| event[field].as_u64().with_context(|| format!("no {field}: {event}"));
    let name = event["waker_context"].as_str().context("no context")?;
    let context = WakeContext::ALL.into_iter().find(|context| context.name() == name);
    Ok(Wakeup {
        time: number("mono_ns")?,
        cpu: u16::try_from(number("cpu")?)?,
        wakee: u32::try_from(number("wakee_tid")?)?,
        context: context.with_context(|| format!("context {name}"))?,
    })
}
