//! What the DaemonSet says of its pod, as far as a container's rights are concerned.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use xtask::command::read;

/// The pod, with one container.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) host_pid: bool,
    pub(super) user: u64,
    pub(super) capabilities: Vec<String>,
    pub(super) args: Vec<String>,
    /// Variables that have the node's name.
    pub(super) names_node: Vec<String>,
    pub(super) volumes: Vec<Volume>,
}

/// A volume, where it is mounted.
#[derive(Debug, Clone)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) read_only: bool,
    /// What is mounted and unmounted on the host later is so here.
    pub(super) propagates: bool,
    pub(super) from: From,
}

/// Where a volume comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From {
    /// The configuration.
    Config,
    /// Nothing: it is empty.
    Empty,
    /// A directory of the host.
    Host(String),
}

impl Spec {
    /// Reads a DaemonSet, and refuses what this does not understand: it would not be tried.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
        let text = read(Command::new("python3").args(["-c", script]).arg(path))?;
        let document: Value = serde_json::from_str(&text).context("what python3 made of it")?;
        let pod = &document["spec"]["template"]["spec"];
        let containers = pod["containers"].as_array().context("containers")?;
        ensure!(containers.len() == 1, "there is more than one container");
        let container = &containers[0];
        let context = &container["securityContext"];
        ensure!(
            context["privileged"] == false
                && context["allowPrivilegeEscalation"] == false
                && context["readOnlyRootFilesystem"] == true
                && context["seccompProfile"]["type"] == "RuntimeDefault"
                && context["capabilities"]["drop"][0] == "ALL"
                && pod["automountServiceAccountToken"] == false,
            "the container's securityContext is not as restrictive as the trial makes it"
        );
        for other in ["hostNetwork", "hostIPC", "securityContext", "initContainers"] {
            ensure!(pod.get(other).is_none(), "the trial does not know the pod's `{other}`");
        }
        let words = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let variables = container["env"].as_array().into_iter().flatten();
        let names_node = variables.map(|variable| {
            let from = &variable["valueFrom"]["fieldRef"]["fieldPath"];
            ensure!(*from == "spec.nodeName", "the trial does not know the variable {variable}");
            Ok(variable["name"].as_str().unwrap_or_default().to_owned())
        });
        let names_node = names_node.collect::<Result<Vec<_>>>()?;
        let mounts = container["volumeMounts"].as_array().context("volumeMounts")?;
        let all = pod["volumes"].as_array().context("volumes")?;
        ensure!(mounts.len() == all.len(), "not each volume is mounted once");
        let volumes = mounts.iter().map(|mount| {
            let volume = all.iter().find(|of| of["name"] == mount["name"]).context("a volume")?;
            let from = match volume["hostPath"]["path"].as_str() {
                Some(path) => From::Host(path.to_owned()),
                None if volume.get("configMap").is_some() => From::Config,
                None if volume.get("emptyDir").is_some() => From::Empty,
                None => anyhow::bail!("the trial does not know the volume {volume}"),
            };
            Ok(Volume {
                name: mount["name"].as_str().unwrap_or_default().to_owned(),
                path: mount["mountPath"].as_str().context("mountPath")?.to_owned(),
                read_only: mount["readOnly"] == true,
                propagates: mount["mountPropagation"] == "HostToContainer",
                from,
            })
        });
        Ok(Self {
            host_pid: pod["hostPID"] == true,
            user: context["runAsUser"].as_u64().context("runAsUser")?,
            capabilities: words(&context["capabilities"]["add"]),
            args: words(&container["args"]),
            names_node,
            volumes: volumes.collect::<Result<_>>()?,
        })
    }
}
