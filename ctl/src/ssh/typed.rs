//! What was typed, without what says where to run it.

use std::ffi::OsString;

use super::{SshError, text};

/// Options that mean this machine, each with a value.
const OURS: [&str; 3] = ["--ssh", "--ssh-program", "--remote-flightctl"];

/// The arguments after the program's name, without those that mean this machine. What stands
/// after `--` is nobody's option.
///
/// # Errors
/// An argument is no text, or `--ssh` is not there once: then it was the value of another option.
pub fn without_ours(typed: impl IntoIterator<Item = OsString>) -> Result<Vec<String>, SshError> {
    let (mut left, mut found, mut ended) = (Vec::new(), 0, false);
    let mut typed = typed.into_iter();
    while let Some(arg) = typed.next() {
        let arg = text(&arg)?;
        ended |= arg == "--";
        let name = arg.split_once('=').map_or(arg, |(name, _)| name);
        if ended || !OURS.contains(&name) {
            left.push(arg.to_owned());
            continue;
        }
        found += usize::from(name == "--ssh");
        if name == arg {
            typed.next();
        }
    }
    if found == 1 { Ok(left) } else { Err(SshError::Place) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(line: &str) -> Result<String, SshError> {
        without_ours(line.split(' ').map(Into::into)).map(|left| left.join(" "))
    }

    #[test]
    fn options_of_this_machine_are_left_out() {
        for line in [
            "--ssh web1 dump --last 5s",
            "dump --ssh web1 --last 5s",
            "--ssh=web1 --ssh-program=/bin/x dump --last 5s --remote-flightctl y",
        ] {
            assert_eq!(left(line).unwrap(), "dump --last 5s", "{line}");
        }
        assert_eq!(left("--ssh a mark -- --ssh b").unwrap(), "mark -- --ssh b");
        assert!(left("--ssh a --ssh=b dump").is_err());
        assert!(left("mark -- --ssh b").is_err());
    }
}
