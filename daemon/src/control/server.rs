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
use tracing::{error, info, warn};

use super::connection::{Connection, frame};
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
                    if let Some((stream, peer)) = admit(stream, &access, held, &mut others, &limits)
                    {
                        let counted = (!peer.may_change()).then(|| others.count(peer.uid));
                        let connection = Connection::new(stream, peer, backend.clone(), limits);
                        connections.spawn(async move {
                            connection.run().await;
                            drop(counted);
                        });
                    }
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

/// Lets a new connection in beside `open` others, or tells it why not.
fn admit(
    stream: UnixStream,
    access: &Access,
    open: usize,
    others: &mut Others,
    limits: &Limits,
) -> Option<(UnixStream, Peer)> {
    let peer = match Peer::of(&stream) {
        Ok(peer) => peer,
        Err(e) => {
            refuse(stream, format!("your credentials can't be read: {e}"));
            return None;
        }
    };
    if !access.allows(&peer) {
        info!("refused process {} of user {} on the control socket", peer.pid, peer.uid);
        refuse(
            stream,
            "only root and the members of flightd's group may connect: see [access] in its \
             configuration"
                .into(),
        );
        return None;
    }
    let (taken, most) = if peer.may_change() {
        (open, limits.connections)
    } else {
        // A member of the group must not lock root out, nor another member.
        let (all, own) = others.open(peer.uid);
        if own >= limits.each {
            let (uid, most) = (peer.uid, limits.each);
            refuse(
                stream,
                format!(
                    "user {uid} has {most} connections, the maximum for one user: end another \
                     flightctl of that user"
                ),
            );
            return None;
        }
        (all, limits.connections.saturating_sub(limits.reserved))
    };
    if taken >= most || open >= limits.connections {
        refuse(
            stream,
            format!("all {most} connections are in use: try again, or end another flightctl"),
        );
        return None;
    }
    Some((stream, peer))
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
