//! The version of the JSON that flightctl prints, in the first object of each output.
//! `docs/compatibility.md` says when it rises.

use serde::Serialize;

/// Rises when a field is removed, or changes its name, type, unit or meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// An object with the version before its fields.
#[derive(Debug, Serialize)]
pub struct Versioned<T> {
    schema_version: u32,
    #[serde(flatten)]
    object: T,
}

impl<T: Serialize> Versioned<T> {
    /// With this release's version.
    pub const fn new(object: T) -> Self {
        Self { schema_version: SCHEMA_VERSION, object }
    }
}

/// An object as a text of many lines, with this release's version.
pub fn document(object: impl Serialize) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(&Versioned::new(object))? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_comes_first() {
        #[derive(Serialize)]
        struct Object {
            ready: bool,
        }
        let text = serde_json::to_string(&Versioned::new(&Object { ready: true })).unwrap();
        assert_eq!(text, format!("{{\"schema_version\":{SCHEMA_VERSION},\"ready\":true}}"));
    }
}
