//! An answer as JSON, as in `docs/flightctl-why.schema.json`.

use anyhow::Result;
use serde::Serialize;

use flightrec_analysis::why::{Culprit, Link, Share, Who};

use super::run::Answered;
use crate::schema::document;
use crate::wall::WallClock;

/// The object. Times are UNIX times in ns by the machine's clock, lengths in ns.
#[derive(Serialize)]
struct Object {
    sentence: String,
    subject: Option<Thread>,
    window: Stretch,
    shares: Vec<ShareObject>,
    chain: Vec<LinkObject>,
    culprits: Vec<CulpritObject>,
    complete: bool,
    doubts: Vec<String>,
    /// What is covered, a line each, as dump tells it.
    coverage: Vec<String>,
}

#[derive(Serialize)]
struct Thread {
    tid: u32,
    /// Null: not known.
    pid: Option<u32>,
    name: String,
    cgroup: Option<String>,
}

#[derive(Serialize)]
struct Stretch {
    #[serde(rename = "from_ns")]
    from: i64,
    #[serde(rename = "until_ns")]
    until: i64,
    #[serde(rename = "length_ns")]
    length: u64,
}

#[derive(Serialize)]
struct ShareObject {
    state: &'static str,
    what: String,
    ns: u64,
    percent: f64,
    count: u64,
}

#[derive(Serialize)]
struct LinkObject {
    thread: Thread,
    state: &'static str,
    from_ns: i64,
    until_ns: i64,
    ns: u64,
    count: u64,
    did: String,
    call: Option<String>,
    object: Option<String>,
    evidence: Vec<String>,
    doubt: Option<String>,
}

#[derive(Serialize)]
struct CulpritObject {
    thread: Option<Thread>,
    mechanism: &'static str,
    call: Option<String>,
    object: Option<String>,
    ns: u64,
}

/// The answer.
pub(super) fn answer(of: &mut Answered, coverage: &[String]) -> Result<String> {
    let Answered { answer, wall, .. } = of;
    let answer = std::mem::take(answer);
    let subject = answer.subject.as_ref();
    let object = Object {
        window: stretch(answer.from, answer.until, wall),
        subject: subject.cloned().map(thread),
        sentence: answer.sentence.clone(),
        shares: answer.shares.iter().cloned().map(share).collect(),
        chain: answer.chain.iter().cloned().map(|of| link(of, wall)).collect(),
        culprits: answer.culprits.iter().cloned().map(culprit).collect(),
        complete: answer.complete,
        doubts: answer.doubts.clone(),
        coverage: coverage.to_vec(),
    };
    of.answer = answer;
    Ok(document(object)?)
}

fn stretch(from: u64, until: u64, wall: &mut WallClock) -> Stretch {
    Stretch { from: wall.wall(from), until: wall.wall(until), length: until.saturating_sub(from) }
}

fn thread(of: Who) -> Thread {
    let Who { tid, pid, comm: name, group: cgroup } = of;
    Thread { tid, pid: (pid != 0).then_some(pid), name, cgroup }
}

fn share(of: Share) -> ShareObject {
    let Share { state, what, ns, percent, count } = of;
    ShareObject { state, what, ns, percent, count }
}

fn link(of: Link, wall: &mut WallClock) -> LinkObject {
    let Link { who, state, from, until, ns, count, did, call, object, evidence, doubt, .. } = of;
    let thread = thread(who);
    let state = if state.is_empty() { "unknown" } else { state };
    let (from_ns, until_ns) = (wall.wall(from), wall.wall(until));
    LinkObject { thread, state, from_ns, until_ns, ns, count, did, call, object, evidence, doubt }
}

fn culprit(of: Culprit) -> CulpritObject {
    let Culprit { who, mechanism, call, object, ns } = of;
    CulpritObject { thread: who.map(thread), mechanism, call, object, ns }
}
