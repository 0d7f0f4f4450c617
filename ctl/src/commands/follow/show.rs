//! The loop: asks, shows, says what it had to skip, until it is told to end.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::tz::TimeZone;

use flightrec_format::abi::page::Lane;
use flightrec_format::control::Totals;
use flightrec_format::decode::Page;
use flightrec_format::merge::Merge;
use flightrec_format::meta::Meta;
use flightrec_format::ring::is_loss;
use flightrec_reader::source::{News, SourceError};
use flightrec_reader::window::{Window, nanos};

use super::tally::Tally;
use super::{FollowPlan, lines};
use crate::exit::Exit;
use crate::follow::follower::{Answer, Beginning, Follower};
use crate::follow::stop::Stop;
use crate::formats;
use crate::output::{Output, is_broken_pipe, refuse};
use crate::print::Pass;
use crate::render::{Following, Format};
use crate::text::coverage::lacking;
use flightrec_cli::note;

/// How often a long round looks whether the end has come, in events.
const LOOK: u64 = 1024;
/// How long a round goes on after the end.
const GRACE: Duration = Duration::from_secs(1);

/// Follows to the end.
pub fn run(plan: &FollowPlan, stop: &Stop, zone: &TimeZone) -> Result<Exit> {
    let shown = &plan.shown;
    shown.output.iter().try_for_each(|path| refuse(path, shown.force))?;
    let begun = Instant::now();
    let (follower, beginning) = Follower::start(&plan.origin, shown.wants_everything())?;
    // A wrong name in the filter leaves an old file as it was.
    shown.filter.resolve(&beginning.recording.meta)?;
    let output = Output::to(shown.output.as_deref(), shown.force)?;
    let format = formats::of(shown, &output, zone);
    let mut show =
        Show { plan, stop, follower, output, format, gone: false, tally: Tally::default() };
    match show.all(beginning) {
        Ok(()) => {}
        // The reader has seen enough; what became of the rest nobody will know.
        Err(e) if is_broken_pipe(&e) => return Ok(Exit::Fine),
        Err(e) => return Err(e),
    }
    show.tally.time = nanos(begun.elapsed());
    let summary = lines::summary(&show.tally);
    if let Err(e) = show.comment(&summary).map_err(|e| show.output.explain(e))
        && !is_broken_pipe(&e)
    {
        return Err(e);
    }
    for line in &summary {
        note(line);
    }
    Ok(match &show.tally {
        tally if plan.strict && !tally.is_complete() => Exit::Incomplete,
        Tally { shown: 0, .. } => Exit::Nothing,
        _ => Exit::Fine,
    })
}

/// Whether system calls were refused from one moment to a later one.
fn is_refused(before: &Totals, after: &Totals) -> bool {
    let lane = Lane::Syscall as usize;
    after.cpus.iter().any(|cpu| {
        let earlier = before.cpus.iter().find(|earlier| earlier.cpu == cpu.cpu);
        let then = earlier.and_then(|earlier| earlier.refused.get(lane));
        cpu.refused.get(lane).is_some_and(|now| {
            let mut since = *now;
            since.iter_mut().zip(then.unwrap_or(&[0; 3])).for_each(|(n, then)| *n -= *then.min(n));
            is_loss(&since)
        })
    })
}

struct Show<'a> {
    plan: &'a FollowPlan,
    stop: &'a Stop,
    follower: Follower,
    output: Output,
    format: Box<dyn Format>,
    /// The daemon's absence has been said.
    gone: bool,
    tally: Tally,
}

impl Show<'_> {
    /// One recording after the other.
    fn all(&mut self, first: Beginning) -> Result<()> {
        let mut beginning = Some(first);
        while let Some(this) = beginning {
            beginning = if self.recording(this)? { self.next()? } else { None };
        }
        Ok(())
    }

    /// Shows a recording, to the end of the recording (`true`) or the end of all.
    fn recording(&mut self, beginning: Beginning) -> Result<bool> {
        let Beginning { recording, now, wall_offset } = &beginning;
        let filter = self.plan.shown.filter.resolve(&recording.meta)?;
        let window = Window { from: *now, until: u64::MAX };
        let mut wall = recording.wall_clock(*wall_offset);
        let wall_ns = wall.wall(*now);
        let mut head =
            self.format.follow(&Following { meta: &recording.meta, from: *now, wall_ns });
        // Told at once: who waits for such an event waits for ever.
        let lacking = lacking(&filter.lacking(&recording.meta));
        let mut pass =
            Pass::new(recording, window, &filter, wall, self.format.events(&recording.meta))
                .muted();
        for event in Merge::new(beginning.past().events) {
            pass.push(event, &mut io::sink())?;
        }
        pass.begin();
        if filter.can_doubt() {
            pass.count_doubts();
        }
        // What follows needs the pages of the past no more.
        let Beginning { recording, .. } = beginning;
        let (meta, before) = (recording.meta, recording.totals);
        drop((recording.streams, recording.slots));
        for line in &lacking {
            note(line);
        }
        head.extend(lacking.iter().flat_map(|line| self.format.remark(line)));
        self.say(&head).map_err(|e| self.output.explain(e))?;
        let mut totals = before.clone();
        let mut pushed = 0;
        let ended = loop {
            let last = self.stop.reached();
            let mut again = Instant::now() + self.plan.interval;
            match self.follower.ask(last)? {
                Answer::News(news, until, more) => {
                    self.here();
                    if is_refused(&totals, &news.totals) {
                        pass.holes().extend([(totals.now, news.totals.now)]);
                    }
                    pushed += self.round(&news, until, &meta, &mut pass)?;
                    totals = news.totals;
                    if more {
                        again = Instant::now();
                    }
                }
                Answer::Gone(why) => self.absent(&why),
                Answer::Ended => break true,
            }
            if last {
                break false;
            }
            self.stop.sleep_until(again);
        };
        pass.finish(&mut self.output).map_err(|e| self.output.explain(e))?;
        for doubt in pass.doubts() {
            *self.tally.undecided.entry(doubt.part).or_default() += doubt.events;
        }
        self.tally.strings = meta.strings;
        self.account(pushed, pass.printed(), &before, &totals);
        Ok(ended)
    }

    /// Shows what is new; returns how many events there were. If the end has come, and it takes
    /// long, it is cut short.
    fn round(&mut self, news: &News, until: u64, meta: &Meta, pass: &mut Pass) -> Result<u64> {
        let begun = Instant::now();
        pass.wall().learn(news.pages.iter().map(Page::header), meta);
        let round = self.follower.take(&news.pages, until);
        let mut gaps = Vec::new();
        for gap in &round.gaps {
            self.tally.gap(gap);
            pass.holes().miss(gap);
            gaps.extend(self.format.gap(gap, pass.wall()));
        }
        // Where one round was cut short, the last only tells what there would have been.
        let (mut pushed, mut cut) = (0u64, self.tally.cut != 0);
        let written = (|| {
            if !gaps.is_empty() {
                pass.flush(&mut self.output)?;
                self.output.write_all(&gaps)?;
            }
            for event in Merge::new(round.events) {
                // Looked at now and then: reading the clock costs as much as an event.
                cut |=
                    pushed.is_multiple_of(LOOK) && self.stop.reached() && begun.elapsed() > GRACE;
                if cut {
                    self.tally.cut += 1;
                    continue;
                }
                pushed += 1;
                pass.push(event, &mut self.output)?;
            }
            pass.advance(until, &mut self.output)?;
            pass.flush(&mut self.output)
        })();
        written.map_err(|e| self.output.explain(e))?;
        Ok(pushed)
    }

    /// The recording after one that ended; `None` when the end comes first.
    fn next(&mut self) -> Result<Option<Beginning>> {
        note(
            "the recording has ended; following the next one. What happened in between is not \
             counted",
        );
        loop {
            match self.follower.restart() {
                Ok(beginning) => return Ok(Some(beginning)),
                Err(SourceError::Control(_) | SourceError::Live(_)) if !self.stop.reached() => {
                    self.stop.sleep_until(Instant::now() + self.plan.interval);
                }
                Err(_) if self.stop.reached() => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Enters what became of the events of one recording.
    fn account(&mut self, pushed: u64, shown: u64, before: &Totals, after: &Totals) {
        let tally = &mut self.tally;
        tally.recorded = tally.recorded.saturating_add(self.follower.recorded());
        tally.shown += shown;
        tally.filtered += pushed.saturating_sub(shown);
        let no_ring = |totals: &Totals| {
            totals.cpus.iter().flat_map(|cpu| cpu.no_ring).fold(0, u64::saturating_add)
        };
        tally.no_ring += no_ring(after).saturating_sub(no_ring(before));
        let missed =
            |totals: &Totals| totals.misses.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
        tally.missed += missed(after).saturating_sub(missed(before));
    }

    /// What is kept says what it is, where its format has a place for that; a person at a terminal
    /// is told on standard error.
    fn comment(&mut self, lines: &[String]) -> io::Result<()> {
        let remarks: Vec<u8> = lines.iter().flat_map(|line| self.format.remark(line)).collect();
        self.say(&remarks)
    }

    /// Writes what is no event, at once.
    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.output.write_all(bytes)?;
        self.output.flush()
    }

    fn absent(&mut self, why: &SourceError) {
        if !self.gone {
            note(&format!(
                "{why}; the kernel keeps recording, and flightctl waits for flightd (Ctrl-C ends)"
            ));
            self.gone = true;
        }
    }

    fn here(&mut self) {
        if self.gone {
            note("flightd is back");
            self.gone = false;
        }
    }
}
