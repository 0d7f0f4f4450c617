//! Who tells: this machine, and the recorder on it.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::message::{KeyValue, Resource, Scope, text};
use crate::layout;

/// The version of the semantic conventions that names are of.
pub const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";
/// What tells, of resources and of scopes.
const NAME: &str = "flightrec";

/// This machine: `host` is its name.
pub fn resource(host: &str, machine: &str) -> Resource {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let attributes: [Option<KeyValue>; 6] = [
        text("service.name", NAME),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("host.name", host),
        text("host.id", machine),
        text("os.type", "linux"),
        text("host.arch", arch),
    ];
    Resource { attributes: attributes.into_iter().flatten().collect() }
}

/// What tells.
pub fn scope() -> Scope {
    Scope { name: NAME.to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

/// This machine's id: a hash of `/etc/machine-id`, which is to be kept from others itself
/// (machine-id(5)); 16 bytes as hexadecimal digits. `fallback`: instead, where there is none.
pub fn host_id(fallback: &str) -> String {
    let id = layout::machine_id();
    let id = if id.is_empty() { fallback } else { &id };
    digits(&Sha256::digest(format!("flight-ship host.id {id}"))[..16])
}

/// Bytes as hexadecimal digits.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_by_the_names_of_the_conventions() {
        let of = resource("web1", &host_id("x"));
        let names: Vec<&str> = of.attributes.iter().map(|of| of.key.as_str()).collect();
        assert_eq!(
            names,
            ["service.name", "service.version", "host.name", "host.id", "os.type", "host.arch"]
        );
        assert_eq!(host_id("x").len(), 32);
        assert_eq!(digits(&[0, 0xab]), "00ab");
        let machine = layout::machine_id();
        assert!(machine.is_empty() || !host_id("x").contains(&machine));
    }
}
