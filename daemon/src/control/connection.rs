//! One client: requests and answers in turn.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use flightrec_format::control::{
    self, FrameError, MARK_MAX, Position, ProbeStatus, REQUEST_MAX, RESPONSE_MAX, Request,
    Response, STACKS_MAX,
};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;
use tracing::{debug, error};

use super::descriptors::Received;
use super::refusals::Refusals;
use super::{Allowance, Backend, Batches, Limits, Peer};

/// Why a connection ends before its client closes it.
#[derive(Debug, Error)]
enum End {
    /// Nothing to say: it idles, or is gone.
    #[error("the connection is broken: {0}")]
    Gone(#[from] io::Error),
    #[error("no request arrived")]
    Idle,
    /// The rest is told to the client.
    #[error("the request did not arrive completely within {} s", .0.as_secs_f32())]
    Late(std::time::Duration),
    #[error("the request was cut off after {0} bytes")]
    Cut(usize),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A client that may ask.
pub(super) struct Connection {
    stream: UnixStream,
    peer: Peer,
    backend: Arc<dyn Backend>,
    limits: Limits,
    /// Descriptors that came with the request.
    descriptors: Received,
    refusals: Arc<Refusals>,
}

impl Connection {
    pub(super) fn new(
        stream: UnixStream,
        peer: Peer,
        backend: Arc<dyn Backend>,
        limits: Limits,
        refusals: Arc<Refusals>,
    ) -> Self {
        let descriptors = Received::new(peer.may_probe());
        Self { stream, peer, backend, limits, descriptors, refusals }
    }

    /// Answers until the client is through, or misbehaves. What this takes on the thread that polls
    /// it is for the caller to measure.
    pub(super) async fn run(mut self) {
        loop {
            // Whatever the request will be: one that is refused costs as well.
            self.backend.meter().admit(self.user()).await;
            let request = match self.request().await {
                Ok(Some(request)) => request,
                Ok(None) => return,
                Err(end) => {
                    debug!("process {} of user {}: {end}", self.peer.pid, self.peer.uid);
                    if !matches!(end, End::Gone(_) | End::Idle) {
                        // It may be gone; then there is nobody to tell.
                        let _ = self.send(&Response::Error(end.to_string())).await;
                    }
                    return;
                }
            };
            let answered = self.answer(request).await;
            // Those that the request had no use for.
            drop(self.descriptors.take());
            if let Err(e) = answered {
                debug!("process {} of user {} left: {e}", self.peer.pid, self.peer.uid);
                return;
            }
        }
    }

    /// The next request; `None` when the client has closed its side between two.
    async fn request(&mut self) -> Result<Option<Request>, End> {
        let mut prefix = [0; 4];
        let first = timeout(self.limits.idle, self.descriptors.read(&mut self.stream, &mut prefix))
            .await
            .map_err(|_| End::Idle)??;
        if first == 0 {
            return Ok(None);
        }
        let limit = self.limits.request;
        timeout(limit, self.rest(prefix, first)).await.map_err(|_| End::Late(limit))?.map(Some)
    }

    /// What is left of a request, of whose first four bytes `have` are there.
    async fn rest(&mut self, mut prefix: [u8; 4], have: usize) -> Result<Request, End> {
        let missing = prefix.get_mut(have..).unwrap_or_default();
        let read = self.descriptors.fill(&mut self.stream, missing).await?;
        if have + read < prefix.len() {
            return Err(End::Cut(have + read));
        }
        let mut frame = vec![0; control::length(prefix, REQUEST_MAX)?];
        let read = self.descriptors.fill(&mut self.stream, &mut frame).await?;
        if read < frame.len() {
            return Err(End::Cut(prefix.len() + read));
        }
        Ok(control::decode(&frame)?)
    }

    async fn answer(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Status => {
                let response = self.ask(|b| Response::Status(Box::new(b.status()))).await;
                self.send(&response).await
            }
            Request::Mark { text } if text.len() > MARK_MAX => {
                let reason =
                    format!("a mark of {} bytes is too long: at most {MARK_MAX}", text.len());
                self.send(&Response::Error(reason)).await
            }
            Request::Mark { text } => {
                let tid = self.peer.pid;
                let mark = move |b: &dyn Backend| {
                    b.mark(&text, tid).map_or_else(Response::Error, |()| Response::Done)
                };
                let response = self.ask(mark).await;
                self.send(&response).await
            }
            Request::Snapshot { reason, .. } if reason.len() > MARK_MAX => {
                let told =
                    format!("a reason of {} bytes is too long: at most {MARK_MAX}", reason.len());
                self.send(&Response::Error(told)).await
            }
            Request::Snapshot { last, reason } => {
                let uid = self.peer.uid;
                let take = move |b: &dyn Backend| {
                    b.snapshot(last, &reason, uid).map_or_else(Response::Error, Response::Snapshot)
                };
                let response = self.ask(take).await;
                self.send(&response).await
            }
            Request::Pages { from, until } => {
                self.meta().await?;
                self.pages(move |b| Some(b.pages(from, until))).await
            }
            Request::Budget => {
                let response = self.ask(|b| Response::Account(Box::new(b.account()))).await;
                self.send(&response).await
            }
            Request::SetBudget { .. } if !self.peer.may_change() => {
                self.refused("may not change the budget");
                let reason = "only root and flightd's own user may change the budget".to_owned();
                self.send(&Response::Error(reason)).await
            }
            Request::SetBudget { total, per_cpu } => {
                let set = move |b: &dyn Backend| {
                    b.set_budget(total, per_cpu).map_or_else(Response::Error, |()| Response::Done)
                };
                let response = self.ask(set).await;
                self.send(&response).await
            }
            Request::Stacks => self.stacks().await,
            Request::AddProbe(_) | Request::RemoveProbes(_) if !self.peer.may_probe() => {
                self.refused("may not probe");
                let reason = "only root may probe functions: run flightctl as root".to_owned();
                self.send(&Response::Error(reason)).await
            }
            Request::AddProbe(new) => {
                let events = self.descriptors.take();
                let add = move |b: &dyn Backend| {
                    let added = b.add_probe(&new, events).map(|probe| vec![probe]);
                    told(b, added)
                };
                let response = self.ask(add).await;
                self.send(&response).await
            }
            Request::RemoveProbes(choice) => {
                let remove = move |b: &dyn Backend| told(b, b.remove_probes(&choice));
                let response = self.ask(remove).await;
                self.send(&response).await
            }
            Request::Probes => {
                let response = self.ask(|b| told(b, Ok(b.probes()))).await;
                self.send(&response).await
            }
            Request::FunctionCalls => {
                let ask = |b: &dyn Backend| {
                    let (calls, now) = b.function_calls();
                    Response::FunctionCalls(calls, now)
                };
                let response = self.ask(ask).await;
                self.send(&response).await
            }
            Request::Since { after, .. } if names_a_ring_twice(&after) => {
                let reason = "a ring is named twice in the request: name each once".to_owned();
                self.send(&Response::Error(reason)).await
            }
            Request::Since { session, after, newest } => {
                self.pages(move |b| b.since(session, after, newest)).await
            }
        }
    }

    /// Metadata, stacks, totals. The metadata are made after the stacks, so that they name all
    /// functions.
    async fn stacks(&mut self) -> io::Result<()> {
        let (user, backend) = (self.user(), self.backend.clone());
        let taken = move || backend.meter().measure(user, || backend.stacks());
        let stacks = match spawn_blocking(taken).await {
            Ok(Ok(stacks)) => stacks,
            Ok(Err(reason)) => return self.send(&Response::Error(reason)).await,
            Err(e) => return self.send(&fault(&e)).await,
        };
        self.meta().await?;
        for stacks in stacks.chunks(STACKS_MAX) {
            self.send(&Response::Stacks(stacks.to_vec())).await?;
        }
        let end = self.ask(|b| Response::End(b.totals())).await;
        self.send(&end).await
    }

    async fn meta(&mut self) -> io::Result<()> {
        let meta = self.ask(|b| Response::Meta(b.meta())).await;
        self.send(&meta).await
    }

    /// Pages, or metadata where there are none to be had; then totals. While a batch is written the
    /// next is taken, and no further one.
    async fn pages(
        &mut self,
        open: impl FnOnce(&dyn Backend) -> Option<Batches> + Send + 'static,
    ) -> io::Result<()> {
        let (user, backend) = (self.user(), self.backend.clone());
        let opened = move || backend.meter().measure(user, || open(backend.as_ref()));
        let pages: Batches = match spawn_blocking(opened).await {
            Ok(Some(pages)) => pages,
            Ok(None) => {
                self.meta().await?;
                Box::new(|_| ())
            }
            Err(e) => return self.send(&fault(&e)).await,
        };
        let mut taken = self.take(pages, Vec::new());
        let mut spare = Vec::new();
        loop {
            let (pages, batch) = match taken.await {
                Ok((_, batch)) if batch.is_empty() => break,
                Ok(taken) => taken,
                Err(e) => return self.send(&fault(&e)).await,
            };
            self.backend.meter().admit(user).await;
            taken = self.take(pages, spare);
            if let Ok(head) = control::pages_head(batch.len()) {
                self.write(&head).await?;
                self.write(&batch).await?;
                spare = batch;
            } else {
                self.send(&Response::Pages(batch)).await?;
                spare = Vec::new();
            }
        }
        let end = self.ask(|b| Response::End(b.totals())).await;
        self.send(&end).await
    }

    /// Asks the backend, on a thread that may block.
    async fn ask(
        &self,
        question: impl FnOnce(&dyn Backend) -> Response + Send + 'static,
    ) -> Response {
        let (user, backend) = (self.user(), self.backend.clone());
        let asked = move || backend.meter().measure(user, || question(backend.as_ref()));
        spawn_blocking(asked).await.unwrap_or_else(|e| fault(&e))
    }

    /// Whose allowance answers are taken from; `None`: nobody's, as it may change the budget.
    pub(super) fn user(&self) -> Option<(u32, Allowance)> {
        self.limits.account(&self.peer)
    }

    fn refused(&self, what: &str) {
        let Peer { pid, uid, .. } = self.peer;
        self.refusals.log(&format!("process {pid} of user {uid} {what}"));
    }

    /// Takes a batch into a buffer that is used again, on a thread that may block.
    fn take(&self, mut pages: Batches, mut buffer: Vec<u8>) -> JoinHandle<(Batches, Vec<u8>)> {
        let (user, backend) = (self.user(), self.backend.clone());
        spawn_blocking(move || {
            backend.meter().measure(user, || {
                buffer.clear();
                pages(&mut buffer);
            });
            (pages, buffer)
        })
    }

    async fn send(&mut self, response: &Response) -> io::Result<()> {
        self.write(&frame(response)?).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = timeout(self.limits.write, self.stream.write_all(bytes)).await;
        written.unwrap_or_else(|_| {
            Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read the answer"))
        })
    }
}

/// Probes as they are answered.
fn told(backend: &dyn Backend, probes: Result<Vec<ProbeStatus>, String>) -> Response {
    match probes {
        Ok(probes) => Response::Probes(probes, backend.takes_files()),
        Err(reason) => Response::Error(reason),
    }
}

/// Whether a request would have a ring copied more than once.
fn names_a_ring_twice(after: &[Position]) -> bool {
    let mut seen = HashSet::new();
    !after.iter().all(|position| seen.insert((position.lane, position.cpu)))
}

/// A response as a frame. One that exceeds the protocol's limit becomes an error of its own.
pub(super) fn frame(response: &Response) -> io::Result<Vec<u8>> {
    let invalid = |e: FrameError| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
    let bytes = control::encode(response).map_err(invalid)?;
    let length = bytes.len().saturating_sub(4);
    if length <= RESPONSE_MAX {
        return Ok(bytes);
    }
    error!(
        "an answer of {length} bytes exceeds the protocol's limit of {RESPONSE_MAX}; please \
         report it"
    );
    let told = FrameError::TooLong { length, limit: RESPONSE_MAX }.to_string();
    control::encode(&Response::Error(told)).map_err(invalid)
}

/// The backend panicked, or the daemon ends.
fn fault(e: &tokio::task::JoinError) -> Response {
    error!("answering a request failed: {e}; please report it");
    Response::Error("flightd failed to answer: see its log".into())
}
