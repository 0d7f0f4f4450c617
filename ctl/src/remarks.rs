//! What is said of a command line before anything is done: where a time does not mean what it seems
//! to.

use jiff::Zoned;

use crate::args::{Cli, Command, WindowArgs};
use crate::time_arg::TimeArg;

/// What the user should know of the times that were typed, a line each.
pub fn of(cli: &Cli, now: &Zoned) -> Vec<String> {
    match &cli.command {
        Command::Dump(args) => of_window(&args.window, now),
        Command::Save(args) => of_window(&args.window, now),
        Command::Top(args) => of_window(&args.window, now),
        _ => Vec::new(),
    }
}

fn of_window(window: &WindowArgs, now: &Zoned) -> Vec<String> {
    let WindowArgs { since, until, around, .. } = window;
    let around = around.as_ref().map(|around| &around.time);
    let times = [("since", since.as_ref()), ("until", until.as_ref()), ("around", around)];
    let mut said: Vec<String> = times
        .into_iter()
        .filter_map(|(option, time)| yesterday(option, time?, since.as_ref(), now))
        .collect();
    if until.is_some() && since.is_none() {
        said.push(
            "the window is everything that is recorded up to --until, as no --since is given"
                .to_owned(),
        );
    }
    said
}

/// A time of day that is still to come today is taken as yesterday's.
fn yesterday(option: &str, time: &TimeArg, since: Option<&TimeArg>, now: &Zoned) -> Option<String> {
    let TimeArg::TimeOfDay(of_day) = time else { return None };
    if *of_day <= now.time() || option == "until" && crate::plan::is_ahead(time, since, now) {
        return None;
    }
    let day = now.date().yesterday().ok()?;
    Some(format!(
        "--{option} {of_day} is still to come today: yesterday's is meant, {day} {of_day}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn said(args: &[&str]) -> Vec<String> {
        let cli = Cli::try_parse_from(["flightctl", "dump"].iter().chain(args)).unwrap();
        of(&cli, &"2026-03-04T12:00:00Z[UTC]".parse().unwrap())
    }

    #[test]
    fn yesterday_is_told() {
        let yesterday =
            "--since 23:59:50 is still to come today: yesterday's is meant, 2026-03-03 23:59:50";
        assert_eq!(said(&["--since", "23:59:50"]), [yesterday]);
        assert_eq!(said(&["--since", "23:59:50", "--until", "00:01"]), [yesterday]);
        assert_eq!(said(&["--around", "13:00"]).len(), 1);
        assert_eq!(said(&["--since", "22:00", "--until", "23:00"]).len(), 2);
        for today in [
            &["--since=11:59"][..],
            &["--since=2026-03-04 23:00"],
            &["--around=-5s"],
            &["--last=1s"],
            &[],
        ] {
            assert_eq!(said(today), [""; 0], "{today:?}");
        }
        assert_eq!(said(&["--since=11:00", "--until=13:00"]), [""; 0], "the end lies ahead");
    }

    #[test]
    fn an_end_alone_is_told() {
        assert_eq!(said(&["--until", "-5s"]).len(), 1);
        assert_eq!(said(&["--since=-9s", "--until=-5s"]), [""; 0]);
    }
}
