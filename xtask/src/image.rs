//! `cargo xtask image`: an image for containers, as an archive in the OCI's layout.
//!
//! It holds flightd and flightctl, the C library that they were linked with, and the names of root
//! and of nobody: no shell, no package. The archive is an OCI layout (image-spec, image-layout.md)
//! that has Docker's `manifest.json` as well, so `podman load`, `docker load`, `ctr image import`
//! and `skopeo copy oci-archive:…` take it. The same programs make the same bytes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::build;
use crate::command::{read, repository, run as run_command};

/// What the image is called where it is loaded.
pub const NAME: &str = "localhost/flightrec";
/// The programs in it.
const PROGRAMS: [&str; 2] = ["flightd", "flightctl"];
/// Files of its own.
const FILES: [(&str, &str); 3] = [
    (
        "etc/passwd",
        "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
    ),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\n"),
];
/// Directories that volumes are mounted on.
const DIRECTORIES: [&str; 7] =
    ["bpf", "dev", "etc/flightrec", "host", "proc", "sys", "var/lib/flightrec"];

/// Makes target/image/flightrec.tar of what it builds, or, if `as_built`, of what is in
/// target/release; its path.
///
/// # Errors
/// Whatever a step says.
pub fn run(as_built: bool) -> Result<PathBuf> {
    if !as_built {
        build::for_packages()?;
    }
    let folder = repository().join("target/image");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("an earlier image can't be removed")?;
    }
    let (root, layout) = (folder.join("root"), folder.join("layout"));
    fill(&root)?;
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;

    let tar = folder.join("layer.tar");
    pack(&root, &tar, &["."])?;
    let diff = digest(&tar)?;
    run_command(Command::new("gzip").arg("-n9").arg(&tar))?;
    let layer = Blob::keep(&folder.join("layer.tar.gz"), &blobs)?;
    let version = env!("CARGO_PKG_VERSION");
    let config = Blob::write(&blobs, &config(&diff, version))?;
    let manifest = Blob::write(
        &blobs,
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
            "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
        }),
    )?;
    let name = format!("{NAME}:{version}");
    let mut described = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    if let Some(described) = described.as_object_mut() {
        described.insert(
            "annotations".to_owned(),
            json!({"org.opencontainers.image.ref.name": version, "io.containerd.image.name": name}),
        );
    }
    let index = json!({"schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [described]});
    let docker = json!([{"Config": config.path(), "RepoTags": [name], "Layers": [layer.path()]}]);
    for (file, document) in [
        ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
        ("index.json", index),
        ("manifest.json", docker),
    ] {
        fs::write(layout.join(file), serde_json::to_vec(&document)?)?;
    }
    let archive = folder.join("flightrec.tar");
    pack(&layout, &archive, &["oci-layout", "index.json", "manifest.json", "blobs"])?;
    Ok(archive)
}

/// What is run, and how.
fn config(diff: &str, version: &str) -> Value {
    json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/flightd"],
            "Env": ["PATH=/usr/bin"],
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "flightrec",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
        "history": [{"created_by": "cargo xtask image"}],
    })
}

/// Makes the image's files.
fn fill(root: &Path) -> Result<()> {
    for directory in DIRECTORIES {
        fs::create_dir_all(root.join(directory))?;
    }
    let mut libraries = BTreeSet::new();
    for name in PROGRAMS {
        let program = repository().join("target/release").join(name);
        let inside = root.join("usr/bin").join(name);
        copy(&program, &inside)?;
        run_command(Command::new("strip").arg(&inside))?;
        libraries.extend(libraries_of(&program)?);
    }
    for library in &libraries {
        // Where the loader is named, and looks.
        copy(library, &root.join(library.strip_prefix("/")?))?;
    }
    for (file, text) in FILES {
        fs::create_dir_all(root.join(file).parent().unwrap_or(root))?;
        fs::write(root.join(file), text)?;
    }
    Ok(())
}

/// Copies a file, for all to read and run.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| {
        format!("{} is not there: build it, without --as-built", from.display())
    })?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The shared libraries of a program, and the loader.
fn libraries_of(program: &Path) -> Result<Vec<PathBuf>> {
    let listed = read(Command::new("ldd").arg(program))?;
    let found: Vec<PathBuf> = listed
        .lines()
        .filter_map(|line| {
            let path = line.split_once("=> ").map_or(line, |(_, path)| path).trim();
            let path = path.split_whitespace().next()?;
            path.starts_with('/').then(|| path.into())
        })
        .collect();
    ensure!(!listed.contains("not found"), "{} lacks libraries:\n{listed}", program.display());
    Ok(found)
}

/// Packs files of a directory: owners, times and order are the same each time.
fn pack(directory: &Path, archive: &Path, files: &[&str]) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--format=ustar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u+rwX,go+rX,go-w", "-C"]).arg(directory);
    run_command(tar.arg("-cf").arg(archive).args(files))
}

fn digest(file: &Path) -> Result<String> {
    let printed = read(Command::new("sha256sum").arg(file))?;
    let digest = printed.split_whitespace().next().unwrap_or_default();
    ensure!(digest.len() == 64, "sha256sum said: {printed}");
    Ok(digest.to_owned())
}

/// A part of the image, by its digest.
struct Blob {
    digest: String,
    size: u64,
}

impl Blob {
    /// Moves a file to where blobs are.
    fn keep(file: &Path, blobs: &Path) -> Result<Self> {
        let (digest, size) = (digest(file)?, fs::metadata(file)?.len());
        fs::rename(file, blobs.join(&digest))?;
        Ok(Self { digest, size })
    }

    fn write(blobs: &Path, document: &Value) -> Result<Self> {
        let file = blobs.join("new");
        fs::write(&file, serde_json::to_vec(document)?)?;
        Self::keep(&file, blobs)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        let digest = format!("sha256:{}", self.digest);
        json!({"mediaType": media_type, "digest": digest, "size": self.size})
    }

    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.digest)
    }
}
