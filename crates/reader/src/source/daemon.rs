//! A live daemon.

use std::path::{Path, PathBuf};

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::control::{Position, Request, Response, Totals};
use flightrec_format::meta::from_json;
use flightrec_format::symbols::Symbols;

use super::live::{NewsCollector, Stacks};
use super::{Clock, Collector, Live, News, PageSet, Source, SourceError};
use crate::control::{Client, ControlError, Received};
use crate::observe;
use crate::window::Window;

/// Pages by the control socket.
pub struct DaemonSource {
    client: Client,
    clock: Clock,
    session: u64,
    cpus: Vec<u16>,
    state_dir: Option<PathBuf>,
}

impl DaemonSource {
    /// Connects to the daemon of a runtime directory.
    ///
    /// # Errors
    /// As of [`Client::connect`]; or the daemon is of another version.
    pub fn connect(runtime_dir: &Path) -> Result<Self, ControlError> {
        let mut client = Client::connect(runtime_dir)?;
        let status = client.status()?;
        let clock = Clock { now: status.totals.now, wall_offset: status.wall_offset };
        let cpus =
            status.totals.cpus.iter().filter(|cpu| cpu.recorded).map(|cpu| cpu.cpu).collect();
        let state_dir =
            Some(status.store.directory).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Ok(Self { client, clock, session: status.session, cpus, state_dir })
    }
}

impl Source for DaemonSource {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn read(&mut self, window: Window) -> Result<PageSet, SourceError> {
        self.client.send(&Request::Pages { from: window.from, until: window.until })?;
        let Response::Meta(meta) = self.client.receive()? else {
            return Err(ControlError::Unexpected.into());
        };
        let mut collector = Collector::new(from_json(&meta)?);
        let progress = observe::begins("reading the recording");
        loop {
            match self.client.receive_in_place()? {
                Received::Pages(pages) => {
                    progress.add(pages.len() as u64);
                    for page in pages.chunks(PAGE_SIZE) {
                        collector.add(page)?;
                    }
                }
                Received::Other(Response::End(totals)) => return Ok(collector.finish(totals)),
                Received::Other(_) => return Err(ControlError::Unexpected.into()),
            }
        }
    }
}

/// Most threads that stacks are taken of: more than Linux has (`PID_MAX_LIMIT`,
/// include/linux/threads.h).
const STACKS_MAX: usize = 4 << 20;

/// Most positions in one request, which is then shorter than the daemon's limit.
const POSITIONS_MAX: usize = 8192;

impl Live for DaemonSource {
    fn session(&self) -> u64 {
        self.session
    }

    fn cpus(&self) -> Vec<u16> {
        self.cpus.clone()
    }

    fn state_dir(&self) -> Option<PathBuf> {
        self.state_dir.clone()
    }

    fn stacks(&mut self) -> Result<Stacks, SourceError> {
        self.client.send(&Request::Stacks)?;
        let Response::Meta(meta) = self.client.receive()? else {
            return Err(ControlError::Unexpected.into());
        };
        let symbols = Symbols::new(&from_json(&meta)?);
        let mut stacks = Stacks { symbols, ..Stacks::default() };
        loop {
            match self.client.receive()? {
                Response::Stacks(of) if stacks.by_thread.len() < STACKS_MAX => {
                    stacks.by_thread.extend(of.into_iter().map(|of| (of.tid, of.frames)));
                }
                Response::End(_) => return Ok(stacks),
                _ => return Err(ControlError::Unexpected.into()),
            }
        }
    }

    fn since(
        &mut self,
        session: u64,
        after: &[Position],
        newest: u32,
    ) -> Result<Option<News>, SourceError> {
        let mut collector = NewsCollector::new(session, after, newest);
        let mut totals = Totals::default();
        for after in after.chunks(POSITIONS_MAX) {
            self.client.send(&Request::Since { session, after: after.to_vec(), newest })?;
            let mut another = false;
            totals = loop {
                match self.client.receive()? {
                    Response::Meta(_) => another = true,
                    Response::Pages(pages) => {
                        for page in pages.chunks(PAGE_SIZE) {
                            collector.add(page)?;
                        }
                    }
                    Response::End(totals) => break totals,
                    _ => return Err(ControlError::Unexpected.into()),
                }
            };
            if another {
                return Ok(None);
            }
        }
        Ok(Some(collector.finish(totals)))
    }
}
