//! The private data of a connection's messages (RDMA, 3.1): what a host says of a queue when it
//! connects, and what the target answers.

use super::field::{put, u16_at};
use std::fmt;

/// Length of the private data in a request and in its acceptance.
const LEN: usize = 32;
/// The only record format there is.
const FORMAT: u16 = 0;

/// The private data of a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPrivate {
    /// The queue's number: 0 is the admin queue.
    pub queue: u16,
    /// How many responses the host can receive.
    pub host_receive_len: u16,
    /// How many commands the host may have outstanding, minus 1.
    pub host_send_len: u16,
    /// The controller, if this is an I/O queue of a controller that exists; 0 from older hosts.
    pub controller: u16,
}

/// The private data of an acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptPrivate {
    /// How many commands the controller can receive.
    pub controller_receive_len: u16,
}

/// The private data of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectPrivate {
    /// The reason.
    pub reason: Refusal,
}

/// Why a target refuses a queue (RDMA, figure "status codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal(pub u16);

impl Refusal {
    /// The private data are too short or too long.
    pub const INVALID_LENGTH: Self = Self(1);
    /// The record format is not 0.
    pub const INVALID_FORMAT: Self = Self(2);
    /// There can be no queue of this number.
    pub const INVALID_QUEUE: Self = Self(3);
    /// The host's send queue is too long.
    pub const INVALID_SEND_LEN: Self = Self(4);
    /// The host's receive queue is too short.
    pub const INVALID_RECEIVE_LEN: Self = Self(5);
    /// The target has no resources left.
    pub const NO_RESOURCES: Self = Self(6);
    /// The host offers too few RDMA READs.
    pub const INVALID_IRD: Self = Self(7);
    /// The host asks for too many RDMA READs.
    pub const INVALID_ORD: Self = Self(8);
    /// There is no such controller.
    pub const INVALID_CONTROLLER: Self = Self(9);
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::INVALID_LENGTH => "the private data have the wrong length",
            Self::INVALID_FORMAT => "the private data have an unknown format",
            Self::INVALID_QUEUE => "it can have no queue of this number",
            Self::INVALID_SEND_LEN => "the host's send queue is too long",
            Self::INVALID_RECEIVE_LEN => "the host's receive queue is too short",
            Self::NO_RESOURCES => "it has no resources left",
            Self::INVALID_IRD => "the host offers too few RDMA READs",
            Self::INVALID_ORD => "the host asks for too many RDMA READs",
            Self::INVALID_CONTROLLER => "it has no such controller",
            Self(other) => return write!(f, "status {other}"),
        })
    }
}

impl RequestPrivate {
    /// Parses private data. The zeros that pad the message may follow.
    ///
    /// # Errors
    /// The reason to refuse the request.
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.len() < LEN {
            return Err(Refusal::INVALID_LENGTH);
        }
        if u16_at(bytes, 0) != FORMAT {
            return Err(Refusal::INVALID_FORMAT);
        }
        Ok(Self {
            queue: u16_at(bytes, 2),
            host_receive_len: u16_at(bytes, 4),
            host_send_len: u16_at(bytes, 6),
            controller: u16_at(bytes, 8),
        })
    }

    /// The bytes for the connection manager.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put(&mut bytes, 0, &FORMAT.to_le_bytes());
        put(&mut bytes, 2, &self.queue.to_le_bytes());
        put(&mut bytes, 4, &self.host_receive_len.to_le_bytes());
        put(&mut bytes, 6, &self.host_send_len.to_le_bytes());
        put(&mut bytes, 8, &self.controller.to_le_bytes());
        bytes
    }
}

impl AcceptPrivate {
    /// Parses private data; `None` if they are too short or of another format.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.len() >= 4 && u16_at(bytes, 0) == FORMAT;
        whole.then(|| Self {
            controller_receive_len: u16_at(bytes, 2),
        })
    }

    /// The bytes for the connection manager.
    pub fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        put(&mut bytes, 0, &FORMAT.to_le_bytes());
        put(&mut bytes, 2, &self.controller_receive_len.to_le_bytes());
        bytes
    }
}

impl RejectPrivate {
    /// Parses private data; `None` if they are too short or of another format.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let whole = bytes.len() >= 4 && u16_at(bytes, 0) == FORMAT;
        whole.then(|| Self {
            reason: Refusal(u16_at(bytes, 2)),
        })
    }

    /// The bytes for the connection manager.
    pub fn encode(&self) -> [u8; 4] {
        let mut bytes = [0; 4];
        put(&mut bytes, 0, &FORMAT.to_le_bytes());
        put(&mut bytes, 2, &self.reason.0.to_le_bytes());
        bytes
    }
}
