//! What runtimes write down of their containers, and where.
//!
//! - Docker: `config.v2.json` in `/var/lib/docker/containers/ID` (moby, container/container.go,
//!   `Container`); of a pod, by the labels of cri-dockerd.
//! - containerd: the bundle of a task, `config.json` in
//!   `/run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID`, with the annotations of its CRI
//!   plugin (internal/cri/annotations/annotations.go).
//! - CRI-O: `config.json` in `/run/containers/storage/overlay-containers/ID/userdata`, with its own
//!   annotations (pkg/annotations/internal.go) and the kubelet's labels.
//! - podman: the list of containers/storage, `containers.json` in
//!   `/var/lib/containers/storage/overlay-containers` (podman, libpod/storage.go,
//!   `RuntimeContainerMetadata`).
//! - The kubelet's logs (`kubelet`), for whatever of these can't be read.
//!
//! All of it is text by whoever made the container: it is cut at `TEXT_MAX` bytes, and readers
//! escape it as any other name.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use flightrec_format::containers::Runtime;
use flightrec_format::meta::ContainerNames;

use super::Wanted;
use super::files::Files;
use super::kubelet::Logs;

/// Most bytes of a file of one container.
const FILE_MAX: u64 = 1 << 20;
/// Most bytes of a list of containers.
const LIST_MAX: u64 = 4 << 20;
/// Most bytes of a name.
const TEXT_MAX: usize = 256;
/// Most namespaces of containerd that are looked into.
const NAMESPACES_MAX: usize = 64;

const DOCKER: &str = "var/lib/docker/containers";
const CONTAINERD: &str = "run/containerd/io.containerd.runtime.v2.task";
/// Where containers/storage has what is for this boot, and what stays.
const STORAGE: [&str; 2] =
    ["run/containers/storage/overlay-containers", "var/lib/containers/storage/overlay-containers"];
/// Its lists.
const LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

/// Names of what is known of these containers, by control group.
pub(super) fn look(files: &Files, wanted: &[Wanted]) -> Vec<(u64, ContainerNames)> {
    let logs = Logs::read(files);
    let mut lists: Option<Vec<Stored>> = None;
    let name = |of: &Wanted| {
        let mut names = ContainerNames::default();
        if !of.id.is_empty() {
            if matches!(of.runtime, Runtime::Docker | Runtime::Unknown) {
                join(&mut names, docker(files, &of.id));
            }
            if matches!(of.runtime, Runtime::Containerd | Runtime::Unknown) {
                join(&mut names, containerd(files, &of.id));
            }
            if matches!(of.runtime, Runtime::Crio | Runtime::Podman | Runtime::Unknown) {
                join(&mut names, bundle(files, &of.id));
                let lists = lists.get_or_insert_with(|| stored(files));
                let of = lists.iter().find(|stored| stored.id == of.id);
                join(&mut names, of.map(Stored::names));
            }
        }
        join(&mut names, Some(logs.names(of)));
        (names != ContainerNames::default()).then_some((of.group, names))
    };
    wanted.iter().filter_map(name).collect()
}

/// Takes what is not known yet.
fn join(names: &mut ContainerNames, more: Option<ContainerNames>) {
    let Some(ContainerNames { name, pod, namespace, image }) = more else { return };
    let ContainerNames { name: n, pod: p, namespace: s, image: i } = names;
    for (known, more) in [(n, name), (p, pod), (s, namespace), (i, image)] {
        if known.is_empty() {
            *known = more;
        }
    }
}

/// A name, as far as it is kept.
pub(super) fn text(text: &str) -> String {
    text.get(..text.floor_char_boundary(TEXT_MAX)).unwrap_or_default().to_owned()
}

fn known(text_or_none: Option<&String>) -> String {
    text_or_none.map(|of| text(of)).unwrap_or_default()
}

fn json<T: DeserializeOwned>(files: &Files, path: &str, limit: u64) -> Option<T> {
    serde_json::from_slice(&files.read(path, limit)?).ok()
}

/// Labels and annotations of a container; those of several runtimes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "io.kubernetes.cri.container-name")]
    cri_container: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-name")]
    cri_pod: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-namespace")]
    cri_namespace: Option<String>,
    #[serde(rename = "io.kubernetes.cri.image-name")]
    cri_image: Option<String>,
    #[serde(rename = "io.kubernetes.container.name")]
    container: Option<String>,
    #[serde(rename = "io.kubernetes.pod.name")]
    pod: Option<String>,
    #[serde(rename = "io.kubernetes.pod.namespace")]
    namespace: Option<String>,
    #[serde(rename = "io.kubernetes.cri-o.ImageName")]
    image: Option<String>,
}

impl Labels {
    fn names(&self) -> ContainerNames {
        ContainerNames {
            name: known(self.cri_container.as_ref().or(self.container.as_ref())),
            pod: known(self.cri_pod.as_ref().or(self.pod.as_ref())),
            namespace: known(self.cri_namespace.as_ref().or(self.namespace.as_ref())),
            image: known(self.cri_image.as_ref().or(self.image.as_ref())),
        }
    }
}

/// Of Docker's `config.v2.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Docker {
    name: Option<String>,
    config: DockerConfig,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct DockerConfig {
    image: Option<String>,
    labels: Option<Labels>,
}

fn docker(files: &Files, id: &str) -> Option<ContainerNames> {
    let docker: Docker = json(files, &format!("{DOCKER}/{id}/config.v2.json"), FILE_MAX)?;
    let mut names = docker.config.labels.unwrap_or_default().names();
    let own = ContainerNames {
        name: docker.name.map(|name| text(name.trim_start_matches('/'))).unwrap_or_default(),
        image: known(docker.config.image.as_ref()),
        ..ContainerNames::default()
    };
    join(&mut names, Some(own));
    Some(names)
}

/// Of the configuration of an OCI runtime.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Bundle {
    annotations: Option<Labels>,
}

fn containerd(files: &Files, id: &str) -> Option<ContainerNames> {
    let mut namespaces = files.names(CONTAINERD);
    namespaces.truncate(NAMESPACES_MAX);
    namespaces.iter().find_map(|namespace| {
        let path = format!("{CONTAINERD}/{namespace}/{id}/config.json");
        let bundle: Bundle = json(files, &path, FILE_MAX)?;
        Some(bundle.annotations.unwrap_or_default().names())
    })
}

fn bundle(files: &Files, id: &str) -> Option<ContainerNames> {
    STORAGE.iter().find_map(|storage| {
        let path = format!("{storage}/{id}/userdata/config.json");
        let bundle: Bundle = json(files, &path, FILE_MAX)?;
        Some(bundle.annotations.unwrap_or_default().names())
    })
}

/// A container in the list of containers/storage.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stored {
    id: String,
    names: Option<Vec<String>>,
    /// A document in a string.
    metadata: Option<String>,
}

/// What podman and CRI-O have in it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct StoredMetadata {
    name: Option<String>,
    image_name: Option<String>,
    pod_name: Option<String>,
    metadata_name: Option<String>,
    namespace: Option<String>,
}

impl Stored {
    fn names(&self) -> ContainerNames {
        let metadata: StoredMetadata = self
            .metadata
            .as_ref()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        let first = self.names.as_ref().and_then(|names| names.first());
        ContainerNames {
            name: known(metadata.metadata_name.as_ref().or(metadata.name.as_ref()).or(first)),
            // CRI-O's `pod-name` is one of its own making; the pod's own is in the annotations.
            pod: String::new(),
            namespace: known(metadata.namespace.as_ref().filter(|_| metadata.pod_name.is_some())),
            image: known(metadata.image_name.as_ref()),
        }
    }
}

fn stored(files: &Files) -> Vec<Stored> {
    let paths = STORAGE.iter().flat_map(|dir| LISTS.map(|list| format!("{dir}/{list}")));
    paths
        .filter_map(|path| json::<Vec<Stored>>(files, &path, LIST_MAX))
        .flatten()
        .take(16_384)
        .collect()
}
