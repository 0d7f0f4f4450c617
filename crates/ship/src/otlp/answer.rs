//! What `flightctl why --format json --spans N` says of a snapshot, as far as it is told on.

use serde::Deserialize;

/// The answer. Every field may be missing: of a time of which nothing is recorded, all are.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// In a sentence.
    pub sentence: String,
    /// Whom it is about.
    pub subject: Option<Thread>,
    /// Nothing that it goes by is missing.
    pub complete: bool,
    /// What it can't be sure of.
    pub doubts: Vec<String>,
    /// Causes, the most likely first.
    pub culprits: Vec<Culprit>,
    /// The unit of the subject.
    pub unit: String,
    /// Its container and pod.
    pub container: Container,
    /// The span that it worked for.
    pub trace: Option<Trace>,
    /// Waits in spans.
    pub spans: Vec<Wait>,
    /// How many are left out.
    pub spans_left_out: u64,
    /// How many are of spans that are not sampled.
    pub spans_unsampled: u64,
}

/// A thread.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its process; `None`: not known.
    pub pid: Option<u32>,
    /// Its name.
    pub name: String,
    /// Path of its control group.
    pub cgroup: Option<String>,
}

/// A container; texts that are not known are empty.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its pod.
    pub pod: String,
    /// The pod's uid.
    pub pod_uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// Its image.
    pub image: String,
}

/// A cause.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Culprit {
    /// The thread; `None`: it was none.
    pub thread: Option<Thread>,
    /// What it did.
    pub mechanism: String,
    /// In which call.
    pub call: Option<String>,
    /// What that is about.
    pub object: Option<String>,
}

/// A span of a trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Trace {
    /// The trace, in hexadecimal digits.
    pub trace_id: String,
    /// The span.
    pub span_id: String,
    /// Its flags.
    pub flags: u8,
}

/// A wait in a span.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// The span.
    pub trace: Trace,
    /// The thread.
    pub thread: Thread,
    /// Start, ns since 1970.
    pub from_ns: i64,
    /// End.
    pub until_ns: i64,
    /// The start by the machine's own clock.
    pub mono_ns: u64,
    /// It went on when the window ended.
    pub goes_on: bool,
    /// The call.
    pub call: String,
    /// As `flightctl why` has it.
    pub state: String,
    /// What the thread did, in words.
    pub did: String,
    /// What the call is about.
    pub object: Option<String>,
    /// The cause.
    pub culprit: Option<Culprit>,
    /// What is not sure of it.
    pub doubt: Option<String>,
}

impl Trace {
    /// The ids as bytes; `None`: they are none.
    pub fn ids(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((bytes(&self.trace_id, 16)?, bytes(&self.span_id, 8)?))
    }
}

fn bytes(digits: &str, length: usize) -> Option<Vec<u8>> {
    let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..length).map(byte).collect();
    bytes.filter(|_| digits.len() == 2 * length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_empty() {
        let answer: Answer = serde_json::from_str("{\"schema_version\":1}").unwrap();
        assert_eq!(answer, Answer::default());
        let text = r#"{"sentence":"s","subject":null,"container":{"pod":"p"},"later":[1],
            "spans":[{"trace":{"trace_id":"","span_id":"x","flags":1},"culprit":null}]}"#;
        let answer: Answer = serde_json::from_str(text).unwrap();
        assert_eq!((answer.container.pod.as_str(), answer.spans.len()), ("p", 1));
        assert_eq!(answer.spans[0].trace.ids(), None);
    }

    #[test]
    fn ids_are_bytes() {
        let of = |trace: &str, span: &str| {
            Trace { trace_id: trace.into(), span_id: span.into(), flags: 1 }.ids()
        };
        let long = "0af7651916cd43dd8448eb211c80319c";
        let (trace, span) = of(long, "b7ad6b7169203331").unwrap();
        assert_eq!((trace.len(), trace[1], span[7]), (16, 0xf7, 0x31));
        assert_eq!(of(long, "b7ad6b71692033310"), None);
        assert_eq!(of(&long.replace('a', "\u{e4}"), "b7ad6b7169203331"), None);
    }
}
