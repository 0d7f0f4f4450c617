//! `cargo xtask release`: all packages of a commit, their sums, and the signature of the sums.
//! docs/release.md says who signs, with which key, and how a stranger verifies it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::architecture::Architecture;
use anyhow::{Context, Result, ensure};

use crate::command::{read, run as run_command};
use crate::setup::{self, Scope};
use crate::{deb, reproducible, rpm, sbom, tarball};

/// The list of sums; its signature has `.sig` after it.
const SUMS: &str = "SHA256SUMS";
/// The commit that it was made of, so that a stranger can make it again.
const COMMIT: &str = "COMMIT";
/// What the key is used for here: a signature of anything else by it does not pass.
const NAMESPACE: &str = "flightrec-release";

/// Makes everything, puts it into a new folder, and signs it.
///
/// # Errors
/// Something is not committed; there is no such key; whatever a step says.
pub(crate) fn run(folder: &Path, key: &Path) -> Result<()> {
    setup::run(Scope::Package)?;
    let commit = reproducible::commit()?;
    ensure!(!folder.exists(), "{} is there already", folder.display());
    // Before it is built, which takes minutes.
    read(Command::new("ssh-keygen").arg("-lf").arg(key)).context("--key")?;
    let mut files = vec![rpm::run()?];
    for architecture in [Architecture::X86_64, Architecture::Aarch64] {
        let deb = deb::run(None, architecture)?;
        files.extend([tarball::of_package(&deb)?, deb]);
    }
    files.extend(sbom::run()?);
    ensure!(reproducible::commit()? == commit, "another commit was checked out meanwhile");
    put(folder, &files, &format!("{commit}\n"))?;
    sign(folder, key)?;
    println!("made: {}: {SUMS}, {SUMS}.sig, and {} files", folder.display(), files.len());
    Ok(())
}

/// Copies the files to the folder, and lists their sums and that of [`COMMIT`].
fn put(folder: &Path, files: &[PathBuf], commit: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let mut names = vec![COMMIT.to_owned()];
    fs::write(folder.join(COMMIT), commit).context(COMMIT)?;
    for file in files {
        let name = file.file_name().context("a file without a name")?.to_string_lossy();
        fs::copy(file, folder.join(&*name)).with_context(|| file.display().to_string())?;
        names.push(name.into_owned());
    }
    names.sort();
    let sums = read(Command::new("sha256sum").current_dir(folder).args(names))?;
    fs::write(folder.join(SUMS), sums).context(SUMS)
}

/// Signs the list of sums, and checks that the signature is one of it.
fn sign(folder: &Path, key: &Path) -> Result<()> {
    let sums = folder.join(SUMS);
    let mut sign = Command::new("ssh-keygen");
    sign.args(["-q", "-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key).arg(&sums);
    run_command(&mut sign)?;
    let mut check = Command::new("ssh-keygen");
    check.args(["-Y", "check-novalidate", "-n", NAMESPACE, "-s"]).arg(folder.join(signature()));
    check.stdin(File::open(&sums).context(SUMS)?).stdout(Stdio::null());
    run_command(&mut check)
}

fn signature() -> String {
    format!("{SUMS}.sig")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const PAGE: &str = include_str!("../../docs/release.md");

    /// A release of two files by a key that was made for it, and the folder in which a stranger has
    /// downloaded it.
    struct Trial {
        dir: TempDir,
    }

    impl Trial {
        fn new() -> Self {
            let trial = Self { dir: tempfile::tempdir().unwrap() };
            let files = ["a.deb", "b.tar.gz"].map(|name| trial.dir.path().join(name));
            for file in &files {
                fs::write(file, file.display().to_string()).unwrap();
            }
            put(&trial.folder(), &files, "0123abcd\n").unwrap();
            let key = trial.key("key");
            sign(&trial.folder(), &key).unwrap();
            trial.trust("key", "");
            trial
        }

        fn folder(&self) -> PathBuf {
            self.dir.path().join("release")
        }

        fn key(&self, name: &str) -> PathBuf {
            let key = self.dir.path().join(name);
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(&key);
            run_command(&mut keygen).unwrap();
            key
        }

        /// The stranger trusts this key, with these options more.
        fn trust(&self, name: &str, options: &str) {
            let key = fs::read_to_string(self.dir.path().join(format!("{name}.pub"))).unwrap();
            let line = format!("release@flightrec namespaces=\"{NAMESPACE}\"{options} {key}");
            fs::write(self.folder().join("flightrec-signers"), line).unwrap();
        }

        /// Whether the page's command that begins so passes, with `more` after its first words.
        fn passes(&self, begins: &str, more: &str) -> bool {
            // It may go on in the next line.
            let page = PAGE.replace("\\\n", "");
            let line = page.lines().find(|line| line.starts_with(begins));
            let line = line.unwrap_or_else(|| panic!("the page has no {begins}"));
            let line = line.replacen(begins, &format!("{begins} {more}"), 1);
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", &line]).current_dir(self.folder()).stdin(Stdio::null());
            shell.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
        }

        fn signature_passes(&self, more: &str) -> bool {
            self.passes("ssh-keygen -Y verify", more)
        }

        fn sums_pass(&self) -> bool {
            self.passes("sha256sum --check", "")
        }

        /// Alters one byte.
        fn alter(&self, name: &str) {
            let path = self.folder().join(name);
            let mut bytes = fs::read(&path).unwrap();
            bytes[0] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }

    #[test]
    fn what_was_released_is_verified_by_the_pages_commands() {
        let trial = Trial::new();
        assert!(trial.signature_passes(""));
        assert!(trial.sums_pass());
        // Nobody needs all files.
        fs::remove_file(trial.folder().join("b.tar.gz")).unwrap();
        assert!(trial.sums_pass());
    }

    #[test]
    fn one_byte_that_was_altered_is_seen() {
        for name in ["a.deb", "b.tar.gz", COMMIT] {
            let trial = Trial::new();
            trial.alter(name);
            assert!(trial.signature_passes("") && !trial.sums_pass(), "{name}");
        }
        let trial = Trial::new();
        trial.alter(SUMS);
        assert!(!trial.signature_passes(""));
    }

    #[test]
    fn a_key_that_nobody_knows_is_refused() {
        let trial = Trial::new();
        let other = trial.key("other");
        fs::remove_file(trial.folder().join(signature())).unwrap();
        sign(&trial.folder(), &other).unwrap();
        assert!(!trial.signature_passes(""));
        trial.trust("other", "");
        assert!(trial.signature_passes(""));
    }

    #[test]
    fn a_signature_for_another_purpose_is_refused() {
        let trial = Trial::new();
        fs::remove_file(trial.folder().join(signature())).unwrap();
        let mut sign = Command::new("ssh-keygen");
        sign.args(["-q", "-Y", "sign", "-n", "git", "-f"]).arg(trial.dir.path().join("key"));
        run_command(sign.arg(trial.folder().join(SUMS))).unwrap();
        assert!(!trial.signature_passes(""));
    }

    #[test]
    fn a_key_that_was_revoked_or_is_past_its_time_is_refused() {
        let trial = Trial::new();
        trial.key("other");
        let revoke = |key: &str| {
            let mut revoke = Command::new("ssh-keygen");
            revoke.args(["-q", "-k", "-f", "flightrec-revoked", key]);
            run_command(revoke.current_dir(trial.folder())).unwrap();
        };
        revoke("../other.pub");
        assert!(trial.signature_passes("-r flightrec-revoked"), "another key was revoked");
        revoke("../key.pub");
        assert!(!trial.signature_passes("-r flightrec-revoked"));
        trial.trust("key", ",valid-before=\"20200101\"");
        assert!(!trial.signature_passes(""));
        // What was signed in its time still passes, if one asks for that time.
        assert!(trial.signature_passes("-Overify-time=20191231"));
    }

    #[test]
    fn without_a_key_nothing_is_signed() {
        let trial = Trial::new();
        let missing = trial.dir.path().join("missing");
        assert!(sign(&trial.folder(), &missing).is_err());
    }
}
