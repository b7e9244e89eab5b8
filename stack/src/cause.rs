//! Why a QP failed, in more detail than the status of a completion says.
//!
//! The specification gives a failed request one of some twenty statuses, and behind each are many
//! causes. The code that finds a fault names it ([`Cause`]), with the numbers that it compared.
//! [`Nic::poll_failure`](crate::Nic::poll_failure) reports it when the QP fails, and
//! [`Nic::failure`](crate::Nic::failure) as long as the QP exists.

use crate::ids::CqId;
use crate::memory::{Access, AccessError, BindError, DeniedAccess};
use crate::time::{Duration, Instant};
use crate::wr::{RemoteAddr, WcOpcode, WcStatus};
use roce_wire::{Opcode, Psn, Qpn};

/// The failure of a QP: the first one since it was created, reset, or moved from SQE to RTS. What
/// follows from it, such as flushed requests, is not reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The QP.
    pub qpn: Qpn,
    /// When it failed.
    pub at: Instant,
    /// The status of the completion that reports it; `None` if an asynchronous event does, or if
    /// the application has moved the QP to the error state.
    pub status: Option<WcStatus>,
    /// The send and receive requests that had not completed.
    pub queued: (usize, usize),
    /// The send request that failed; `None` if it is none of this QP's.
    pub request: Option<FailedRequest>,
    /// Why.
    pub cause: Cause,
}

/// A send request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Its `wr_id`.
    pub wr_id: u64,
    /// Its operation.
    pub opcode: WcOpcode,
    /// Its length in bytes; that of the window or the memory, if it binds or flushes one.
    pub len: u32,
    /// The remote memory that it uses.
    pub remote: Option<RemoteAddr>,
}

/// Why a QP failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The bytes of a send request can't be read, or those that it fetches can't be written.
    RequestMemory {
        /// The element of the scatter/gather list, from 0.
        element: usize,
        /// The access.
        denied: DeniedAccess,
    },
    /// The bytes of a message can't be written to the receive request.
    ReceiveMemory {
        /// The element of the scatter/gather list, from 0.
        element: usize,
        /// The access.
        denied: DeniedAccess,
    },
    /// A window was not bound.
    Bind(BindError),
    /// A local key was not invalidated.
    Invalidate {
        /// The key.
        rkey: u32,
        /// Why.
        error: AccessError,
    },
    /// The peer has not answered, and all retries are used up.
    NoAnswer {
        /// The first packet without an answer.
        psn: Psn,
        /// `retry_cnt`.
        retries: u8,
        /// The local ACK timeout; `None` if there is none.
        timeout: Option<Duration>,
        /// Whether the peer has ever answered this QP.
        ever_answered: bool,
    },
    /// The peer answers other packets, but one of this QP's, or its response, was lost so often that
    /// all retries are used up.
    AlwaysLost {
        /// The packet that is missing.
        psn: Psn,
        /// `retry_cnt`.
        retries: u8,
    },
    /// The peer had no receive posted, and all RNR retries are used up.
    ReceiverNotReady {
        /// The packet that needs a receive.
        psn: Psn,
        /// `rnr_retry`.
        retries: u8,
        /// How long the peer asked to wait before each retry.
        wait: Duration,
    },
    /// The peer refused the request as invalid.
    RefusedInvalid {
        /// The packet that it refused.
        psn: Psn,
    },
    /// The peer denied the request access to its memory.
    RefusedAccess {
        /// The packet that it refused.
        psn: Psn,
    },
    /// The peer could not execute the request.
    RefusedOperation {
        /// The packet that it refused.
        psn: Psn,
    },
    /// The peer's response does not fit the request.
    BadResponse {
        /// The response.
        opcode: Opcode,
        /// Its payload in bytes.
        len: usize,
    },
    /// The peer's request was denied access to memory.
    PeerAccess {
        /// Its operation.
        opcode: Opcode,
        /// The access.
        denied: DeniedAccess,
    },
    /// The peer's request needs a right that the QP does not have.
    PeerRight {
        /// Its operation.
        opcode: Opcode,
        /// The right.
        right: Access,
    },
    /// The peer's message is longer than the receive.
    MessageTooLong {
        /// The bytes that have arrived so far.
        arrived: u64,
        /// The length of the receive in bytes.
        receive: u64,
    },
    /// The peer's packet does not follow the one before: a message begins within another, or ends
    /// without a beginning.
    OutOfPlace {
        /// Its opcode.
        opcode: Opcode,
    },
    /// The length of the peer's packet does not fit the path MTU, or its message.
    WrongLength {
        /// Its opcode.
        opcode: Opcode,
        /// Its payload in bytes.
        len: usize,
        /// The path MTU in bytes.
        mtu: usize,
    },
    /// The peer has more READs and atomics outstanding than the QP allows.
    TooManyFetches {
        /// `max_dest_rd_atomic`.
        limit: u8,
    },
    /// The peer's READ or WRITE is longer than a message may be.
    TooLong {
        /// Its operation.
        opcode: Opcode,
        /// Its length in bytes.
        len: u32,
    },
    /// The address of the peer's atomic is not a multiple of 8.
    Misaligned {
        /// Its opcode.
        opcode: Opcode,
        /// The address.
        addr: u64,
    },
    /// The peer's SEND invalidates a key that it may not invalidate.
    PeerInvalidation {
        /// The key.
        rkey: u32,
        /// Why.
        error: AccessError,
    },
    /// The peer's request is not supported, or lacks a header.
    Unsupported {
        /// Its opcode.
        opcode: Opcode,
    },
    /// The peer's request names an SRQ that it may not use.
    WrongSrq,
    /// The memory of the peer's FLUSH to persistence could not be made durable.
    NotDurable {
        /// Its opcode.
        opcode: Opcode,
    },
    /// A completion did not fit in its CQ.
    CqOverrun {
        /// The CQ.
        cq: CqId,
        /// The number of completions that it holds.
        capacity: usize,
    },
    /// A call moved the QP to the error state.
    Application,
    /// The failure was injected by the application's own settings, see [`Interceptor`](crate::Interceptor).
    Injected(InjectedFailure),
}

/// A failure that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedFailure {
    /// A completion that reports a failure.
    Status {
        /// Its status.
        status: WcStatus,
        /// The request.
        wr_id: u64,
    },
    /// A CQ that overruns.
    Overrun(CqId),
}

impl Cause {
    /// A cause of each kind, for tests of the tables that explain them. `denied` is used wherever
    /// access to memory is denied.
    pub fn one_of_each(denied: DeniedAccess) -> Vec<Self> {
        let (psn, opcode, error) = (Psn::new(0), Opcode::RC_SEND_ONLY, denied.error);
        let (element, retries, rkey, len) = (0, 7, denied.key, 8);
        let answer = |ever_answered| Self::NoAnswer {
            psn,
            retries,
            timeout: None,
            ever_answered,
        };
        vec![
            Self::RequestMemory { element, denied },
            Self::ReceiveMemory { element, denied },
            Self::Bind(BindError::UnknownWindow),
            Self::Bind(BindError::OutOfBounds),
            Self::Invalidate { rkey, error },
            answer(false),
            answer(true),
            Self::AlwaysLost { psn, retries },
            Self::ReceiverNotReady {
                psn,
                retries,
                wait: Duration::ZERO,
            },
            Self::RefusedInvalid { psn },
            Self::RefusedAccess { psn },
            Self::RefusedOperation { psn },
            Self::BadResponse { opcode, len },
            Self::PeerAccess { opcode, denied },
            Self::PeerRight {
                opcode,
                right: Access::REMOTE_READ,
            },
            Self::MessageTooLong {
                arrived: 2,
                receive: 1,
            },
            Self::OutOfPlace { opcode },
            Self::WrongLength {
                opcode,
                len,
                mtu: 1024,
            },
            Self::TooManyFetches { limit: 1 },
            Self::TooLong {
                opcode,
                len: u32::MAX,
            },
            Self::Misaligned { opcode, addr: 4 },
            Self::PeerInvalidation { rkey, error },
            Self::Unsupported { opcode },
            Self::WrongSrq,
            Self::NotDurable { opcode },
            Self::CqOverrun {
                cq: CqId(1),
                capacity: len,
            },
            Self::Application,
            Self::Injected(InjectedFailure::Overrun(CqId(1))),
        ]
    }

    /// The status of the receive that reports the cause.
    pub(crate) fn status_of_receive(&self) -> Option<WcStatus> {
        match self {
            Self::ReceiveMemory { .. } => Some(WcStatus::LocalProtectionError),
            Self::MessageTooLong { .. } => Some(WcStatus::LocalLengthError),
            Self::PeerAccess { .. } => Some(WcStatus::LocalAccessError),
            Self::PeerInvalidation { .. } => Some(WcStatus::RemoteInvalidRequest),
            _ => None,
        }
    }

    /// A number for the cause, above 0. It is stable: the upper bits say what failed, the lower four
    /// in which way.
    pub fn code(&self) -> u32 {
        let access = |error: &AccessError| match error {
            AccessError::BadKey => 1,
            AccessError::WrongPd => 2,
            AccessError::Denied => 3,
            AccessError::OutOfBounds => 4,
            AccessError::WrongQp => 5,
            AccessError::WindowsBound => 6,
            AccessError::Fault => 7,
        };
        let (what, way) = match self {
            Self::RequestMemory { denied, .. } => (0x11, access(&denied.error)),
            Self::ReceiveMemory { denied, .. } => (0x12, access(&denied.error)),
            Self::Bind(error) => (0x13, bind_code(*error)),
            Self::Invalidate { error, .. } => (0x14, access(error)),
            Self::NoAnswer { ever_answered, .. } => (0x21, 1 + u32::from(*ever_answered)),
            Self::AlwaysLost { .. } => (0x22, 0),
            Self::ReceiverNotReady { .. } => (0x23, 0),
            Self::RefusedInvalid { .. } => (0x31, 0),
            Self::RefusedAccess { .. } => (0x32, 0),
            Self::RefusedOperation { .. } => (0x33, 0),
            Self::BadResponse { .. } => (0x34, 0),
            Self::PeerAccess { denied, .. } => (0x41, access(&denied.error)),
            Self::PeerRight { .. } => (0x42, 0),
            Self::MessageTooLong { .. } => (0x43, 0),
            Self::OutOfPlace { .. } => (0x44, 0),
            Self::WrongLength { .. } => (0x45, 0),
            Self::TooManyFetches { .. } => (0x46, 0),
            Self::Misaligned { .. } => (0x47, 0),
            Self::PeerInvalidation { error, .. } => (0x48, access(error)),
            Self::Unsupported { .. } => (0x49, 0),
            Self::WrongSrq => (0x4a, 0),
            Self::TooLong { .. } => (0x4b, 0),
            Self::NotDurable { .. } => (0x4c, 0),
            Self::CqOverrun { .. } => (0x51, 0),
            Self::Application => (0x52, 0),
            Self::Injected(_) => (0x53, 0),
        };
        what << 4 | way
    }
}

fn bind_code(error: BindError) -> u32 {
    match error {
        BindError::UnknownWindow => 1,
        BindError::UnknownRegion => 2,
        BindError::WrongPd => 3,
        BindError::AlreadyBound => 4,
        BindError::Empty => 5,
        BindError::ZeroBased => 6,
        BindError::NotRemote => 7,
        BindError::NoBindRight => 8,
        BindError::NeedsLocalWrite => 9,
        BindError::OutOfBounds => 10,
        BindError::NotDurable => 11,
    }
}
