use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::files::Files;
use super::sources::look;
use super::*;

const ID: &str = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const UID: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";

/// A node's files.
struct Node(tempfile::TempDir);

impl Node {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        let path = self.0.path().join(path.replace("ID", ID));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn write(&self, path: &str, text: &str) -> &Self {
        fs::write(self.path(path), text.replace("$ID", ID)).unwrap();
        self
    }

    /// Name, pod, namespace and image of a container.
    fn names(&self, runtime: Runtime, pod_uid: &str) -> Option<[String; 4]> {
        let of = Wanted { group: 7, runtime, id: ID.into(), pod_uid: pod_uid.into() };
        let found = look(&Files::new(self.0.path()), &[of]);
        found.into_iter().next().map(|(group, names)| {
            assert_eq!(group, 7);
            let ContainerNames { name, pod, namespace, image } = names;
            [name, pod, namespace, image]
        })
    }
}

fn four(texts: [&str; 4]) -> [String; 4] {
    texts.map(str::to_owned)
}

const DOCKER: &str = "var/lib/docker/containers/ID/config.v2.json";
const BUNDLE: &str = "run/containerd/io.containerd.runtime.v2.task/k8s.io/ID/config.json";

#[test]
fn docker_tells_name_and_image() {
    let node = Node::new();
    node.write(
        DOCKER,
        r#"{"StreamConfig":{},"State":{"Running":true,"Pid":71},"ID":"$ID","Managed":false,
           "Config":{"Hostname":"3f2a9c1b04de","Image":"nginx:1.27","Labels":{"a":"b"},
           "Env":["PATH=/bin"]},"Image":"sha256:1","Name":"/web-1","Driver":"overlay2"}"#,
    );
    let expected = Some(four(["web-1", "", "", "nginx:1.27"]));
    assert_eq!(node.names(Runtime::Docker, ""), expected);
    assert_eq!(node.names(Runtime::Unknown, ""), expected);
    assert_eq!(node.names(Runtime::Crio, ""), None, "it is not Docker's");
    node.write(
        DOCKER,
        r#"{"Name":"/k8s_app_shop-0_prod_1_0","Config":{"Image":"shop:7","Labels":{
           "io.kubernetes.container.name":"app","io.kubernetes.pod.name":"shop-0",
           "io.kubernetes.pod.namespace":"prod"}}}"#,
    );
    assert_eq!(node.names(Runtime::Docker, UID), Some(four(["app", "shop-0", "prod", "shop:7"])));
}

#[test]
fn containerd_tells_the_pod() {
    let node = Node::new();
    node.write(
        BUNDLE,
        r#"{"ociVersion":"1.1.0","process":{"args":["app"]},"annotations":{
           "io.kubernetes.cri.container-name":"app","io.kubernetes.cri.container-type":"container",
           "io.kubernetes.cri.image-name":"docker.io/library/shop:7",
           "io.kubernetes.cri.sandbox-name":"shop-0","io.kubernetes.cri.sandbox-namespace":"prod",
           "io.kubernetes.cri.sandbox-uid":"1"}}"#,
    );
    let expected = Some(four(["app", "shop-0", "prod", "docker.io/library/shop:7"]));
    assert_eq!(node.names(Runtime::Containerd, UID), expected);
    assert_eq!(node.names(Runtime::Unknown, UID), expected);
}

#[test]
fn crio_and_podman_tell_theirs() {
    let node = Node::new();
    node.write(
        "run/containers/storage/overlay-containers/ID/userdata/config.json",
        r#"{"annotations":{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"shop-0",
           "io.kubernetes.pod.namespace":"prod","io.kubernetes.cri-o.ImageName":"shop:7"}}"#,
    );
    assert_eq!(node.names(Runtime::Crio, UID), Some(four(["app", "shop-0", "prod", "shop:7"])));
    let node = Node::new();
    let storage = "var/lib/containers/storage/overlay-containers/containers.json";
    node.write(
        storage,
        r#"[{"id":"00","names":["other"]},{"id":"$ID","names":["web-1"],"metadata":"{"}]"#,
    );
    assert_eq!(
        node.names(Runtime::Podman, ""),
        Some(four(["web-1", "", "", ""])),
        "as far as it goes"
    );
    // As podman 4.3 writes it.
    node.write(
        storage,
        r#"[{"id":"$ID","names":["x"],"image":"c8ca","metadata":
           "{\"image-name\":\"localhost/busy:1\",\"image-id\":\"c8ca\",\"name\":\"web-1\",\"created-at\":1}",
           "created":"2026-11-26T14:11:02.090159982Z","flags":{"MountLabel":""}}]"#,
    );
    assert_eq!(node.names(Runtime::Podman, ""), Some(four(["web-1", "", "", "localhost/busy:1"])));
}

#[test]
fn the_kubelets_logs_tell_what_else_nobody_does() {
    let node = Node::new();
    fs::create_dir_all(node.path(&format!("var/log/pods/prod_shop-0_{UID}/app"))).unwrap();
    assert_eq!(node.names(Runtime::Containerd, UID), Some(four(["", "shop-0", "prod", ""])));
    assert_eq!(node.names(Runtime::Containerd, "1"), None);
    let log = node.path("var/log/containers/shop-0_prod_my-app-ID.log");
    symlink("/var/log/pods/nowhere", log).unwrap();
    assert_eq!(node.names(Runtime::Containerd, UID), Some(four(["my-app", "shop-0", "prod", ""])));
    // The pod's own group.
    let of =
        Wanted { group: 9, runtime: Runtime::Unknown, id: String::new(), pod_uid: UID.to_owned() };
    let found = look(&Files::new(node.0.path()), &[of]);
    assert_eq!((found.len(), found[0].1.pod.as_str()), (1, "shop-0"));
}

#[test]
fn links_lead_nowhere_else() {
    let node = Node::new();
    let outside = tempfile::tempdir().unwrap();
    let text = r#"{"Name":"/web-1"}"#;
    fs::write(outside.path().join("config.v2.json"), text).unwrap();
    // A link to another place of the node is that place, as when Docker's data have a disk.
    node.write("data/ID/config.v2.json", text);
    fs::create_dir_all(node.path("var/lib/docker/x").parent().unwrap()).unwrap();
    symlink("/data", node.path("var/lib/docker/containers")).unwrap();
    assert_eq!(node.names(Runtime::Docker, ""), Some(four(["web-1", "", "", ""])));
    // One that leads out does not.
    fs::remove_file(node.path("var/lib/docker/containers")).unwrap();
    symlink(outside.path(), node.path("var/lib/docker/containers/ID")).unwrap();
    assert_eq!(node.names(Runtime::Docker, ""), None);
    fs::remove_file(node.path("var/lib/docker/containers/ID")).unwrap();
    // Nor is a link in the place of the file followed.
    symlink("/data/ID/config.v2.json".replace("ID", ID), node.path(DOCKER)).unwrap();
    assert_eq!(node.names(Runtime::Docker, ""), None);
}

#[test]
fn hostile_files_are_missing_names_and_nothing_worse() {
    let node = Node::new();
    let of = || node.names(Runtime::Docker, "");
    for text in [
        "",
        "null",
        "[]",
        "{",
        r#"{"Name":7}"#,
        r#"{"Name":null,"Config":{}}"#,
        r#"{"Name":"/x","Name":"/y"}"#,
        "\u{0}\u{1}",
        &"[".repeat(100_000),
        &format!("{{\"x\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000)),
    ] {
        node.write(DOCKER, text);
        assert_eq!(of(), None, "{text:.40}");
    }
    // Too much of it.
    node.write(DOCKER, &format!(r#"{{"Name":"/web","x":"{}"}}"#, "y".repeat(1 << 20)));
    assert_eq!(of(), None);
    // A pipe that nobody writes to, a directory, a device.
    fs::remove_file(node.path(DOCKER)).unwrap();
    mkfifo(&node.path(DOCKER), Mode::S_IRWXU).unwrap();
    assert_eq!(of(), None);
    fs::remove_file(node.path(DOCKER)).unwrap();
    fs::create_dir(node.path(DOCKER)).unwrap();
    assert_eq!(of(), None);
    fs::remove_dir(node.path(DOCKER)).unwrap();
    // Control characters, and a name without an end, are a name that readers escape.
    let long = "é".repeat(1000);
    node.write(DOCKER, &format!(r#"{{"Name":"/\u001b[31m\n","Config":{{"Image":"{long}"}}}}"#));
    let names = of().unwrap();
    assert_eq!((names[0].as_str(), names[3].len()), ("\u{1b}[31m\n", 256));
    assert!(node.names(Runtime::Containerd, "").is_none(), "no such directory");
}

fn meta(paths: &[(u64, &str)]) -> Meta {
    let cgroups = paths.iter().map(|(group, path)| (*group, path.replace("ID", ID))).collect();
    Meta { cgroups, ..Meta::default() }
}

#[test]
fn each_container_is_looked_for_once_at_its_topmost_group() {
    let mut meta = meta(&[
        (1, "/system.slice/ssh.service"),
        (3, "/docker/ID/init"),
        (4, "/docker/ID"),
        (5, "/lxc.payload.web"),
    ]);
    let found = wanted(&meta);
    assert_eq!(found.iter().map(|of| of.group).collect::<Vec<_>>(), [4]);
    let names = |name: &str| ContainerNames { name: name.into(), ..ContainerNames::default() };
    meta.containers.insert(4, names(""));
    assert_eq!(wanted(&meta).len(), 1, "it may get a name");
    meta.containers.insert(4, names("web"));
    assert_eq!(wanted(&meta), []);
}

#[test]
fn names_are_bounded_and_go_with_their_groups() {
    let names = |text: &str| ContainerNames { name: text.into(), ..ContainerNames::default() };
    let mut meta = meta(&[(4, "/docker/ID"), (9, "/docker/ID/x")]);
    enter(&mut meta, vec![(4, names("a")), (5, names("gone"))]);
    assert_eq!(meta.containers.keys().copied().collect::<Vec<_>>(), [4]);
    meta.cgroups = (0..5000).map(|group| (group, "/docker".to_owned())).collect();
    enter(&mut meta, (0..5000).map(|group| (group, names(&"\n".repeat(40)))).collect());
    let count = meta.containers.len();
    assert!(bytes(&meta) <= BYTES_MAX && count > 200, "{count}");
    assert!(meta.containers.contains_key(&4999), "the youngest stay");
    assert!(serde_json::to_string(&meta.containers).unwrap().len() <= BYTES_MAX);
}

#[test]
fn who_has_no_name_is_not_looked_for_for_ever() {
    let node = Node::new();
    let containers = Containers::default();
    containers.ask(&meta(&[(4, "/docker/ID")]));
    containers.start(node.0.path()).unwrap();
    let meta = meta(&[(4, "/docker/ID")]);
    let tries = || *containers.tries.lock().unwrap().get(ID).unwrap_or(&0);
    for _ in 0..50 {
        containers.ask(&meta);
        containers.wait(Duration::from_secs(10));
        assert_eq!(containers.found(), []);
    }
    assert_eq!(tries(), TRIES);
    // What is gone is forgotten.
    containers.ask(&Meta::default());
    assert_eq!(tries(), 0);
    node.write(DOCKER, r#"{"Name":"/web-1"}"#);
    containers.ask(&meta);
    containers.wait(Duration::from_secs(10));
    let found = containers.found();
    assert_eq!(
        found.iter().map(|(group, of)| (*group, of.name.as_str())).collect::<Vec<_>>(),
        [(4, "web-1")]
    );
}
