//! Functions of the kernel, as /proc/kallsyms lists them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use super::spec::Pattern;

/// Most bytes of the list that are read: a kernel has some 10 MB.
const LIST_MAX: u64 = 256 << 20;
const LIST: &str = "/proc/kallsyms";

/// Functions by their names, each with its address. The error is for the user.
pub(super) fn functions(
    module: Option<&str>,
    name: &Pattern,
    most: usize,
) -> Result<Vec<(String, u64)>, String> {
    let list = File::open(LIST).map_err(|e| format!("{LIST}: {e}"))?;
    let found = find(BufReader::new(list.take(LIST_MAX)), module, name)?;
    if found.is_empty() {
        return Err(none(module, name));
    }
    if found.values().any(|address| *address == 0) {
        return Err(format!(
            "{LIST} does not tell addresses: run as root with CAP_SYSLOG, and with \
             kernel.kptr_restrict below 2"
        ));
    }
    if found.len() > most {
        return Err(format!(
            "{name} means {} functions; {most} can be probed at a time: narrow the pattern",
            found.len()
        ));
    }
    Ok(found.into_iter().collect())
}

fn none(module: Option<&str>, name: &Pattern) -> String {
    match module {
        Some(module) => {
            let is_loaded = std::fs::exists(format!("/sys/module/{module}")).unwrap_or(false);
            if is_loaded {
                format!(
                    "the module {module} has no function {name}: those that run only while it is \
                     loaded (its init function) are gone"
                )
            } else {
                format!(
                    "the module {module} is not loaded: load it, then probe its functions. What \
                     runs only while it is loaded (its init function) can't be probed: the \
                     addresses are not there before"
                )
            }
        }
        None => format!("the kernel has no function {name}: see /proc/kallsyms for its functions"),
    }
}

/// `address type name [module]`, of types of code. Of several of one name the first is taken.
fn find(
    list: impl BufRead,
    module: Option<&str>,
    name: &Pattern,
) -> Result<BTreeMap<String, u64>, String> {
    let mut found = BTreeMap::new();
    for line in list.lines() {
        let line = line.map_err(|e| format!("{LIST}: {e}"))?;
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(function)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let of = words.next().map(|of| of.trim_matches(['[', ']']));
        if !["t", "T", "w", "W"].contains(&kind) || of == Some("bpf") || !name.has(function) {
            continue;
        }
        if module.is_some() && of != module {
            continue;
        }
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let told = of.map_or_else(|| function.to_owned(), |of| format!("{function} [{of}]"));
        found.entry(told).or_insert(address);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::spec::{self, Spec};
    use super::*;

    #[test]
    fn functions_of_kernel_and_module() {
        const TEXT: &str = "ffffffff81000000 T vfs_read\nffffffff81000010 D vfs_data\n\
                            ffffffff81000020 t vfs_readv\nx\nffffffffc0000000 t vfs_read\t[ext4]\n\
                            ffffffffc0000010 t bpf_prog_1_vfs_read\t[bpf]\n";
        let found = |typed: &str| {
            let Spec { place, name, .. } = spec::parse(typed).unwrap();
            let spec::Place::Kernel(module) = place else { panic!("{typed}") };
            let found = find(TEXT.as_bytes(), module.as_deref(), &name).unwrap();
            found.into_iter().map(|(name, at)| format!("{name}={at:x}")).collect::<Vec<_>>()
        };
        assert_eq!(
            found("kernel:vfs_*"),
            [
                "vfs_read=ffffffff81000000",
                "vfs_read [ext4]=ffffffffc0000000",
                "vfs_readv=ffffffff81000020"
            ]
        );
        assert_eq!(found("kernel:ext4:*"), ["vfs_read [ext4]=ffffffffc0000000"]);
        assert!(found("kernel:nothing").is_empty());
    }
}
