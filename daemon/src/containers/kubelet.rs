//! What the kubelet writes down: the names of directories and links of logs have those of pods and
//! containers (pkg/kubelet/kuberuntime/legacy.go, `logSymlink`; helpers.go,
//! `BuildPodLogsDirectory`).
//! Anybody may read these names, where the runtime's own files are root's.

use std::collections::HashMap;

use flightrec_format::meta::ContainerNames;

use super::Wanted;
use super::files::Files;
use super::sources::text;

/// Links to the logs of containers: `POD_NAMESPACE_CONTAINER-ID.log`.
const CONTAINERS: &str = "var/log/containers";
/// Directories of pods: `NAMESPACE_POD_UID`, and in them one for each container.
const PODS: &str = "var/log/pods";

/// What was there when it was looked.
#[derive(Debug, Default)]
pub(super) struct Logs {
    /// Names by the container's id.
    containers: HashMap<String, ContainerNames>,
    /// Namespace and name by the pod's uid.
    pods: HashMap<String, (String, String)>,
}

impl Logs {
    /// Those of a node; none where it has no kubelet.
    pub(super) fn read(files: &Files) -> Self {
        let names = files.names(CONTAINERS);
        let containers = names.iter().filter_map(|name| container(name)).collect();
        let names = files.names(PODS);
        let pods = names.iter().filter_map(|name| {
            let (rest, uid) = name.rsplit_once('_')?;
            let (namespace, pod) = rest.split_once('_')?;
            Some((uid.to_owned(), (text(namespace), text(pod))))
        });
        Self { containers, pods: pods.collect() }
    }

    /// What they tell of a container.
    pub(super) fn names(&self, wanted: &Wanted) -> ContainerNames {
        let mut names = self.containers.get(&wanted.id).cloned().unwrap_or_default();
        if let Some((namespace, pod)) = self.pods.get(&wanted.pod_uid) {
            (names.namespace, names.pod) = (namespace.clone(), pod.clone());
        }
        names
    }
}

/// Id and names of a container by the name of the link to its log.
fn container(link: &str) -> Option<(String, ContainerNames)> {
    let (rest, id) = link.strip_suffix(".log")?.rsplit_once('-')?;
    // None of these names can have a `_`.
    let mut parts = rest.split('_');
    let (pod, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
    let names = ContainerNames {
        name: text(name),
        pod: text(pod),
        namespace: text(namespace),
        image: String::new(),
    };
    (parts.next().is_none() && id.len() == 64).then(|| (id.to_owned(), names))
}
