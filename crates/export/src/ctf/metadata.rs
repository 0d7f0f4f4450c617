//! The file `metadata`, which says in text what the streams hold.

use std::fmt::Write as _;

use flightrec_format::meta::Meta;

use super::Ctf;

impl Ctf {
    /// The metadata: everything is known now.
    pub(super) fn metadata(&self) -> String {
        let mut uuid = String::new();
        for (i, byte) in self.uuid.iter().enumerate() {
            let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
            // Writing to a text does not fail.
            let _ = write!(uuid, "{dash}{byte:02x}");
        }
        let mut env = String::new();
        for (key, value) in &self.env {
            match value.parse::<u32>() {
                Ok(number) if key.starts_with("tracer_") => {
                    let _ = writeln!(env, "    {key} = {number};");
                }
                _ => {
                    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                    let _ = writeln!(env, "    {key} = \"{value}\";");
                }
            }
        }
        format!(
            "/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 32; align = 8; signed = true; }} := int32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
    major = 1; minor = 8; uuid = \"{uuid}\"; byte_order = le;
    packet.header := struct {{
        uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id;
    }};
}};

env {{
{env}}};

clock {{
    name = \"monotonic\"; uuid = \"{uuid}\"; description = \"Monotonic Clock\";
    freq = 1000000000; offset = {offset};
}};

typealias integer {{
    size = 64; align = 8; signed = false; map = clock.monotonic.value;
}} := uint64_clock_t;

stream {{
    id = 0;
    event.header := struct {{ uint32_t id; uint64_clock_t timestamp; }};
    event.context := struct {{ int32_t _pid; int32_t _tid; }};
    packet.context := struct {{
        uint64_clock_t timestamp_begin; uint64_clock_t timestamp_end; uint64_t content_size;
        uint64_t packet_size; uint64_t packet_seq_num; uint64_t events_discarded; uint32_t cpu_id;
    }};
}};

{classes}",
            offset = self.offset,
            classes = self.classes.text()
        )
    }
}

/// The boot's id as 16 bytes; else the session's.
pub(super) fn uuid(meta: &Meta) -> [u8; 16] {
    let digits: Vec<u8> = meta
        .boot_id
        .chars()
        .filter_map(|c| c.to_digit(16).map(|digit| digit as u8))
        .take(32)
        .collect();
    let mut uuid = [0; 16];
    if digits.len() == 32 {
        for (byte, pair) in uuid.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte << 4 | digit);
        }
    } else {
        let (half, _) = uuid.split_at_mut(8);
        half.copy_from_slice(&meta.session.to_be_bytes());
    }
    uuid
}
