//! `[containers]`: what containers and pods are called.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Names of containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContainersConfig {
    /// Whether they are looked for.
    pub names: bool,
    /// The root of the host's files.
    pub root: PathBuf,
}

impl Default for ContainersConfig {
    fn default() -> Self {
        Self { names: true, root: "/".into() }
    }
}
