//! Pages taken out of a saved recording of an incident: `flightctl why` finds the same cause, or
//! says what is missing and blames nobody.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use flightrec_format::decode::Page;
use flightrec_store::{Content, FileReader, FileWriter};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::start;
use crate::why::{AROUND, Incident, expected, valid};

/// Incidents whose causes are other threads.
const INCIDENTS: [&str; 3] = ["03-pipe-chain", "10-cron-lock", "19-sigstop"];
/// Of a hundred pages so many are taken away, in turn.
const TAKEN_PERCENT: [u64; 4] = [3, 10, 30, 60];
/// Rounds of one incident.
const ROUNDS: u64 = 24;

/// Random numbers that are the same ones every time.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Writes a file without some of its pages; how many it left out.
fn thin(from: &Path, to: &Path, mut is_taken: impl FnMut(&Page) -> bool) -> usize {
    let reader = FileReader::open(from).expect("a saved file");
    let mut writer = FileWriter::new(Vec::new(), reader.header(), 1).expect("a file");
    let mut taken = 0;
    for block in reader.blocks() {
        match reader.read(block).expect("a block") {
            Content::Meta(meta) => writer.meta(&meta, block.header.first),
            Content::Pages(pages) => {
                let all = pages.len();
                let kept: Vec<Page> = pages.into_iter().filter(|page| !is_taken(page)).collect();
                taken += all - kept.len();
                if kept.is_empty() { Ok(()) } else { writer.pages(&kept) }
            }
            Content::Descriptors(bytes) => writer.descriptors(block.header.first, &bytes),
            Content::Checkpoint(checkpoint) => writer.checkpoint(&checkpoint),
            // A thread's name and process may be lost as well.
            Content::Slots(_) | Content::Snapshot(_) => Ok(()),
        }
        .expect("a block");
    }
    fs::write(to, writer.finish().expect("a file")).expect("a file");
    taken
}

/// Who is blamed, and for what; the first is blamed most.
fn culprits(answer: &Value) -> Vec<(Option<u64>, String)> {
    let of = |culprit: &Value| {
        let mechanism = culprit["mechanism"].as_str().expect("a mechanism").to_owned();
        (culprit["thread"]["tid"].as_u64(), mechanism)
    };
    answer["culprits"].as_array().expect("culprits").iter().map(of).collect()
}

#[test]
#[ignore = "long: dozens of answers about parts of a recording"]
fn what_is_missing_is_nobodys_fault() {
    let dir = TempDir::new().expect("a directory");
    // With the default budget, what else this machine does might be paid for with an incident's
    // events.
    let recorder = start("");
    let expected = expected();
    let (mut same, mut none) = (0, 0);
    for id in INCIDENTS {
        let incident = Incident::happen(&expected, id, dir.path()).expect("an incident");
        let (since, until) = (incident.ns("begin_ns", -AROUND), incident.ns("end_ns", AROUND));
        let tid = incident.truth["tid"].to_string();
        let whole = dir.path().join(format!("{id}.flight"));
        let file = whole.to_str().expect("a path");
        let saved = recorder.flightctl(&["save", "--since", &since, "--until", &until, "-o", file]);
        assert!(saved.status.success(), "{saved:?}");
        let ask = |file: &Path| {
            let file = file.to_str().expect("a path");
            let window = ["--since", &since, "--until", &until];
            let asked = ["why", "--format", "json", "--file", file, "--tid", &tid];
            recorder.flightctl(&[&asked[..], &window].concat())
        };
        let truth = valid(&ask(&whole));
        let sentence = truth["sentence"].as_str().expect("a sentence");
        assert!(incident.is_named_in(sentence), "{truth:#}");
        // A chain that ends early may end at any of its threads.
        let chain = truth["chain"].as_array().expect("a chain").iter();
        let mut blamed: BTreeSet<Option<u64>> =
            chain.map(|link| link["thread"]["tid"].as_u64()).collect();
        blamed.extend(culprits(&truth).into_iter().map(|(tid, _)| tid));
        blamed.remove(&None);
        let mut random = Random(7);
        for round in 0..ROUNDS {
            let percent = TAKEN_PERCENT[(round % TAKEN_PERCENT.len() as u64) as usize];
            let less = dir.path().join("less.flight");
            let taken = thin(&whole, &less, |_| random.below(100) < percent);
            let output = ask(&less);
            // Nothing of the thread is left.
            if output.stdout.is_empty() {
                none += 1;
                continue;
            }
            let answer = valid(&output);
            let sentence = answer["sentence"].as_str().expect("a sentence");
            let culprits = culprits(&answer);
            let is_same = culprits.first().is_some_and(|(tid, _)| blamed.contains(tid));
            if is_same || incident.is_named_in(sentence) {
                same += 1;
                continue;
            }
            none += 1;
            let doubts = answer["doubts"].as_array().expect("doubts");
            let told = format!("{id}, round {round}, {taken} pages less: {answer:#}");
            assert!(culprits.is_empty(), "blames somebody else: {told}");
            assert!(!doubts.is_empty(), "no doubt: {told}");
            assert_eq!(answer["complete"], false, "{told}");
        }
    }
    eprintln!("{same} answers with the same culprit, {none} without any");
    assert!(same > 0 && none > 0, "{same} {none}");
}
