//! Established connections.

use super::link::CmConnection;
use crate::qp::QueuePair;
use roce_cm::{Event, PrivateBytes};
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A QP that communication management has connected with a peer's QP.
///
/// It derefs to its [`QueuePair`]. When the peer disconnects, or its process ends, the QP goes to
/// ERR: outstanding requests complete with
/// [`WcStatus::WorkRequestFlushed`](crate::WcStatus::WorkRequestFlushed). Dropping the connection
/// notifies the peer and destroys the QP.
///
/// ```no_run
/// use roce_verbs::prelude::*;
///
/// # fn connect(pd: &ProtectionDomain, cq: &CompletionQueue)
/// #     -> Result<(), Box<dyn std::error::Error>> {
/// let qp = pd.create_qp(cq, cq, &QpOptions::default())?;
/// let server = "10.0.0.1:7471".parse()?;
/// let connection = Connection::connect(qp, server, &ConnectOptions::default(), b"hello")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Connection {
    cm: CmConnection,
    qp: Arc<QueuePair>,
    private: PrivateBytes,
}

impl Connection {
    pub(super) fn new(cm: CmConnection, qp: Arc<QueuePair>, private: PrivateBytes) -> Self {
        Self { cm, qp, private }
    }

    /// The private data that the peer sent with its request or answer, including the zeros that pad
    /// its message.
    pub fn private(&self) -> &PrivateBytes {
        &self.private
    }

    /// The peer's address.
    pub fn peer(&self) -> IpAddr {
        self.cm.path.remote
    }

    /// Ends the connection, and waits at most `timeout` for the peer to agree. Returns whether the
    /// peer agreed or had already ended the connection. A peer that uses this API agrees at once;
    /// one that uses librdmacm agrees when its program calls `rdma_disconnect`. The peer is
    /// notified in any case.
    pub fn disconnect(self, timeout: Duration) -> bool {
        let CmConnection { manager, id, .. } = &self.cm;
        // This fails only if the peer has ended the connection.
        let requested = manager.with(|agent, now| agent.disconnect(now, *id, &[]));
        requested.is_err() || self.wait_for_end(timeout)
    }

    /// Waits at most `timeout` for the peer to end the connection, and returns whether it did.
    pub fn wait_for_end(&self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.cm.wait(left) {
                Some(Event::DisconnectRequested { .. } | Event::Disconnected { .. }) => {
                    return true;
                }
                Some(_) => {}
                None if self.cm.is_over() => return true,
                None if left.is_zero() => return false,
                None => {}
            }
        }
    }
}

impl Deref for Connection {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        &self.qp
    }
}
