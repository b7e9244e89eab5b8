//! The events that an agent reports to its owner.

use crate::{
    ConnectionId, DatagramAsked, ListenerId, Path, PrivateBytes, QKey, Qpn, RejectReason, Reply,
    Request, SidrStatus,
};

/// An event for the agent's owner. Private data has the full length that its message can carry; if
/// the sender gave less, zeros follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Passive side: a peer requests a connection. The owner answers with
    /// [`Agent::accept`](crate::Agent::accept) or [`reject`](crate::Agent::reject).
    Requested {
        /// The new connection.
        connection: ConnectionId,
        /// The listener that the request is for.
        listener: ListenerId,
        /// The path that the request arrived on. The connection's packets take the same path.
        path: Path,
        /// The contents of the request.
        request: Request,
    },
    /// Passive side: a peer requests the QP of a datagram service. The owner answers with
    /// [`Agent::accept_datagram`](crate::Agent::accept_datagram) or
    /// [`reject`](crate::Agent::reject).
    DatagramRequested {
        /// The new request.
        connection: ConnectionId,
        /// The listener that it is for.
        listener: ListenerId,
        /// The path that it arrived on.
        path: Path,
        /// The contents of the request.
        request: DatagramAsked,
    },
    /// Active side: the peer accepts. The owner readies its QP and calls
    /// [`Agent::ready`](crate::Agent::ready), which establishes the connection, or
    /// [`reject`](crate::Agent::reject).
    Replied {
        /// The connection.
        connection: ConnectionId,
        /// The contents of the peer's reply.
        reply: Reply,
    },
    /// Active side: the QP of the datagram service. The lookup is over.
    DatagramReplied {
        /// The lookup.
        connection: ConnectionId,
        /// The QP.
        qpn: Qpn,
        /// The Q_Key that datagrams to the QP must carry.
        qkey: QKey,
        /// 136 bytes.
        private: PrivateBytes,
    },
    /// Passive side: the peer is ready, and the connection is established.
    Established {
        /// The connection.
        connection: ConnectionId,
        /// 224 bytes; empty if something other than an RTU showed that the peer is ready.
        private: PrivateBytes,
    },
    /// Either side: the peer refused, or its agent did. The connection is over.
    Rejected {
        /// The connection.
        connection: ConnectionId,
        /// The reason.
        reason: RejectReason,
        /// 148 bytes; empty if no message of the peer has ended the connection.
        private: PrivateBytes,
    },
    /// Active side: the peer refused to name the QP. The lookup is over.
    DatagramRejected {
        /// The lookup.
        connection: ConnectionId,
        /// The reason.
        status: SidrStatus,
        /// 136 bytes; empty if no message of the peer has ended the lookup.
        private: PrivateBytes,
    },
    /// Either side: the peer did not answer any retransmission of the message that establishes the
    /// connection, or of the lookup, or no packet reaches its host. The connection or lookup is over.
    Unreachable {
        /// The connection or lookup.
        connection: ConnectionId,
    },
    /// The peer wants to end the connection. The owner calls
    /// [`Agent::disconnect`](crate::Agent::disconnect) when it is ready; the peer waits.
    DisconnectRequested {
        /// The connection.
        connection: ConnectionId,
        /// 220 bytes.
        private: PrivateBytes,
    },
    /// The connection has ended, for one of these reasons:
    ///
    /// - The peer answered [`Agent::disconnect`](crate::Agent::disconnect), or disconnected at the
    ///   same time.
    /// - The peer did not answer any retransmission of the DREQ.
    /// - The peer rejected the connection after this side had established it.
    /// - The peer's process has ended without a message.
    /// - The peer requested a connection with the same QP, and its answer to a probe showed that it
    ///   has forgotten this connection.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
        /// 224 bytes of the peer's answer, if one came.
        private: PrivateBytes,
    },
    /// The time wait of a connection is over, so no late packets can arrive, and the QP may be used
    /// again. This is the last event of a connection that was established.
    TimeWaitOver {
        /// The connection, which the agent no longer knows.
        connection: ConnectionId,
    },
}

impl Event {
    /// The connection or lookup that the event is about.
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
