//! Containers and pods, by the paths of control groups and by what the recorder wrote down.
//!
//! A path alone tells a container's id, and the uid of its pod. What they are called, and the image,
//! only the node's runtime knows: the recorder reads what that writes down, and keeps it in the
//! metadata ([`crate::meta::Meta::containers`]), by control group.
//!
//! The shapes of paths, with where they are made:
//! - `…/docker/ID`, `…/docker-ID.scope`: Docker with either cgroup driver (moby,
//!   daemon/oci_linux.go, `WithCgroups`).
//! - `…/cri-containerd-ID.scope`, and with the other driver `…/ID`: containerd's CRI plugin
//!   (internal/cri/server/podsandbox/helpers_linux.go, `getCgroupsPath`). Where kubelet and runtime
//!   have different drivers, one part has both: `kubepods-….slice:cri-containerd:ID`.
//! - `…/crio-ID.scope`, `…/crio-ID`: CRI-O (internal/config/cgmgr). `crio-conmon-…` is the program
//!   that watches the container, not the container.
//! - `…/libpod-ID.scope`, `/libpod_parent/libpod-ID`, `…/libpod-payload-ID`: podman
//!   (libpod/container.go, `CGroupPath`; libpod/container_internal_linux.go). `libpod-conmon-…`
//!   is its watcher.
//! - `…/nerdctl-ID.scope`, `/default/ID`, `/k8s.io/ID`: containerd's own clients.
//! - `…-podUID.slice` with `_` for `-`, `…/podUID`: kubelet
//!   (pkg/kubelet/cm/pod_container_manager_linux.go, `GetPodContainerName`), below `kubepods…`,
//!   `kubelet-kubepods…` or whatever `--cgroup-root` says. A static pod's uid has no dashes.
//! - `…/lxc.payload.NAME`, earlier `/lxc/NAME`: LXC (src/lxc/cgroups/cgfsng.c). `lxc.monitor.…` is
//!   its watcher.
//! - `/machine.slice/machine-NAME.scope`, `…/systemd-nspawn@NAME.service`: systemd-nspawn
//!   (systemd.exec(5), systemd-machined(8)); machines whose names begin with `qemu-` are virtual
//!   ones (libvirt, src/util/vircgroup.c).
//! - `/ecs/TASK/ID`: Amazon ECS, whose ids may also be 32 digits, a dash and a number.
//!
//! Containers are nested: of a path with several, the innermost one counts. A path that is relative
//! to a container's own root (`/../…`) is taken part by part as any other.
//!
//! Below their own manager (`user@1000.service`), users make groups of any name, also that of
//! another's container. So the ids of containers and pods there begin with the manager's unit:
//! `user@1000.service/ID` (as units have it, [`crate::units`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::meta::{ContainerNames, Meta};
use crate::units::full_name;

/// Digits of an id that engines show, and that tell containers apart.
pub const SHORT: usize = 12;
/// Fewest digits of an id by which a container is looked for.
pub const PREFIX_LEAST: usize = 4;

/// Who runs a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Runtime {
    /// Docker.
    Docker,
    /// containerd.
    Containerd,
    /// CRI-O.
    Crio,
    /// podman.
    Podman,
    /// LXC, also Incus and LXD.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
    /// The path does not tell.
    Unknown,
}

impl Runtime {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Containerd => "containerd",
            Self::Crio => "cri-o",
            Self::Podman => "podman",
            Self::Lxc => "lxc",
            Self::Nspawn => "nspawn",
            Self::Unknown => "",
        }
    }
}

/// What a control group's path tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The innermost container: who runs it, and its id, or its name where the runtime has no ids;
    /// below a user's manager after that unit's name. `None`: a pod's own group.
    pub container: Option<(Runtime, Cow<'a, str>)>,
    /// Uid of the innermost pod, with dashes; empty: none.
    pub pod_uid: String,
}

/// A container's id in a part of a path, or its name where the runtime has none. `parent`: the part
/// before.
fn container<'a>(part: &'a str, parent: Option<&str>) -> Option<(Runtime, Cow<'a, str>)> {
    let base = part.strip_suffix(".scope").unwrap_or(part);
    // `PARENT:PREFIX:ID`, as runc takes it for systemd.
    let (base, prefix) = match base.rsplit_once(':') {
        Some((before, id)) if is_id(id) => (id, before.rsplit(':').next()),
        _ => (base, None),
    };
    let prefixes = [
        ("docker-", Runtime::Docker),
        ("cri-containerd-", Runtime::Containerd),
        ("containerd-", Runtime::Containerd),
        ("nerdctl-", Runtime::Containerd),
        ("crio-", Runtime::Crio),
        ("libpod-payload-", Runtime::Podman),
        ("libpod-", Runtime::Podman),
    ];
    for (prefix, runtime) in prefixes {
        if let Some(id) = base.strip_prefix(prefix).filter(|id| is_id(id)) {
            return Some((runtime, id.into()));
        }
    }
    if is_id(base) || is_task_id(base) {
        let runtime = match prefix.or(parent) {
            Some("docker") => Runtime::Docker,
            Some("k8s.io" | "default" | "cri-containerd") => Runtime::Containerd,
            Some("crio") => Runtime::Crio,
            Some("libpod") => Runtime::Podman,
            _ => Runtime::Unknown,
        };
        return Some((runtime, base.into()));
    }
    let name = part.strip_prefix("lxc.payload.").or_else(|| {
        let is_parent = matches!(parent, Some("lxc.payload" | "lxc"));
        Some(part).filter(|_| is_parent)
    });
    if let Some(name) = name {
        return Some((Runtime::Lxc, name.into())).filter(|_| !name.is_empty());
    }
    let machine = part.strip_prefix("machine-").and_then(|part| part.strip_suffix(".scope"));
    let service =
        part.strip_prefix("systemd-nspawn@").and_then(|part| part.strip_suffix(".service"));
    let name = unescaped(machine.or(service)?);
    let is_container = !name.is_empty() && !name.starts_with("qemu-");
    is_container.then_some((Runtime::Nspawn, name))
}

/// Uid of a pod, with dashes.
fn pod(part: &str) -> Option<String> {
    let base = part.split(':').next().unwrap_or(part);
    let base = base.strip_suffix(".slice").unwrap_or(base);
    let uid = match base.rsplit_once("-pod") {
        Some((_, uid)) => uid,
        None => base.strip_prefix("pod")?,
    };
    if uid.len() == 32 && uid.bytes().all(is_digit) {
        return Some(uid.to_owned());
    }
    let groups: Vec<&str> = uid.split(['-', '_']).collect();
    let is_uid = groups.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|part| part.bytes().all(is_digit));
    is_uid.then(|| groups.join("-"))
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// 64 hexadecimal digits.
fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(is_digit)
}

/// 32 hexadecimal digits, a dash, a number.
fn is_task_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(task, number)| {
        task.len() == 32
            && task.bytes().all(is_digit)
            && (1..=20).contains(&number.len())
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The name of a unit as its object has it: `\x2d` is a dash (systemd-escape(1)).
fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains("\\x") {
        return name.into();
    }
    let mut parts = name.split("\\x");
    let mut bytes: Vec<u8> = parts.next().unwrap_or_default().into();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        if let Some((code, rest)) = code.zip(part.get(2..)) {
            bytes.push(code);
            bytes.extend_from_slice(rest.as_bytes());
        } else {
            bytes.extend_from_slice(b"\\x");
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

/// The containers that a group is in, from the outermost one in: who runs each, and its id.
pub fn nested(path: &str) -> impl Iterator<Item = (Runtime, Cow<'_, str>)> {
    below_managers(path)
        .scan(None, |parent, (manager, part)| Some((manager, parent.replace(part), part)))
        .filter_map(|(manager, parent, part)| {
            let (runtime, id) = container(part, parent)?;
            Some((runtime, after(manager, id)))
        })
}

/// The parts of a path, each with the unit of the outermost user's manager that it is below.
fn below_managers(path: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.scan(None, |manager, part| {
        let above = *manager;
        if part.starts_with("user@") && part.ends_with(".service") {
            *manager = above.or(Some(part));
        }
        Some((above, part))
    })
}

/// An id, after a manager's unit.
fn after<'a>(manager: Option<&str>, id: Cow<'a, str>) -> Cow<'a, str> {
    manager.map(|manager| format!("{manager}/{id}").into()).unwrap_or(id)
}

/// The container and the pod that a group is in by its path; `None`: it is in neither.
pub fn identity(path: &str) -> Option<Identity<'_>> {
    let container = nested(path).last();
    let pods = below_managers(path)
        .filter_map(|(manager, part)| pod(part).map(|uid| after(manager, uid.into()).into_owned()));
    let pod_uid = pods.last().unwrap_or_default();
    let is_any = container.is_some() || !pod_uid.is_empty();
    is_any.then_some(Identity { container, pod_uid })
}

/// The container that a control group is in, or the pod, with what is known of it. Texts that are
/// not known are empty; they hold what anybody wrote into them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Who runs it.
    pub runtime: Runtime,
    /// Its id, or its name where the runtime has no ids; below a user's manager after that unit's
    /// name, `user@1000.service/ID`. Empty: the group is the pod's own.
    pub id: String,
    /// What it is called: in a pod, the name of the container in it.
    pub name: String,
    /// Name of its pod.
    pub pod: String,
    /// Uid of its pod.
    pub pod_uid: String,
    /// Namespace of its pod.
    pub namespace: String,
    /// Its image.
    pub image: String,
}

impl Container {
    /// The first digits of its id, as engines show it; a name as it is.
    pub fn short(&self) -> &str {
        match self.runtime {
            Runtime::Lxc | Runtime::Nspawn => &self.id,
            _ => {
                let digits = self.id.rfind('/').map_or(0, |at| at + 1);
                self.id.get(..digits + SHORT).unwrap_or(&self.id)
            }
        }
    }

    /// The user's manager that it is below, if any, and its id.
    fn parts(&self) -> (Option<&str>, &str) {
        match self.id.rsplit_once('/') {
            Some((manager, id)) => (Some(manager), id),
            None => (None, &self.id),
        }
    }

    /// What people call it: `POD/NAME`, or its name, or the first digits of its id; of a pod's own
    /// group the pod's name or uid.
    pub fn label(&self) -> Cow<'_, str> {
        let pod = if self.pod.is_empty() { &self.pod_uid } else { &self.pod };
        let own = if self.name.is_empty() { self.short() } else { &self.name };
        match (pod.is_empty(), own.is_empty()) {
            (true, _) => own.into(),
            (false, false) => format!("{pod}/{own}").into(),
            (false, true) => pod.into(),
        }
    }

    /// Whether a name means it, or its id, or [`PREFIX_LEAST`] or more digits that its id begins
    /// with; below a user's manager, after that unit's name and a slash.
    fn is(&self, wanted: &str) -> bool {
        let (manager, id) = self.parts();
        let wanted = match manager {
            None => Some(wanted),
            Some(manager) => wanted
                .split_once('/')
                .and_then(|(unit, wanted)| (full_name(unit) == manager).then_some(wanted)),
        };
        let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty() && !id.is_empty()) else {
            return false;
        };
        let has_digits = !matches!(self.runtime, Runtime::Lxc | Runtime::Nspawn);
        let is_prefix = wanted.len() >= PREFIX_LEAST && id.starts_with(wanted);
        id == wanted || self.name == wanted || has_digits && is_prefix
    }

    /// Whether its pod is meant: by name, by `NAMESPACE/NAME`, or by uid.
    fn is_of_pod(&self, wanted: &str) -> bool {
        let is_qualified = || {
            wanted.split_once('/').is_some_and(|(namespace, pod)| {
                !pod.is_empty() && self.namespace == namespace && self.pod == pod
            })
        };
        !wanted.is_empty() && (self.pod == wanted || self.pod_uid == wanted || is_qualified())
    }
}

/// The containers of a recording, by control group.
#[derive(Debug, Clone, Default)]
pub struct Containers {
    groups: BTreeMap<u64, Known>,
}

/// The container of a group, and those that it is in.
#[derive(Debug, Clone)]
struct Known {
    container: Container,
    outer: Vec<Container>,
}

impl Containers {
    /// Those that a recording's metadata tell.
    pub fn new(meta: &Meta) -> Self {
        // A container has many groups, and a pod many containers: one of them has the names.
        let (mut ids, mut pods) = (HashMap::new(), HashMap::new());
        for (group, names) in &meta.containers {
            let Some(of) = meta.cgroups.get(group).and_then(|path| identity(path)) else {
                continue;
            };
            if !of.pod_uid.is_empty() && !names.pod.is_empty() {
                pods.insert(of.pod_uid, (&names.pod, &names.namespace));
            }
            if let Some((_, id)) = of.container {
                ids.insert(id, names);
            }
        }
        let make = |container: Option<(Runtime, Cow<'_, str>)>, pod_uid: String| {
            let (runtime, id) = container.unwrap_or((Runtime::Unknown, "".into()));
            let mut names = ids.get(&id).map_or_else(ContainerNames::default, |of| (*of).clone());
            if let Some((pod, namespace)) = pods.get(&pod_uid).filter(|_| names.pod.is_empty()) {
                (names.pod, names.namespace) = ((*pod).clone(), (*namespace).clone());
            }
            let ContainerNames { name, pod, namespace, image } = names;
            Container { runtime, id: id.into_owned(), name, pod, pod_uid, namespace, image }
        };
        let known = |path| {
            let Identity { container, pod_uid } = identity(path)?;
            let mut outer: Vec<_> = nested(path).collect();
            outer.pop();
            let outer = outer.into_iter().map(|of| make(Some(of), String::new())).collect();
            Some(Known { container: make(container, pod_uid), outer })
        };
        let groups = meta.cgroups.iter();
        Self { groups: groups.filter_map(|(group, path)| Some((*group, known(path)?))).collect() }
    }

    /// The container, or the pod, that a control group is in.
    pub fn get(&self, group: u64) -> Option<&Container> {
        self.groups.get(&group).map(|known| &known.container)
    }

    /// Whether no group is in a container or a pod.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// All, each with its group.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Container)> {
        self.groups.iter().map(|(group, known)| (*group, &known.container))
    }

    /// Whether a control group is in a container, or in one that is in it, by its name, its id, or
    /// [`PREFIX_LEAST`] or more digits that its id begins with.
    pub fn is_in(&self, group: u64, wanted: &str) -> bool {
        self.groups.get(&group).is_some_and(|known| {
            known.container.is(wanted) || known.outer.iter().any(|outer| outer.is(wanted))
        })
    }

    /// Whether a control group is in a pod, by the pod's name, `NAMESPACE/NAME`, or uid.
    pub fn is_in_pod(&self, group: u64, wanted: &str) -> bool {
        self.get(group).is_some_and(|of| of.is_of_pod(wanted))
    }
}

#[cfg(test)]
mod tests;
