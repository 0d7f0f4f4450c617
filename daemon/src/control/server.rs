//! Accepts connections, within bounds.

use std::collections::HashMap;
use std::future::Future;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use flightrec_format::control::Response;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinError, JoinSet};
use tracing::{error, warn};

use super::connection::{Connection, frame};
use super::meter::{DOOR, Work};
use super::refusals::Refusals;
use super::{Access, Backend, Limits, Listener, Peer};

/// Pause after a failed accept: there may be no descriptor left, and asking again at once won't
/// help.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the socket until `shutdown` completes; then connections are cut, and the file removed.
/// Fails only where the socket can't be used at all.
pub async fn serve(
    listener: Listener,
    backend: Arc<dyn Backend>,
    access: Access,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    serve_with(listener, backend, access, shutdown, Limits::default()).await
}

/// As [`serve`], with other limits.
pub async fn serve_with(
    listener: Listener,
    backend: Arc<dyn Backend>,
    access: Access,
    shutdown: impl Future<Output = ()>,
    limits: Limits,
) -> io::Result<()> {
    let socket = UnixListener::from_std(listener.socket.try_clone()?)?;
    let mut connections = JoinSet::new();
    let mut others = Others::default();
    let refusals = Arc::new(Refusals::default());
    let door = (DOOR, limits.door);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            Some(ended) = connections.join_next() => report(ended),
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    while let Some(ended) = connections.try_join_next() {
                        report(ended);
                    }
                    let held = connections.len();
                    let work = Work::begin();
                    let admitted = Peer::of(&stream).map(|peer| {
                        let why = refusal(&peer, &access, held, &mut others, &limits, &refusals);
                        (peer, why)
                    });
                    let peer = admitted.as_ref().ok().map(|(peer, _)| peer);
                    let is_others = !peer.is_some_and(Peer::may_change);
                    let user = peer
                        .filter(|peer| access.allows(peer))
                        .and_then(|peer| limits.account(peer));
                    match admitted {
                        Ok((peer, None)) => {
                            let counted = (!peer.may_change()).then(|| others.count(peer.uid));
                            let refusals = refusals.clone();
                            let connection =
                                Connection::new(stream, peer, backend.clone(), limits, refusals);
                            let backend = backend.clone();
                            connections.spawn(async move {
                                let user = connection.user();
                                backend.meter().measure_async(user, connection.run()).await;
                                drop(counted);
                            });
                        }
                        Ok((_, Some(why))) => refuse(stream, why),
                        Err(e) => refuse(stream, format!("your credentials can't be read: {e}")),
                    }
                    let door = is_others.then_some(door);
                    backend.meter().enter(door.into_iter().chain(user), work);
                    // Who waits meanwhile is let in in turn.
                    backend.meter().admit(door).await;
                }
                Err(e) => {
                    warn!("the control socket can't accept a connection: {e}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Connections of others than root and the daemon's user, by user: each holds a reference to its
/// user's count.
#[derive(Default)]
struct Others(HashMap<u32, Arc<()>>);

impl Others {
    /// How many there are, and how many of them are this user's.
    fn open(&mut self, uid: u32) -> (usize, usize) {
        self.0.retain(|_, count| Arc::strong_count(count) > 1);
        let number = |count: &Arc<()>| Arc::strong_count(count) - 1;
        (self.0.values().map(number).sum(), self.0.get(&uid).map_or(0, number))
    }

    /// Counts one more until it is dropped.
    fn count(&mut self, uid: u32) -> Arc<()> {
        self.0.entry(uid).or_default().clone()
    }
}

/// Why a new connection is not let in beside `open` others.
fn refusal(
    peer: &Peer,
    access: &Access,
    open: usize,
    others: &mut Others,
    limits: &Limits,
    refusals: &Refusals,
) -> Option<String> {
    if !access.allows(peer) {
        let Peer { pid, uid, .. } = peer;
        refusals.log(&format!("refused process {pid} of user {uid} on the control socket"));
        return Some(
            "only root and the members of flightd's group may connect: see [access] in its \
             configuration"
                .into(),
        );
    }
    let (taken, most) = if peer.may_change() {
        (open, limits.connections)
    } else {
        // A member of the group must not lock root out, nor another member.
        let (all, own) = others.open(peer.uid);
        if own >= limits.each {
            let (uid, most) = (peer.uid, limits.each);
            return Some(format!(
                "user {uid} has {most} connections, the maximum for one user: end another \
                 flightctl of that user"
            ));
        }
        (all, limits.connections.saturating_sub(limits.reserved))
    };
    (taken >= most || open >= limits.connections)
        .then(|| format!("all {most} connections are in use: try again, or end another flightctl"))
}

/// One small frame, which a fresh socket always has room for, and the end.
fn refuse(stream: UnixStream, reason: String) {
    let sent =
        frame(&Response::Error(reason)).and_then(|bytes| stream.into_std()?.write_all(&bytes));
    // Whoever has gone already need not be told.
    drop(sent);
}

fn report(ended: Result<(), JoinError>) {
    if let Err(e) = ended
        && e.is_panic()
    {
        error!(
            "a fault in flightd ended a connection to the control socket: {e}; please report it"
        );
    }
}
