//! Debian's kernels, fetched through an apt of our own, so that the machine's is left alone. Names
//! move with every security update, so they are looked up each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{read, run};

/// A kernel to try.
#[derive(Debug)]
pub(super) struct Kernel {
    /// What it is called here.
    pub(super) name: &'static str,
    /// Names of its package.
    pattern: &'static str,
    /// What the recorder does there.
    pub(super) promise: Promise,
}

/// What the recorder promises of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Promise {
    /// It records, and what it recorded is found in the dump.
    Records,
    /// It is older than the oldest that is supported: `flightd` says so, and ends.
    Refuses,
}

const fn records(name: &'static str, pattern: &'static str) -> Kernel {
    Kernel { name, pattern, promise: Promise::Records }
}

/// All there are; kernels are data.
const KERNELS: &[Kernel] = &[
    Kernel {
        name: "5.10",
        pattern: r"^linux-image-5\.10.*[0-9]-cloud-amd64$",
        promise: Promise::Refuses,
    },
    records("6.1", r"^linux-image-6\.1\.0.*[0-9]-cloud-amd64$"),
    records("6.1-rt", r"^linux-image-6\.1\.0.*[0-9]-rt-amd64$"),
    records("6.12", r"^linux-image-6\.12.*[0-9]-cloud-amd64$"),
    records("6.12-rt", r"^linux-image-6\.12.*[0-9]-rt-amd64$"),
    records("newest", r"^linux-image-7.*[0-9]-cloud-amd64$"),
];

const SUITES: &[&str] =
    &["bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"];
const SECURITY: &[&str] = &["bullseye-security", "bookworm-security", "trixie-security"];

/// The kernels of these names; none: all.
pub(super) fn named(names: &[String]) -> Result<Vec<&'static Kernel>> {
    if names.is_empty() {
        return Ok(KERNELS.iter().collect());
    }
    let find = |name: &String| {
        let known: Vec<&str> = KERNELS.iter().map(|kernel| kernel.name).collect();
        let kernel = KERNELS.iter().find(|kernel| kernel.name == name);
        kernel.with_context(|| format!("vm: no kernel {name}; there are {}", known.join(", ")))
    };
    names.iter().map(find).collect()
}

/// Where a kernel's release is noted.
fn note(cache: &Path, kernel: &Kernel) -> PathBuf {
    cache.join(format!("{}.release", kernel.name))
}

/// Where a kernel was unpacked to.
pub(super) fn unpacked(cache: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let release = fs::read_to_string(note(cache, kernel))
        .with_context(|| format!("{} was not fetched", kernel.name))?;
    Ok(cache.join("kernels").join(release.trim()))
}

/// Fetches what is not there yet.
pub(super) fn fetch(cache: &Path, kernels: &[&Kernel]) -> Result<()> {
    let apt = Apt::new(cache)?;
    for kernel in kernels {
        let packages =
            read(apt.command("apt-cache").args(["search", "--names-only", kernel.pattern]))?;
        let newest = packages.lines().filter_map(|line| line.split_whitespace().next());
        let newest =
            newest.filter(|name| !name.contains("unsigned")).max_by_key(|name| version(name));
        let Some(package) = newest else { bail!("vm: no package matches {}", kernel.pattern) };
        let release = package.trim_start_matches("linux-image-");
        let dir = cache.join("kernels").join(release);
        if !dir.join("complete").exists() {
            println!("vm: fetching {package}");
            // In later releases the kernel and its modules have a package each.
            let split = [format!("linux-binary-{release}"), format!("linux-modules-{release}")];
            let is_split =
                crate::command::probe(apt.command("apt-cache").args(["show", &split[0]]))
                    .is_some_and(|text| !text.is_empty());
            let parts = if is_split { split.to_vec() } else { vec![package.to_owned()] };
            for part in &parts {
                apt.unpack(part, &dir)?;
            }
            fs::write(dir.join("complete"), "")?;
        }
        fs::write(note(cache, kernel), release)?;
    }
    Ok(())
}

/// The numbers in a name, to sort by.
fn version(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// An apt with state of its own.
struct Apt {
    config: PathBuf,
    downloads: PathBuf,
}

impl Apt {
    fn new(cache: &Path) -> Result<Self> {
        let root = cache.join("apt");
        for dir in [
            "etc/apt/apt.conf.d",
            "etc/apt/preferences.d",
            "etc/apt/sources.list.d",
            "var/lib/dpkg",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
            "downloads",
        ] {
            fs::create_dir_all(root.join(dir))?;
        }
        fs::write(root.join("var/lib/dpkg/status"), "")?;
        let (main, security) = mirrors()?;
        let line = |uri: &str, suite: &&str| {
            format!(
                "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {uri} {suite} \
                 main\n"
            )
        };
        let mut sources: String = SUITES.iter().map(|suite| line(&main, suite)).collect();
        if let Some(security) = security {
            sources.extend(SECURITY.iter().map(|suite| line(&security, suite)));
        }
        fs::write(root.join("etc/apt/sources.list"), sources)?;
        // A mirror that stands still serves lists that have expired; their signatures hold all the
        // same.
        let config = cache.join("apt.conf");
        let dir = root.display();
        fs::write(
            &config,
            format!(
                "Dir \"{dir}\";\nDir::State::status \
                 \"{dir}/var/lib/dpkg/status\";\nAPT::Architecture \"amd64\";\nAcquire::Languages \
                 \"none\";\nAcquire::Check-Valid-Until \"false\";\nAPT::Sandbox::User \"root\";\n"
            ),
        )?;
        let apt = Self { config, downloads: root.join("downloads") };
        run(apt.command("apt-get").args(["update", "-qq"]))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).current_dir(&self.downloads);
        command
    }

    fn unpack(&self, package: &str, dir: &Path) -> Result<()> {
        run(self.command("apt-get").args(["-qq", "download", package]))?;
        let begins = format!("{package}_");
        let names = fs::read_dir(&self.downloads)?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files = names.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))
        });
        let file = files.next().with_context(|| format!("vm: {package} was not downloaded"))?;
        fs::create_dir_all(dir)?;
        run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(dir))?;
        fs::remove_file(file)?;
        Ok(())
    }
}

/// The Debian mirrors that this machine uses: of packages, and of security updates.
fn mirrors() -> Result<(String, Option<String>)> {
    let mut texts = vec![fs::read_to_string("/etc/apt/sources.list").unwrap_or_default()];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        texts.extend(entries.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok()));
    }
    let lines = texts.iter().flat_map(|text| text.lines());
    let uris: Vec<&str> = lines
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.first() {
                Some(&("URIs:" | "deb")) => words.iter().copied().find(|word| word.contains("://")),
                _ => None,
            }
        })
        .collect();
    let ending = |end: &str| {
        uris.iter()
            .find(|uri| uri.trim_end_matches('/').ends_with(end))
            .map(|uri| (*uri).to_owned())
    };
    let main = ending("/debian");
    ensure!(main.is_some(), "vm: no Debian mirror in /etc/apt: kernels come from one");
    Ok((main.unwrap_or_default(), ending("/debian-security")))
}
