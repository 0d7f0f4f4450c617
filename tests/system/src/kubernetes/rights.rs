//! The rights of a pod, each with the pod that lacks it.

use super::spec::{From, Spec};

/// A right.
pub(super) struct Right {
    /// As the specification names it.
    pub(super) name: String,
    /// The pod without it.
    pub(super) spec: Spec,
}

/// All rights that a specification gives beyond what any container has.
pub(super) fn of(spec: &Spec) -> Vec<Right> {
    let mut rights = Vec::new();
    let mut without = |name: String, change: &dyn Fn(&mut Spec)| {
        let mut spec = spec.clone();
        change(&mut spec);
        rights.push(Right { name, spec });
    };
    if spec.host_pid {
        without("`hostPID`".to_owned(), &|spec| spec.host_pid = false);
    }
    if spec.user == 0 {
        without("`runAsUser: 0` (another user)".to_owned(), &|spec| spec.user = 65_534);
    }
    for capability in &spec.capabilities {
        without(format!("`{capability}`"), &|spec| spec.capabilities.retain(|of| of != capability));
    }
    for variable in &spec.names_node {
        without(format!("variable `{variable}`"), &|spec| spec.names_node.clear());
    }
    for (at, volume) in spec.volumes.iter().enumerate() {
        let (name, path) = (&volume.name, &volume.path);
        without(format!("volume `{name}` (`{path}`)"), &|spec| {
            spec.volumes.remove(at);
        });
        if !volume.read_only && volume.from != From::Empty {
            without(format!("volume `{name}`, writable"), &|spec| {
                spec.volumes[at].read_only = true;
            });
        }
    }
    rights
}
