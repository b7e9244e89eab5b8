//! What an agent tells its owner.

use crate::{
    ConnectionId, DatagramAsked, ListenerId, Path, PrivateBytes, QKey, Qpn, RejectReason, Reply,
    Request, SidrStatus,
};

/// What an agent tells its owner. Private data is as long as its message can carry; who
/// sent less sent zeros behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Passive side: somebody asks for a connection. The owner answers with
    /// [`Agent::accept`](crate::Agent::accept) or [`reject`](crate::Agent::reject).
    Requested {
        /// The new connection.
        connection: ConnectionId,
        /// Whom the request is for.
        listener: ListenerId,
        /// Where it came from; the connection's packets take it, too.
        path: Path,
        /// What is asked for.
        request: Request,
    },
    /// Passive side: somebody asks for the QP of a datagram service. The owner answers with
    /// [`Agent::accept_datagram`](crate::Agent::accept_datagram) or
    /// [`reject`](crate::Agent::reject).
    DatagramRequested {
        /// The new request.
        connection: ConnectionId,
        /// Whom it is for.
        listener: ListenerId,
        /// Where it came from.
        path: Path,
        /// What is asked for.
        request: DatagramAsked,
    },
    /// Active side: the peer accepts. The owner readies its QP and calls
    /// [`Agent::ready`](crate::Agent::ready), which establishes the connection, or
    /// [`reject`](crate::Agent::reject).
    Replied {
        /// The connection.
        connection: ConnectionId,
        /// What the peer says of itself.
        reply: Reply,
    },
    /// Active side: this is the QP of the datagram service. The lookup is over.
    DatagramReplied {
        /// The lookup.
        connection: ConnectionId,
        /// The QP.
        qpn: Qpn,
        /// The key that its datagrams must carry.
        qkey: QKey,
        /// 136 bytes.
        private: PrivateBytes,
    },
    /// Passive side: the peer is ready, and the connection established.
    Established {
        /// The connection.
        connection: ConnectionId,
        /// 224 bytes; none if something else than an RTU showed that the peer is ready.
        private: PrivateBytes,
    },
    /// Either side: the peer, or for it the agent there, refused. The connection is over.
    Rejected {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        reason: RejectReason,
        /// 148 bytes.
        private: PrivateBytes,
    },
    /// Active side: the peer refused to tell the QP. The lookup is over.
    DatagramRejected {
        /// The lookup.
        connection: ConnectionId,
        /// Why.
        status: SidrStatus,
        /// 136 bytes.
        private: PrivateBytes,
    },
    /// Either side: the peer did not answer before the connection was established, or did not
    /// answer the lookup, however often it was asked. It is over.
    Unreachable {
        /// The connection or lookup.
        connection: ConnectionId,
    },
    /// The peer wants to end the connection. The owner calls
    /// [`Agent::disconnect`](crate::Agent::disconnect), when it likes: the peer waits.
    DisconnectRequested {
        /// The connection.
        connection: ConnectionId,
        /// 220 bytes.
        private: PrivateBytes,
    },
    /// The connection has ended: the peer answered to
    /// [`Agent::disconnect`](crate::Agent::disconnect), or asked for the same meanwhile, or did
    /// not answer however often it was asked, or took the connection for failed,
    /// or its process has ended without a word.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// 224 bytes of the peer's answer, if one came.
        private: PrivateBytes,
    },
    /// What is left of a connection that had a QP at both ends has waited for late packets: the
    /// QP may be used anew. The last event of a connection that was established.
    TimeWaitOver {
        /// The connection, which the agent knows no more.
        connection: ConnectionId,
    },
}

impl Event {
    /// The connection or lookup that it is about.
    pub const fn connection(&self) -> ConnectionId {
        match self {
            Self::Requested { connection, .. }
            | Self::DatagramRequested { connection, .. }
            | Self::Replied { connection, .. }
            | Self::DatagramReplied { connection, .. }
            | Self::Established { connection, .. }
            | Self::Rejected { connection, .. }
            | Self::DatagramRejected { connection, .. }
            | Self::Unreachable { connection }
            | Self::DisconnectRequested { connection, .. }
            | Self::Disconnected { connection, .. }
            | Self::TimeWaitOver { connection } => *connection,
        }
    }
}
