//! What programs of any machine say that they need, by `readelf`, which reads all machines'.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::read;

/// Names of the shared libraries that a program needs itself, such as `libc.so.6`.
pub fn libraries(program: &Path) -> Result<Vec<String>> {
    Ok(needed(&read(readelf().arg("-d").arg(program))?))
}

/// The oldest glibc that a program runs with; none: it needs none.
pub fn glibc(program: &Path) -> Result<Option<(u32, u32)>> {
    Ok(newest_glibc(&read(readelf().arg("-V").arg(program))?))
}

fn readelf() -> Command {
    let mut readelf = Command::new("readelf");
    readelf.arg("-W").env("LC_ALL", "C");
    readelf
}

/// From lines such as ` 0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]`.
fn needed(dynamic: &str) -> Vec<String> {
    let lines = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let names = lines.filter_map(|line| line.split(['[', ']']).nth(1));
    names.map(str::to_owned).collect()
}

/// The newest version of glibc that symbols are of: `  0x0010:   Name: GLIBC_2.17  Flags: none  …`.
fn newest_glibc(versions: &str) -> Option<(u32, u32)> {
    let versions = versions.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let numbers = versions.filter_map(|version| {
        let mut parts = version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    });
    numbers.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_says_which_glibc_is_needed() {
        let versions = "Version needs section '.gnu.version_r' contains 2 entries:\n  \
                        000000: Version: 1  File: libc.so.6  Cnt: 3\n  \
                        0x0010:   Name: GLIBC_2.4  Flags: none  Version: 5\n  \
                        0x0020:   Name: GLIBC_2.34  Flags: none  Version: 4\n  \
                        0x0030:   Name: GLIBC_2.2.5  Flags: none  Version: 3\n  \
                        0x0040:   Name: GCC_3.0  Flags: none  Version: 2\n";
        assert_eq!(newest_glibc(versions), Some((2, 34)));
        assert_eq!(newest_glibc("No version information found in this file.\n"), None);
    }

    #[test]
    fn a_program_names_its_libraries() {
        let dynamic = " 0x0000000000000001 (NEEDED)  Shared library: [libm.so.6]\n \
                       0x0000000000000001 (NEEDED)  Shared library: [libc.so.6]\n \
                       0x000000000000000e (SONAME)  Library soname: [x.so]\n";
        assert_eq!(needed(dynamic), ["libm.so.6", "libc.so.6"]);
        assert!(needed("There is no dynamic section in this file.\n").is_empty());
    }

    #[test]
    fn this_program_needs_a_glibc() {
        let program = std::env::current_exe().unwrap();
        assert!(libraries(&program).unwrap().contains(&"libc.so.6".to_owned()));
        assert!(glibc(&program).unwrap().is_some_and(|version| version >= (2, 17)));
    }
}
