//! Values of options, of which a part of the possible ones make sense.

use std::time::Duration;

use flightrec_format::abi::record::TID_MASK;
use flightrec_format::trace_context;

/// How often something live is looked at. The daemon closes a connection that is silent for a
/// minute.
pub fn interval(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    if !(Duration::from_millis(10)..=Duration::from_secs(30)).contains(&time) {
        return Err("not within 10ms to 30s".to_owned());
    }
    Ok(time)
}

/// A length of time, of which there is some.
pub fn stretch(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|_| {
        "not a duration; use a number and its unit, for example 10s, 250ms or \"1m 30s\"".to_owned()
    })?;
    if time.is_zero() {
        Err("an empty window; use a duration above zero".to_owned())
    } else {
        Ok(time)
    }
}

/// An amount of memory, bytes.
pub fn memory(text: &str) -> Result<u64, String> {
    flightrec_reader::memory::parse(text)
        .ok_or_else(|| "not a size; use for example 512MiB or 2GiB".to_owned())
}

/// An amount of data, bytes.
pub fn size(text: &str) -> Result<u64, String> {
    memory(text)
}

/// A session's id.
pub fn session(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).map_err(|_| {
        "not the id of a recording, 16 hexadecimal digits; --list-sessions shows them".to_owned()
    })
}

/// The id of a distributed trace.
pub fn trace(text: &str) -> Result<[u8; 16], String> {
    trace_context::trace_id(text.as_bytes()).ok_or_else(|| {
        "not the id of a trace, 32 hexadecimal digits, nor a traceparent (00-TRACE-SPAN-FLAGS)"
            .to_owned()
    })
}

/// A process or thread id.
pub fn id(text: &str) -> Result<u32, String> {
    let n: u32 = text.parse().map_err(|_| "not a process or thread id".to_owned())?;
    if u64::from(n) > TID_MASK {
        return Err("greater than any process or thread id (at most 4194303)".to_owned());
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces() {
        let id = "4bf92f3577b34da6a3ce929d0e0e4736";
        let found = trace(id).unwrap();
        assert_eq!(trace(&id.to_uppercase()), Ok(found));
        assert_eq!(trace(&format!("00-{id}-00f067aa0ba902b7-01")), Ok(found));
        for text in ["", "4bf9", "00000000000000000000000000000000", &format!("{id}0")] {
            assert!(trace(text).is_err(), "{text}");
        }
    }

    #[test]
    fn memory_is_a_size() {
        assert_eq!(memory("2GiB"), Ok(2 << 30));
        assert!(memory("much").is_err() && memory("0").is_err());
    }

    #[test]
    fn ids_are_bounded() {
        assert!(id("4194303").is_ok());
        assert!(id("4194304").is_err());
        assert!(id("-1").is_err());
    }
}
