//! Samples of what ran before the panic.

use anyhow::{Result, ensure};
use serde_json::Value;

/// Fewest that a run has: it lasts many seconds, in which the machine idles now and then.
const LEAST: usize = 50;

/// Takes off an event what the reading machine knows of programs, which each knows for itself; and
/// what the recorder knows of the kernel, and of the files that build ids are of, which becomes more
/// while it runs.
pub(super) fn forget_names(event: &mut Value) {
    for stack in ["stack", "kernel_stack"] {
        event[stack].as_array_mut().into_iter().flatten().for_each(|frame| *frame = Value::Null);
    }
    for frame in event["user_stack"].as_array_mut().into_iter().flatten() {
        if let Some(frame) = frame.as_object_mut() {
            frame.retain(|field, _| !["symbol", "offset", "binary"].contains(&field.as_str()));
        }
    }
}

/// They are in the dump, with functions of the kernel; how many have which frames, for people.
pub(super) fn taken(events: &[Value]) -> Result<String> {
    let samples: Vec<&Value> = events.iter().filter(|event| event["event"] == "sample").collect();
    let has = |stack: &str, field: &str| {
        let is_in = |sample: &&&Value| {
            let frames = sample[stack].as_array().into_iter().flatten();
            frames.into_iter().any(|frame| !frame[field].is_null())
        };
        samples.iter().filter(is_in).count()
    };
    let kernel = samples.iter().filter(|sample| sample["mode"] == "kernel").count();
    let (named, in_files) = (has("kernel_stack", "symbol"), has("user_stack", "build_id"));
    let by_address = has("user_stack", "address");
    ensure!(samples.len() >= LEAST, "{} samples", samples.len());
    ensure!(named * 2 >= kernel, "of {kernel} samples in the kernel {named} have a function");
    ensure!(in_files + by_address > 0, "no sample has a program's frame");
    Ok(format!(
        "{} samples, {kernel} in the kernel ({named} with functions); frames of programs: \
         {in_files} with build ids, {by_address} by address",
        samples.len()
    ))
}
