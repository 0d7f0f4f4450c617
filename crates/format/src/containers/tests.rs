use std::collections::BTreeMap;

use super::*;

const ID: &str = "3f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const OTHER: &str = "9f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const INNER: &str = "7f2a9c1b04de5566778899aabbccddeeff00112233445566778899aabbccddee";
const UID: &str = "1a2b3c4d-1111-2222-3333-0123456789ab";

/// Runtime, id and uid by a path, in which `ID`, `UID` and `UID_` stand for these.
fn of(path: &str) -> Option<(Runtime, String, String)> {
    let path = path.replace("UID_", &UID.replace('-', "_")).replace("UID", UID).replace("ID", ID);
    let found = identity(&path)?;
    let (runtime, id) = found.container.unwrap_or((Runtime::Unknown, "".into()));
    Some((runtime, id.into(), found.pod_uid))
}

#[test]
fn paths_of_containers() {
    use Runtime::{Containerd, Crio, Docker, Podman, Unknown};
    let none = "";
    for (path, runtime, pod) in [
        ("/docker/ID", Docker, none),
        ("/docker/ID/init", Docker, none),
        ("/system.slice/docker-ID.scope", Docker, none),
        ("/system.slice/docker-ID.scope/kubelet.slice", Docker, none),
        ("/kubepods/burstable/podUID/ID", Unknown, UID),
        ("/kubepods/podUID/ID", Unknown, UID),
        ("/kubepods/besteffort/podUID/crio-ID", Crio, UID),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/\
             cri-containerd-ID.scope",
            Containerd,
            UID,
        ),
        ("/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope/init", Containerd, UID),
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/\
             kubelet-kubepods-besteffort-podUID_.slice/cri-containerd-ID.scope",
            Containerd,
            UID,
        ),
        ("/kubepods.slice/kubepods-podUID_.slice/crio-ID.scope/container", Crio, UID),
        ("/kubepods.slice/kubepods-podUID_.slice/docker-ID.scope", Docker, UID),
        (
            "/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
            Containerd,
            UID,
        ),
        ("/k8s.io/ID", Containerd, none),
        ("/default/ID", Containerd, none),
        ("/system.slice/nerdctl-ID.scope", Containerd, none),
        ("/machine.slice/libpod-ID.scope/container", Podman, none),
        ("/libpod_parent/libpod-ID", Podman, none),
        ("/system.slice/web.service/libpod-payload-ID", Podman, none),
        ("/ecs/0123456789abcdef0123456789abcdef/ID", Unknown, none),
        // As a container sees another one's group from its own root.
        ("/../../podUID/ID", Unknown, UID),
        ("/../docker-ID.scope", Docker, none),
    ] {
        assert_eq!(of(path), Some((runtime, ID.to_owned(), pod.to_owned())), "{path}");
    }
}

#[test]
fn paths_of_containers_with_names() {
    for (path, runtime, name) in [
        ("/lxc.payload.web", Runtime::Lxc, "web"),
        ("/lxc.payload.web/system.slice/ssh.service", Runtime::Lxc, "web"),
        ("/lxc.payload/101/ns", Runtime::Lxc, "101"),
        ("/lxc/101", Runtime::Lxc, "101"),
        ("/machine.slice/machine-db.scope/payload", Runtime::Nspawn, "db"),
        ("/machine.slice/machine-my\\x2ddb.scope", Runtime::Nspawn, "my-db"),
        ("/machine.slice/machine-lxc\\x2d1\\x2dweb.scope", Runtime::Nspawn, "lxc-1-web"),
        ("/machine.slice/systemd-nspawn@db.service/payload", Runtime::Nspawn, "db"),
        (
            "/ecs/x/0123456789abcdef0123456789abcdef-1234567890",
            Runtime::Unknown,
            "0123456789abcdef0123456789abcdef-1234567890",
        ),
    ] {
        assert_eq!(of(path), Some((runtime, name.to_owned(), String::new())), "{path}");
    }
}

#[test]
fn what_is_no_container() {
    for path in [
        "",
        "/",
        "/init.scope",
        "/system.slice/docker.service",
        "/system.slice/containerd.service",
        "/user.slice/user-1000.slice/session-3.scope",
        "/lxc.monitor.web",
        "/lxc.payload.",
        "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope",
        "/machine.slice/machine-.scope",
        "/machine.slice/libpod-conmon-ID.scope",
        "/kubepods.slice/crio-conmon-ID.scope",
        "/libpod_parent/conmon",
        "/system.slice/docker-3f2a9c1b04de.scope",
        "/system.slice/docker-IDff.scope",
        "/kubepods.slice/kubepods-burstable.slice",
        "/kubepods/podium",
        "/kubepods/pod1a2b3c4d-1111-2222-3333",
        "/system.slice/tripod-1.service",
    ] {
        assert_eq!(of(path), None, "{path}");
    }
}

#[test]
fn a_pod_has_a_group_of_its_own() {
    let static_pod = "0123456789abcdef0123456789abcdef";
    for (path, uid) in [
        ("/kubepods/burstable/podUID".to_owned(), UID),
        ("/kubepods.slice/kubepods-podUID_.slice".to_owned(), UID),
        (format!("/kubepods.slice/kubepods-pod{static_pod}.slice"), static_pod),
        // The program that watches a container is in the pod, and in no container.
        ("/kubepods.slice/kubepods-podUID_.slice/crio-conmon-ID.scope".to_owned(), UID),
    ] {
        assert_eq!(of(&path), Some((Runtime::Unknown, String::new(), uid.to_owned())), "{path}");
    }
}

#[test]
fn the_innermost_container_counts() {
    // A node in a container, as kind has it; and Docker in a pod.
    let node = format!(
        "/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/\
         cri-containerd-ID.scope"
    );
    assert_eq!(of(&node), Some((Runtime::Containerd, ID.into(), UID.into())));
    let inner = of(&format!("/kubepods/podUID/{OTHER}/docker/ID"));
    assert_eq!(inner, Some((Runtime::Docker, ID.into(), UID.into())));
    let path = node.replace("ID", ID);
    let all: Vec<_> = nested(&path).map(|(_, id)| id.into_owned()).collect();
    assert_eq!(all, [OTHER, ID]);
}

#[test]
fn what_users_make_below_their_managers_is_not_the_systems() {
    const MANAGER: &str = "/user.slice/user-7.slice/user@7.service/app.slice";
    let own = format!("user@7.service/{ID}");
    for (part, runtime) in [("docker", Runtime::Docker), ("libpod", Runtime::Podman)] {
        let found = of(&format!("{MANAGER}/{part}-ID.scope"));
        assert_eq!(found, Some((runtime, own.clone(), String::new())));
    }
    // A container that has users of its own, with their managers.
    for (part, id) in [("/lxc.payload.web", "web"), ("/system.slice/docker-ID.scope", ID)] {
        let found = of(&format!("{part}{MANAGER}")).map(|(_, id, _)| id);
        assert_eq!(found.as_deref(), Some(id));
    }
    let pod = of(&format!("/kubepods/podUID/ID{MANAGER}"));
    assert_eq!(pod, Some((Runtime::Unknown, ID.into(), UID.into())));
    let pod = of(&format!("{MANAGER}/kubepods/podUID"));
    assert_eq!(pod.map(|(.., uid)| uid), Some(format!("user@7.service/{UID}")));
    let mut meta = meta();
    meta.cgroups.insert(20, format!("{MANAGER}/kubepods/podUID/{ID}"));
    let containers = Containers::new(&meta);
    for foreign in ["app", ID, &ID[..6]] {
        assert!(!containers.is_in(20, foreign) && containers.is_in(5, foreign), "{foreign}");
    }
    assert!(!containers.is_in_pod(20, "shop-0") && !containers.is_in_pod(20, UID));
    for own in [&own, "user@7.service/3f2a", &format!("user@7/{ID}")] {
        assert!(containers.is_in(20, own) && !containers.is_in(5, own), "{own}");
    }
    assert_eq!(containers.get(20).map(Container::short), Some("user@7.service/3f2a9c1b04de"));
}

#[test]
fn hostile_names_do_no_harm() {
    for path in
        ["machine-\\x.scope", "machine-\\xzz.scope", "machine-a\\x2.scope", "machine-\\x2é.scope"]
    {
        assert!(identity(path).is_some(), "{path}");
    }
    assert_eq!(unescaped("a\\xffb"), "a\u{fffd}b");
    assert_eq!(unescaped("\\x1b"), "\u{1b}");
}

fn meta() -> Meta {
    let names = |name: &str, pod: &str, namespace: &str, image: &str| ContainerNames {
        name: name.into(),
        pod: pod.into(),
        namespace: namespace.into(),
        image: image.into(),
    };
    let cgroups = BTreeMap::from([
        (1, "/".to_owned()),
        (2, "/system.slice/nginx.service".to_owned()),
        (3, format!("/docker/{OTHER}")),
        (4, format!("/kubepods/pod{UID}")),
        (5, format!("/kubepods/pod{UID}/{ID}")),
        (6, format!("/docker/{OTHER}/docker/{INNER}")),
        (7, "/lxc.payload.abcdef".to_owned()),
        (8, format!("/kubepods/pod{UID}/{ID}/system.slice")),
    ]);
    let containers = BTreeMap::from([
        (3, names("web-1", "", "", "nginx:1.27")),
        (5, names("app", "shop-0", "prod", "shop:7")),
    ]);
    Meta { cgroups, containers, ..Meta::default() }
}

#[test]
fn groups_by_names_and_ids() {
    let containers = Containers::new(&meta());
    let all = || 1..=8;
    let by =
        |wanted: &str| all().filter(|group| containers.is_in(*group, wanted)).collect::<Vec<u64>>();
    assert_eq!(by("web-1"), [3, 6], "what is in it as well");
    assert_eq!((by(ID), by(&ID[..4])), (vec![5, 8], vec![5, 8]));
    assert_eq!((by(&ID[..3]), by("3f2b")), (vec![], vec![]), "too short; another one");
    assert_eq!((by("abcdef"), by("abcd")), (vec![7], vec![]), "a name is no id");
    assert_eq!((by(""), by("nginx.service"), by("/")), (vec![], vec![], vec![]));
    let pod = |wanted: &str| {
        all().filter(|group| containers.is_in_pod(*group, wanted)).collect::<Vec<u64>>()
    };
    for wanted in ["shop-0", "prod/shop-0", UID] {
        assert_eq!(pod(wanted), [4, 5, 8], "{wanted}");
    }
    for wanted in ["test/shop-0", "", "/", "prod/", "app", "shop"] {
        assert!(pod(wanted).is_empty(), "{wanted}");
    }
}

#[test]
fn what_is_known_of_one_group_is_known_of_the_whole_container() {
    let containers = Containers::new(&meta());
    let at = |group: u64| containers.get(group).map(|of| of.label().into_owned());
    assert_eq!((at(5).as_deref(), at(8).as_deref()), (Some("shop-0/app"), Some("shop-0/app")));
    assert_eq!(at(4).as_deref(), Some("shop-0"), "the pod's own");
    assert_eq!((at(3).as_deref(), at(7).as_deref()), (Some("web-1"), Some("abcdef")));
    assert_eq!((at(2), at(1), at(99)), (None, None, None));
    let of = containers.get(8).unwrap();
    let known = [&of.id, &of.name, &of.pod, &of.namespace, &of.image, &of.pod_uid];
    assert_eq!(known, [ID, "app", "shop-0", "prod", "shop:7", UID]);
    assert!(!containers.is_empty() && Containers::new(&Meta::default()).is_empty());
    assert_eq!(containers.iter().map(|(group, _)| group).collect::<Vec<_>>(), [3, 4, 5, 6, 7, 8]);
}
