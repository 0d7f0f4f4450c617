//! Which CPUs this machine has.

use std::fs;
use std::io;
use std::path::Path;

/// CPUs that are running now.
pub fn online() -> io::Result<Vec<u16>> {
    list(Path::new("/sys/devices/system/cpu/online"))
}

/// How many CPUs the kernel may ever have: one more than the highest number.
pub fn possible() -> io::Result<u32> {
    let cpus = list(Path::new("/sys/devices/system/cpu/possible"))?;
    Ok(cpus.iter().max().map_or(1, |highest| u32::from(*highest) + 1))
}

fn list(path: &Path) -> io::Result<Vec<u16>> {
    let text = fs::read_to_string(path)?;
    parse(text.trim()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{}: not a list: {text:?}", path.display()),
        )
    })
}

/// Parses the kernel's list format: `0-3,8,10-11`.
fn parse(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn lists() {
        assert_eq!(parse("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0-x"), None);
    }
}
