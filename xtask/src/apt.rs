//! Packages of Debian for any of its machines and releases, through an apt of our own, so that this
//! machine's is left alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::architecture::Architecture;
use anyhow::{Context, Result, ensure};

use crate::architecture::debians;
use crate::command::run;

const SUITES: &[&str] =
    &["bullseye", "bookworm", "bookworm-backports", "trixie", "trixie-backports", "sid"];
const SECURITY: &[&str] = &["bullseye-security", "bookworm-security", "trixie-security"];

/// An apt with state of its own.
pub struct Apt {
    config: PathBuf,
    downloads: PathBuf,
}

impl Apt {
    /// In a folder, which is made; asks the mirrors for their lists.
    pub fn new(cache: &Path, architecture: Architecture) -> Result<Self> {
        let debian = debians(architecture);
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
                 \"{dir}/var/lib/dpkg/status\";\nAPT::Architecture \"{debian}\";\nAcquire::Languages \
                 \"none\";\nAcquire::Check-Valid-Until \"false\";\nAPT::Sandbox::User \"root\";\n"
            ),
        )?;
        let apt = Self { config, downloads: root.join("downloads") };
        run(apt.command("apt-get").args(["update", "-qq"]))?;
        Ok(apt)
    }

    /// One of its programs: `apt-cache`, `apt-get`.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config).current_dir(&self.downloads);
        command
    }

    /// Unpacks a package (`NAME` or `NAME=VERSION`) into a folder.
    pub fn unpack(&self, package: &str, dir: &Path) -> Result<()> {
        run(self.command("apt-get").args(["-qq", "download", package]))?;
        let name = package.split('=').next().unwrap_or(package);
        let begins = format!("{name}_");
        let names = fs::read_dir(&self.downloads)?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut files = names.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begins))
        });
        let file = files.next().with_context(|| format!("{package} was not downloaded"))?;
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
    ensure!(main.is_some(), "no Debian mirror in /etc/apt: packages come from one");
    Ok((main.unwrap_or_default(), ending("/debian-security")))
}
