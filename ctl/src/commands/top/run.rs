//! Drives the table of threads: asks the recording, the keyboard, and the clock.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use jiff::tz::TimeZone;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event as Input};

use flightrec_format::merge::Merge;
use flightrec_reader::coverage;
use flightrec_reader::source::{Origin, SourceError};
use flightrec_reader::window::nanos;

use super::keys::{self, About};
use super::model::Model;
use super::plain::{self, Look};
use super::plan::TopPlan;
use super::screen::{Screen, Wish};
use super::table::Table;
use super::{events, hangup, past, view};
use crate::exit::Exit;
use crate::follow::follower::{Answer, Beginning, Follower};
use crate::follow::stop::Stop;
use crate::output::Output;
use crate::progress::Progress;
use crate::text::coverage::lacking;
use crate::why;
use flightrec_cli::note;

/// How often the recording is asked: a busy machine goes round a ring within a second.
const ASK: Duration = Duration::from_millis(200);
/// How often signals are looked for.
const NAP: Duration = Duration::from_millis(100);

/// Shows the table: once as text, or on the terminal until it is told to end.
pub fn run(plan: &TopPlan, zone: &TimeZone) -> Result<Exit> {
    if let Some(past) = &plan.past {
        return past::run(plan, past, plan.lines, zone);
    }
    if plan.once {
        return once(plan, plan.lines);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("top needs a terminal for its screen and its keys; --once prints one table as text");
    }
    let stop = Stop::on_signals(None)?;
    let feed = Feed::start(plan)?;
    let colour = Output::standard().colours(plan.color, std::env::var_os("NO_COLOR").as_deref());
    let screen = Screen::new(plan.sort, plan.filter.clone(), colour);
    Progress::off();
    hangup::watch(stop.clone())?;
    // From here on also a panic restores the terminal.
    let terminal = ratatui::try_init()?;
    let mut live = Live { origin: &plan.origin, zone, stop: &stop, feed, screen, terminal };
    let result = live.run();
    if hangup::is_gone() {
        // ratatui's `Terminal::drop` prints to stderr that it can't show the cursor. Where stderr
        // is that terminal, printing panics, and a panic within a drop aborts.
        std::mem::forget(live);
        return Ok(Exit::Fine);
    }
    drop(live);
    ratatui::try_restore()?;
    result.map(|()| Exit::Fine)
}

fn once(plan: &TopPlan, lines: usize) -> Result<Exit> {
    let stop = Stop::on_signals(Some(plan.interval + ASK))?;
    let mut feed = Feed::start(plan)?;
    let table = loop {
        if !feed.more {
            stop.sleep_until(Instant::now() + ASK.min(plan.interval));
        }
        match feed.ask()? {
            State::Table(table) => break table,
            State::Quiet if stop.reached() => break feed.now(),
            State::Quiet => {}
            State::Gone(why) => bail!("{why}"),
        }
    };
    let mut output = Output::standard();
    let text = plain::text(&table, &plan.filter, plan.sort, Look::of(&output, plan.color, lines));
    output.print(text.as_bytes())?;
    Ok(if table.view(&plan.filter, plan.sort).is_empty() { Exit::Nothing } else { Exit::Fine })
}

/// What came of asking.
enum State {
    /// An interval is over.
    Table(Table),
    /// Nothing to show yet.
    Quiet,
    /// The daemon is away.
    Gone(SourceError),
}

/// The recording, accounted for interval by interval.
struct Feed {
    follower: Follower,
    model: Model,
    interval: u64,
    /// When the present interval ends.
    due: u64,
    /// Everything before is accounted for.
    until: u64,
    /// There was more than could be asked for.
    more: bool,
}

impl Feed {
    fn start(plan: &TopPlan) -> Result<Self> {
        let (follower, beginning) = Follower::start(&plan.origin, false)?;
        let model = begin(&beginning);
        // Before the screen is taken, and so to be read when it is given back.
        for line in lacking(&coverage::lacking(&beginning.recording.meta)) {
            note(&line);
        }
        let interval = nanos(plan.interval);
        Ok(Self {
            follower,
            model,
            interval,
            due: beginning.now.saturating_add(interval),
            until: beginning.now,
            more: false,
        })
    }

    fn ask(&mut self) -> Result<State> {
        let (news, until) = match self.follower.ask(false)? {
            Answer::News(news, until, more) => {
                self.more = more;
                (news, until)
            }
            Answer::Gone(why) => return Ok(State::Gone(why)),
            Answer::Ended => {
                let beginning = match self.follower.restart() {
                    Ok(beginning) => beginning,
                    Err(why) => return Ok(State::Gone(why)),
                };
                self.model = begin(&beginning);
                (self.until, self.due) =
                    (beginning.now, beginning.now.saturating_add(self.interval));
                return Ok(State::Quiet);
            }
        };
        let round = self.follower.take(&news.pages, until);
        self.model.take_all(Merge::new(round.events), round.gaps);
        self.until = self.until.max(until);
        if self.until < self.due {
            return Ok(State::Quiet);
        }
        self.due = self.until.saturating_add(self.interval);
        Ok(State::Table(self.now()))
    }

    /// Ends the interval here.
    fn now(&mut self) -> Table {
        self.model.table(self.until)
    }
}

/// The accounts at the beginning of a recording's following: what each thread does is known from
/// what it did shortly before.
fn begin(beginning: &Beginning) -> Model {
    let mut model = Model::new(beginning.recording.threads(), &beginning.recording.meta)
        .telling(&beginning.recording);
    for event in Merge::new(beginning.past().events) {
        model.take(&event);
    }
    model.table(beginning.now);
    model
}

struct Live<'a> {
    origin: &'a Origin,
    zone: &'a TimeZone,
    stop: &'a Stop,
    feed: Feed,
    screen: Screen,
    terminal: DefaultTerminal,
}

impl Live<'_> {
    fn run(&mut self) -> Result<()> {
        let mut ask_at = Instant::now();
        self.draw()?;
        while !self.stop.reached() && !hangup::is_gone() {
            if Instant::now() >= ask_at {
                ask_at = Instant::now() + ASK;
                self.ask()?;
                if self.feed.more {
                    ask_at = Instant::now();
                }
            }
            let wait = ask_at.saturating_duration_since(Instant::now()).min(NAP);
            if event::poll(wait)? && !self.input()? {
                break;
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<()> {
        let screen = &mut self.screen;
        self.terminal.draw(|frame| view::draw(frame, screen))?;
        Ok(())
    }

    fn ask(&mut self) -> Result<()> {
        match self.feed.ask()? {
            State::Table(table) => {
                (self.screen.table, self.screen.note) = (table, None);
                self.draw()?;
            }
            State::Quiet => {}
            State::Gone(why) => {
                self.screen.note = Some(format!("{why}"));
                self.draw()?;
            }
        }
        Ok(())
    }

    /// Does what the keyboard says; whether to go on.
    fn input(&mut self) -> Result<bool> {
        let wish = match event::read()? {
            Input::Key(key) => {
                keys::action(key, self.screen.mode()).map(|action| self.screen.act(action))
            }
            _ => None, // a new size, at which all is drawn again
        };
        match wish {
            Some(Wish::Quit) => return Ok(false),
            Some(Wish::Thread(tid, about)) => self.open(tid, about)?,
            _ => {}
        }
        self.draw()?;
        Ok(true)
    }

    fn open(&mut self, tid: u32, about: About) -> Result<()> {
        self.screen.note = Some(format!("reading the events of thread {tid}"));
        self.draw()?;
        self.screen.note = None;
        let lines = match about {
            About::Why => why::of_thread(self.origin, tid, self.zone),
            About::Events => events::last(&mut self.feed.follower, tid, self.zone),
        };
        match lines {
            Ok(lines) => {
                let row = self.screen.table.rows.iter().find(|row| row.tid == tid);
                let name = row
                    .map(plain::name)
                    .or_else(|| Some(self.screen.detail.as_ref()?.name.clone()));
                self.screen.open(tid, name.unwrap_or_default(), about, lines);
            }
            Err(e) => self.screen.note = Some(format!("{e:#}")),
        }
        Ok(())
    }
}
