//! The errors of programs that listen or connect.

use super::PortClaimError;
use crate::error::{ConnectError, OpenError};
use roce_cm::{CmError, PrivateBytes, RejectReason};
use std::net::IpAddr;
use std::{fmt, io};

/// Why a connection manager can't listen.
#[non_exhaustive]
pub enum ListenError {
    /// The address can't be used.
    Address(ConnectError),
    /// The agent refused.
    Agent(CmError),
    /// The system refused to steer requests to this process.
    Steering(io::Error),
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Agent(error) => error.fmt(f),
            Self::Steering(error) => write!(f, "steering requests to this process: {error}"),
        }
    }
}

debug_as_display!(ListenError);

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Address(error) => Some(error),
            Self::Agent(error) => Some(error),
            Self::Steering(error) => Some(error),
        }
    }
}

from_causes!(ListenError: Address(ConnectError), Agent(CmError));

/// Why a connection was not established.
#[non_exhaustive]
pub enum ConnectionError {
    /// The connection manager did not start.
    Start(OpenError),
    /// The port can't be claimed.
    Port(PortClaimError),
    /// The connection manager can't listen.
    Listen(ListenError),
    /// The QP can't be connected.
    Qp(ConnectError),
    /// The agent refused, for instance because of too much private data.
    Agent(CmError),
    /// The peer refused.
    Rejected {
        /// The peer's reason.
        reason: RejectReason,
        /// The private data in the peer's refusal. Empty if it was not the peer's agent that
        /// refused.
        private: PrivateBytes,
    },
    /// The peer did not answer, or no packet reaches its host.
    Unreachable(IpAddr),
    /// The connection ended before it was established.
    Ended,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(error) => error.fmt(f),
            Self::Port(error) => error.fmt(f),
            Self::Listen(error) => error.fmt(f),
            Self::Qp(error) => error.fmt(f),
            Self::Agent(error) => error.fmt(f),
            Self::Rejected { reason, private }
                if *reason == RejectReason::INVALID_SERVICE_ID && private.is_empty() =>
            {
                f.write_str(
                    "nothing at the peer's host has UDP port 4791 open: start the RDMA program \
                     there",
                )
            }
            Self::Rejected { reason, .. } if *reason == RejectReason::INVALID_SERVICE_ID => {
                f.write_str("no program listens on that port of the peer")
            }
            Self::Rejected { reason, .. } => write!(f, "the peer refused the connection: {reason}"),
            Self::Unreachable(peer) if peer.is_loopback() => write!(
                f,
                "{peer} does not answer: `ip link set lo up` brings the loopback interface up, if it \
                 is down"
            ),
            Self::Unreachable(peer) => write!(
                f,
                "{peer} does not answer: check that it is up, that its RDMA program or device \
                 runs, and that UDP port 4791 is open"
            ),
            Self::Ended => f.write_str("the connection ended before it was established"),
        }
    }
}

debug_as_display!(ConnectionError);

impl std::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            Self::Port(error) => Some(error),
            Self::Listen(error) => Some(error),
            Self::Qp(error) => Some(error),
            Self::Agent(error) => Some(error),
            Self::Rejected { .. } | Self::Unreachable(_) | Self::Ended => None,
        }
    }
}

from_causes! { ConnectionError:
    Start(OpenError),
    Port(PortClaimError),
    Listen(ListenError),
    Qp(ConnectError),
    Agent(CmError)
}
