//! Kinds of event by the names that `flightctl dump --format jsonl` has for them.

use flightrec_format::abi::kinds::Kind;
use flightrec_format::abi::record::Act;
use flightrec_format::decode::Body;

/// The name of an event's kind: what the recorder did is a mark by it, or a change of its level.
pub(crate) fn name(body: &Body) -> &'static str {
    match body {
        Body::Act(act, _) => {
            let levels = [Act::Level, Act::Detached, Act::Attached];
            let is_level = levels.into_iter().any(|level| level as u16 == *act);
            if is_level { "level" } else { Kind::Mark.name() }
        }
        body => body.kind().name(),
    }
}
