//! What the object in the repository was made of.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::toolchain::Toolchain;

/// The object, from the repository's root.
pub const OBJECT: &str = "probes-ebpf/prebuilt/probes.o";
/// Its [`Record`], from the repository's root.
pub const RECORD: &str = "probes-ebpf/prebuilt/probes.toml";

/// Files and directories that the object is compiled from, with its flags. The record names
/// compilers and linkers by their versions.
const SOURCES: [&str; 8] = [
    "crates/probes-build/src/compile.rs", // the flags
    "crates/format/Cargo.toml",
    "crates/format/src/abi",
    "crates/format/src/lib.rs",
    "probes-ebpf/Cargo.lock",
    "probes-ebpf/Cargo.toml",
    "probes-ebpf/rust-toolchain.toml",
    "probes-ebpf/src",
];

const HEADER: &str = "\
# What probes.o was made of: SHA-256 of its sources and of itself, and the versions of the programs
# that made it. `cargo xtask probes` writes both files; commit them with a change of the sources.
";

/// What an object was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// SHA-256 of the sources: their paths from the root, and their contents.
    pub sources: String,
    /// SHA-256 of the object.
    pub object: String,
    /// The compiler: what its `--version` prints.
    pub rustc: String,
    /// The linker and its LLVM.
    pub linker: String,
}

impl Record {
    /// That of an object that these programs have just made of the sources that are there.
    ///
    /// # Errors
    /// In words: a source can't be read, or a program does not say its version.
    pub fn new(root: &Path, toolchain: &Toolchain, object: &[u8]) -> Result<Self, String> {
        Ok(Self {
            sources: sources(root).map_err(|e| format!("the probes' sources: {e}"))?,
            object: digest(object),
            rustc: toolchain.rustc_version()?,
            linker: toolchain.linker_version()?,
        })
    }

    /// Reads the one in the repository.
    ///
    /// # Errors
    /// It can't be read, or lacks a line.
    pub fn read(root: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(root.join(RECORD))?;
        Self::parse(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "lacks a key"))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            Some(line?.strip_suffix('"')?.to_owned())
        };
        Some(Self {
            sources: value("sources")?,
            object: value("object")?,
            rustc: value("rustc")?,
            linker: value("linker")?,
        })
    }

    /// Its text, as it stands in the repository.
    pub fn text(&self) -> String {
        let Self { sources, object, rustc, linker } = self;
        format!(
            "{HEADER}sources = \"{sources}\"\nobject = \"{object}\"\nrustc = \"{rustc}\"\nlinker = \
             \"{linker}\"\n"
        )
    }

    /// Whether the same programs made `other`.
    pub fn is_of_the_same_tools(&self, other: &Self) -> bool {
        self.rustc == other.rustc && self.linker == other.linker
    }
}

/// The object in the repository, if it is of the sources that are there.
///
/// # Errors
/// In words, why it is not to be used.
pub fn prebuilt(root: &Path) -> Result<PathBuf, String> {
    let record = Record::read(root).map_err(|e| format!("{RECORD}: {e}"))?;
    let object = root.join(OBJECT);
    let bytes = fs::read(&object).map_err(|e| format!("{OBJECT}: {e}"))?;
    if digest(&bytes) != record.object {
        return Err(format!("{OBJECT} is not the file that {RECORD} describes"));
    }
    let sources = sources(root).map_err(|e| format!("the probes' sources: {e}"))?;
    if sources != record.sources {
        return Err(format!("{OBJECT} is of other sources than those that are here"));
    }
    Ok(object)
}

/// SHA-256, as text.
fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a String takes all
        text
    })
}

/// What a build script must watch: the object, its record, and all that it is made of.
pub fn watched(root: &Path) -> impl Iterator<Item = PathBuf> {
    SOURCES.iter().chain([&OBJECT, &RECORD]).map(move |path| root.join(path))
}

/// The hash of the sources that are there.
fn sources(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(root, Path::new(source), &mut files)?;
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let bytes = fs::read(root.join(&file))?;
        all.extend_from_slice(format!("{} {}\n", file.display(), bytes.len()).as_bytes());
        all.extend(bytes);
    }
    Ok(digest(&all))
}

/// The files at or below a path, by their paths from the root. Names that begin with a dot are
/// editors' files.
fn collect(root: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !root.join(path).is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for entry in fs::read_dir(root.join(path))? {
        let name = entry?.file_name();
        if !name.to_string_lossy().starts_with('.') {
            collect(root, &path.join(name), files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with a byte in each source, and an object of them.
    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for source in SOURCES.into_iter().chain([OBJECT]) {
            let is_file = Path::new(source).extension().is_some();
            let file = if is_file { source.to_owned() } else { format!("{source}/deeper/one.rs") };
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, source).unwrap();
        }
        let record = Record {
            sources: sources(dir.path()).unwrap(),
            object: digest(OBJECT.as_bytes()),
            rustc: "rustc 1".to_owned(),
            linker: "bpf-linker 1, LLVM 2".to_owned(),
        };
        fs::write(dir.path().join(RECORD), record.text()).unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), record);
        dir
    }

    #[test]
    fn an_object_is_taken_only_with_the_sources_that_it_was_made_of() {
        let dir = repository();
        assert_eq!(prebuilt(dir.path()), Ok(dir.path().join(OBJECT)));
        let source = dir.path().join("probes-ebpf/src/deeper/one.rs");
        let text = fs::read_to_string(&source).unwrap();
        fs::write(&source, format!("{text} ")).unwrap();
        assert!(prebuilt(dir.path()).unwrap_err().contains("of other sources"));
        fs::write(&source, &text).unwrap();
        assert!(prebuilt(dir.path()).is_ok());
        // Another name for the same contents.
        fs::rename(&source, source.with_file_name("two.rs")).unwrap();
        assert!(prebuilt(dir.path()).unwrap_err().contains("of other sources"));
        fs::rename(source.with_file_name("two.rs"), &source).unwrap();
        fs::write(source.with_file_name(".one.rs.swp"), "an editor's").unwrap();
        assert!(prebuilt(dir.path()).is_ok());
    }

    #[test]
    fn an_object_that_was_altered_or_is_missing_is_not_taken() {
        let dir = repository();
        fs::write(dir.path().join(OBJECT), "altered").unwrap();
        assert!(prebuilt(dir.path()).unwrap_err().contains("not the file"));
        fs::remove_file(dir.path().join(OBJECT)).unwrap();
        assert!(prebuilt(dir.path()).unwrap_err().contains(OBJECT));
        fs::write(dir.path().join(RECORD), "sources = \"\"\n").unwrap();
        assert!(prebuilt(dir.path()).unwrap_err().contains(RECORD));
    }
}
