//! A live daemon.

use std::path::Path;

use flightrec_format::abi::page::PAGE_SIZE;
use flightrec_format::control::{Request, Response};
use flightrec_format::meta::from_json;

use super::{Clock, Collector, Recording, Source, SourceError};
use crate::control::{Client, ControlError};
use crate::window::Window;

/// Pages by the control socket.
pub struct DaemonSource {
    client: Client,
    clock: Clock,
}

impl DaemonSource {
    /// Connects to the daemon of a runtime directory.
    pub fn connect(runtime_dir: &Path) -> Result<Self, ControlError> {
        let mut client = Client::connect(runtime_dir)?;
        let status = client.status()?;
        let clock = Clock { now: status.totals.now, wall_offset: status.wall_offset };
        Ok(Self { client, clock })
    }
}

impl Source for DaemonSource {
    fn clock(&self) -> Clock {
        self.clock
    }

    fn read(&mut self, window: Window) -> Result<Recording, SourceError> {
        self.client.send(&Request::Pages { from: window.from, until: window.until })?;
        let Response::Meta(meta) = self.client.receive()? else { return Err(ControlError::Unexpected.into()) };
        let mut collector = Collector::new(from_json(&meta)?);
        loop {
            match self.client.receive()? {
                Response::Pages(pages) => {
                    for page in pages.chunks(PAGE_SIZE) {
                        collector.add(page)?;
                    }
                }
                Response::End(totals) => return Ok(collector.finish(totals)),
                _ => return Err(ControlError::Unexpected.into()),
            }
        }
    }
}
