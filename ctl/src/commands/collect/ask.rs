//! One host asked: its window saved there, and sent here.

use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flightrec_reader::window::{Edge, nanos};

use super::CollectPlan;
use super::hosts::Host;
use super::stream::Stream;
use super::survey::{Held, survey};
use crate::clock_offset::{self, Ahead, Asked};
use crate::follow::stop::Stop;
use crate::frames::{self, Next};
use crate::output::OutputError;
use crate::target::Target;
use flightrec_cli::told;
use flightrec_format::human::{bytes, span};

/// Most files of one host: recordings that its window reaches over.
const FILES_MAX: usize = 16;
/// Questions for the time beside the first, which has the making of the connection in it.
const QUESTIONS: usize = 3;
/// How long reasons are, characters.
const REASON_MAX: usize = 200;

/// What came of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Its window.
    Saved {
        /// The files.
        files: Vec<PathBuf>,
        /// Their size.
        bytes: u64,
        /// What they have of the window.
        held: Held,
        /// The host's clock, if it told the time.
        clock: Option<Ahead>,
    },
    /// Nothing was recorded in it.
    Nothing {
        /// The host's clock, if it told the time.
        clock: Option<Ahead>,
    },
    /// Nothing came, or not all.
    None(String),
}

/// Asks hosts, any number at a time.
pub(super) struct Asking<'a> {
    plan: &'a CollectPlan,
    begun: Instant,
    stop: &'a Stop,
    /// What files hold is found out one after the other, as each takes memory.
    surveys: Mutex<()>,
}

impl<'a> Asking<'a> {
    pub(super) const fn new(plan: &'a CollectPlan, begun: Instant, stop: &'a Stop) -> Self {
        Self { plan, begun, stop, surveys: Mutex::new(()) }
    }

    /// Asks one.
    pub(super) fn ask(&self, host: &Host) -> Answer {
        if self.stop.signalled() {
            return Answer::None("not asked: collect was interrupted".to_owned());
        }
        self.answer(host).unwrap_or_else(|why| {
            let why: String = why.chars().take(REASON_MAX).collect();
            Answer::None(why)
        })
    }

    fn answer(&self, host: &Host) -> Result<Answer, String> {
        let plan = self.plan;
        let connect = format!("ConnectTimeout={}", plan.timeout.as_secs().max(1));
        // Nobody is there to be asked for a password. A shared connection is used where there is
        // one, but none is left behind that would hold on to our pipes.
        let options = ["BatchMode=yes", "ControlMaster=no", &connect];
        let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option]).collect();
        let args = args(plan.since, plan.until, self.begun.elapsed());
        let command = plan.ssh.command(&host.name, &options, &args).map_err(|e| e.to_string())?;
        let mut stream = Stream::start(command, plan.timeout, plan.max_size, self.stop)
            .map_err(|source| plan.ssh.not_started(source).to_string())?;
        let received = self.receive(&mut stream, host);
        stream.told();
        if let Err(error) = &received
            && !matches!(error, Failure::Io(error) if is_stream(error))
        {
            return Err(self.why(error));
        }
        let status = stream.end().map_err(|error| self.why(&Failure::Io(error)))?;
        let code = status.code().ok_or_else(|| format!("ssh was ended ({status})"))?;
        if code > 1 {
            let failure = plan.ssh.failure(&host.name, code).map(|failure| failure.to_string());
            let words = stream.last_words().filter(|_| code != 127 && code != 126);
            let status = || format!("flightctl ended there with status {code}");
            return Err(words.or(failure).unwrap_or_else(status));
        }
        match received {
            Ok((clock, targets)) if targets.is_empty() && code == 1 => {
                Ok(Answer::Nothing { clock })
            }
            Ok((_, targets)) if targets.is_empty() => {
                Err("what came is no recording: is that flightctl, of this release?".to_owned())
            }
            Ok((clock, targets)) => self.keep(targets, clock),
            Err(error) => Err(self.why(&error)),
        }
    }

    /// Writes what comes to files that have no name yet.
    fn receive(
        &self,
        stream: &mut Stream<'_>,
        host: &Host,
    ) -> Result<(Option<Ahead>, Vec<Target>), Failure> {
        let mut targets: Vec<Target> = Vec::new();
        let mut file: Option<(Target, BufWriter<std::fs::File>)> = None;
        let mut buffer = Vec::new();
        let (clock, mut first) = ask_the_time(stream, &mut buffer)?;
        loop {
            let next = match first.take() {
                Some(first) => first,
                None => frames::next(stream, &mut buffer, file.is_some())?,
            };
            match next {
                Next::EndOfStream => return Ok((clock, targets)),
                Next::EndOfFile => {
                    let (target, mut out) = file.take().ok_or(ErrorKind::InvalidData)?;
                    out.flush().map_err(|error| Failure::told(&target.failed(error)))?;
                    targets.push(target);
                }
                Next::Bytes => {
                    if file.is_none() {
                        if targets.len() == FILES_MAX {
                            return Err(Failure::Told(format!(
                                "the window reaches over more than {FILES_MAX} recordings: select \
                                 less time"
                            )));
                        }
                        let path = self.plan.path(host, targets.len());
                        let target =
                            Target::make(&path, self.plan.force).map_err(|e| Failure::told(&e))?;
                        let out = target.out().map_err(|e| Failure::told(&e))?;
                        file = Some((target, out));
                    }
                    if let Some((target, out)) = &mut file {
                        let written = out.write_all(&buffer);
                        written.map_err(|error| Failure::told(&target.failed(error)))?;
                    }
                }
            }
        }
    }

    /// Finds out what files hold, and names them.
    fn keep(&self, targets: Vec<Target>, clock: Option<Ahead>) -> Result<Answer, String> {
        let paths = targets.iter().map(|target| target.now().to_owned()).collect();
        let held = {
            let _one = self.surveys.lock().unwrap_or_else(PoisonError::into_inner);
            survey(paths).map_err(|error| format!("what came can't be read: {}", told(&error)))?
        };
        let (mut files, mut size) = (Vec::new(), 0u64);
        for target in targets {
            files.push(target.path().to_owned());
            size = size.saturating_add(target.name().map_err(|error| error.to_string())?);
        }
        Ok(Answer::Saved { files, bytes: size, held, clock })
    }

    fn why(&self, failure: &Failure) -> String {
        match failure {
            Failure::Told(why) => why.clone(),
            Failure::Io(_) if self.stop.signalled() => "collect was interrupted".to_owned(),
            Failure::Io(error) => match error.kind() {
                ErrorKind::TimedOut => {
                    format!("no answer within {} (--timeout)", span(nanos(self.plan.timeout)))
                }
                ErrorKind::FileTooLarge => format!(
                    "more than {} came: select less time, or raise --max-size",
                    bytes(self.plan.max_size)
                ),
                ErrorKind::UnexpectedEof => "the connection ended in the middle".to_owned(),
                ErrorKind::InvalidData => {
                    "what came is no recording: does the shell there print something, or is \
                     flightctl of another release?"
                        .to_owned()
                }
                _ => error.to_string(),
            },
        }
    }
}

/// Asks a host for its time. What it sends that is no answer is in `buffer`, and returned.
fn ask_the_time(
    stream: &mut Stream<'_>,
    buffer: &mut Vec<u8>,
) -> io::Result<(Option<Ahead>, Option<Next>)> {
    let mut known: Option<Ahead> = None;
    for _ in 0..=QUESTIONS {
        let asked = Asked::now();
        stream.tell(clock_offset::ASK);
        let next = frames::next(stream, buffer, false)?;
        match clock_offset::answered(buffer).filter(|_| next == Next::Bytes) {
            Some(there) => known = Some(asked.answered(there).better(known)),
            None => return Ok((known, Some(next))),
        }
    }
    stream.tell(clock_offset::GO);
    Ok((known, None))
}

/// Why nothing was received.
enum Failure {
    /// In words.
    Told(String),
    /// By the system.
    Io(io::Error),
}

impl Failure {
    fn told(error: &OutputError) -> Self {
        Self::Told(error.to_string())
    }
}

impl<E: Into<io::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Io(error.into())
    }
}

/// Whether the stream itself is what is wrong, of which ssh may know more.
fn is_stream(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof)
}

/// What flightctl is asked for there, `elapsed` after the window was chosen. Times before now are
/// counted on each host's own clock, so that those whose clocks are wrong give the same time.
fn args(since: Edge, until: Edge, elapsed: Duration) -> Vec<String> {
    let mut args: Vec<String> =
        ["save", "-o", "-", "--frames", "--clock"].map(str::to_owned).into();
    let elapsed = nanos(elapsed);
    let mut edge = |option: &str, edge: Edge| {
        let mut arg = format!("--{option}=");
        // Writing to a string can't fail.
        let _ = match edge {
            Edge::Open => return false,
            Edge::Ago(ns) => write!(arg, "-{}ns", ns.saturating_add(elapsed)),
            // Its digits tell the unit, which those of 1970 don't.
            Edge::Wall(ns) => write!(arg, "{}", super::survey::timestamp(ns)),
        };
        args.push(arg);
        true
    };
    let begins = edge("since", since);
    let ends = match until {
        Edge::Open if begins => edge("until", Edge::Ago(0)),
        until => edge("until", until),
    };
    if !begins && !ends {
        args.push("--all".to_owned());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_same_for_who_is_asked_later() {
        let line = |since, until, ms| {
            let args = args(since, until, Duration::from_millis(ms)).join(" ");
            args.strip_prefix("save -o - --frames --clock ").unwrap().to_owned()
        };
        let second = 1_000_000_000;
        assert_eq!(
            line(Edge::Ago(30 * second), Edge::Open, 1500),
            "--since=-31500000000ns --until=-1500000000ns"
        );
        assert_eq!(
            line(Edge::Wall(1_767_225_600_000_000_000), Edge::Wall(1_767_225_601_500_000_000), 9),
            "--since=2026-01-01T00:00:00Z --until=2026-01-01T00:00:01.5Z"
        );
        assert_eq!(line(Edge::Open, Edge::Open, 9), "--all");
    }
}
