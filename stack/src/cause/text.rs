//! Causes in words.

use super::{Cause, InjectedFailure};
use crate::ids::CqId;
use crate::memory::{Access, AccessError, DeniedAccess, Extent};
use core::fmt::{Display, Formatter, Result};

impl Access {
    /// The name that C programs use for a right.
    pub(crate) fn c_name(self) -> &'static str {
        match self {
            Self::LOCAL_WRITE => "IBV_ACCESS_LOCAL_WRITE",
            Self::REMOTE_WRITE => "IBV_ACCESS_REMOTE_WRITE",
            Self::REMOTE_READ => "IBV_ACCESS_REMOTE_READ",
            Self::REMOTE_ATOMIC => "IBV_ACCESS_REMOTE_ATOMIC",
            Self::MW_BIND => "IBV_ACCESS_MW_BIND",
            Self::FLUSH_GLOBAL => "IBV_ACCESS_FLUSH_GLOBAL",
            Self::FLUSH_PERSISTENT => "IBV_ACCESS_FLUSH_PERSISTENT",
            _ => "another right",
        }
    }
}

/// Rights as C programs write them.
struct Rights(Access);

impl Display for Rights {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.0.is_empty() {
            return f.write_str("no rights but local reading");
        }
        for (number, right) in self.0.iter().enumerate() {
            let bar = if number == 0 { "" } else { " | " };
            write!(f, "{bar}{}", right.c_name())?;
        }
        Ok(())
    }
}

/// A number of bytes.
pub(crate) struct Bytes(pub(crate) u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            1 => f.write_str("1 byte"),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

impl DeniedAccess {
    /// By how much the access misses the region.
    fn write_bounds(&self, f: &mut Formatter<'_>, region: &Extent) -> Result {
        let (from, to) = (u128::from(self.addr), self.end());
        let (first, end) = (
            u128::from(region.addr),
            u128::from(region.addr) + u128::from(region.len),
        );
        let count = |bytes: u128| Bytes(u64::try_from(bytes).unwrap_or(u64::MAX));
        write!(
            f,
            "the region or window has {} from {:#x} on, ",
            Bytes(region.len),
            region.addr
        )?;
        match () {
            () if from < first => {
                let before = count(first.saturating_sub(from));
                write!(f, "and the access begins {before} before it")
            }
            () if from == end => f.write_str("and the access begins at its end"),
            () if from > end => {
                let behind = count(from.saturating_sub(end));
                write!(f, "and the access begins {behind} past its end")
            }
            () => {
                let beyond = count(to.saturating_sub(end));
                write!(f, "and the access ends {beyond} past its end")
            }
        }
    }

    fn end(&self) -> u128 {
        u128::from(self.addr) + u128::from(self.len)
    }
}

impl Display for DeniedAccess {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { key, addr, len, .. } = self;
        write!(f, "{} at {addr:#x} with key {key:#010x}: ", Bytes(*len))?;
        match (self.error, &self.region) {
            (AccessError::OutOfBounds, Some(region)) => self.write_bounds(f, region),
            (AccessError::Denied, Some(region)) if !region.access.contains(self.rights) => {
                let missing = self.rights.difference(region.access);
                let (missing, has) = (Rights(missing), Rights(region.access));
                write!(f, "the region or window lacks {missing}; it has {has}")
            }
            (AccessError::BadKey, Some(_)) => {
                f.write_str("the key was invalidated for peers, and only its owner may use it")
            }
            (error, _) => write!(f, "{error}"),
        }
    }
}

/// Which element of which request, and what was denied. It is not known which page of it is missing.
struct Element<'a>(&'a str, usize, &'a DeniedAccess);

impl Display for Element<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(request, element, denied) = self;
        match denied.error {
            AccessError::Fault => {
                write!(f, "the memory of the {request} request: {}", denied.error)
            }
            _ => write!(f, "element {element} of the {request} request, {denied}"),
        }
    }
}

impl Display for InjectedFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Status { status, wr_id } => write!(
                f,
                "an injected fault makes the request with wr_id {wr_id:#x} report: {status}"
            ),
            Self::Overrun(CqId(number)) => write!(
                f,
                "an injected fault makes completion queue {number} overrun"
            ),
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::RequestMemory { element, denied } => {
                Element("send", *element, denied).fmt(f)
            }
            Self::ReceiveMemory { element, denied } => {
                Element("receive", *element, denied).fmt(f)
            }
            Self::Bind(error) => write!(f, "the window was not bound: {error}"),
            Self::Invalidate { rkey, error } => {
                write!(f, "key {rkey:#010x} was not invalidated: {error}")
            }
            Self::NoAnswer {
                psn,
                retries,
                timeout,
                ever_answered,
            } => {
                let before = match ever_answered {
                    true => "The peer has answered this QP before",
                    false => "The peer has never answered this QP",
                };
                write!(
                    f,
                    "no answer to the packet with PSN {psn}, and all {retries} retries are used up \
                     (retry_cnt {retries}"
                )?;
                if let Some(timeout) = timeout {
                    write!(f, ", local ACK timeout {timeout:?}")?;
                }
                write!(f, "). {before}")
            }
            Self::AlwaysLost { psn, retries } => write!(
                f,
                "the packet with PSN {psn}, or its response, is missing, and all {retries} retries are \
                 used up (retry_cnt {retries}), although the peer answers other packets"
            ),
            Self::ReceiverNotReady {
                psn, retries: 0, ..
            } => write!(
                f,
                "the peer had no receive posted for the packet with PSN {psn}, and rnr_retry 0 allows no \
                 other attempt"
            ),
            Self::ReceiverNotReady { psn, retries, wait } => write!(
                f,
                "the peer had no receive posted for the packet with PSN {psn}, and all {retries} RNR \
                 retries are used up (rnr_retry {retries}); it asked for {wait:?} between them (its \
                 min_rnr_timer)"
            ),
            Self::RefusedInvalid { psn } => write!(
                f,
                "the peer refused the packet with PSN {psn} as an invalid request. Only the peer \
                 knows the reason"
            ),
            Self::RefusedAccess { psn } => write!(
                f,
                "the peer denied the packet with PSN {psn} access to its memory. Only the peer \
                 knows the reason"
            ),
            Self::RefusedOperation { psn } => write!(
                f,
                "the peer could not execute the packet with PSN {psn}. Only the peer knows the \
                 reason"
            ),
            Self::BadResponse { opcode, len } => write!(
                f,
                "the peer answered with {opcode} of {}, which does not fit the request",
                Bytes(*len as u64)
            ),
            Self::PeerAccess { opcode, denied } => write!(f, "the peer's {opcode}, {denied}"),
            Self::PeerRight { opcode, right } => write!(
                f,
                "the peer's {opcode} needs {}, which this QP does not have",
                Rights(*right)
            ),
            Self::MessageTooLong { arrived, receive } => write!(
                f,
                "the peer's message has at least {}, but the receive request has {}",
                Bytes(*arrived),
                Bytes(*receive)
            ),
            Self::OutOfPlace { opcode } => write!(
                f,
                "the peer's {opcode} does not follow the packet before it: a message begins within \
                 another, or goes on without a beginning"
            ),
            Self::WrongLength { opcode, len, mtu } if len > mtu => write!(
                f,
                "the peer's {opcode} has {}, more than this QP's path MTU of {mtu}",
                Bytes(*len as u64)
            ),
            Self::WrongLength { opcode, len, mtu } => write!(
                f,
                "the peer's {opcode} has {}, which does not fit its message or the path MTU of {mtu}",
                Bytes(*len as u64)
            ),
            Self::TooManyFetches { limit } => write!(
                f,
                "the peer has more READs and atomics outstanding than this QP allows \
                 (max_dest_rd_atomic {limit})"
            ),
            Self::TooLong { opcode, len } => write!(
                f,
                "the peer's {opcode} is for {len} bytes, and a message has at most 2^31"
            ),
            Self::Misaligned { opcode, addr } => write!(
                f,
                "the address of the peer's {opcode}, {addr:#x}, is not a multiple of 8"
            ),
            Self::PeerInvalidation { rkey, error } => write!(
                f,
                "the peer's SEND invalidates key {rkey:#010x}, which it may not: {error}"
            ),
            Self::Unsupported { opcode } => {
                write!(f, "the peer's {opcode} is not supported, or lacks a header")
            }
            Self::WrongSrq => f.write_str(
                "the peer's request names an SRQ that is not in the XRC domain of this QP, or \
                 another one than its message began with",
            ),
            Self::NotDurable { opcode } => write!(
                f,
                "the memory of the peer's {opcode} could not be made durable: its file could not be \
                 written to the device, now or earlier"
            ),
            Self::CqOverrun { capacity, .. } => write!(
                f,
                "a completion did not fit in its CQ, which holds {capacity} and was not polled"
            ),
            Self::Injected(failure) => write!(f, "{failure}"),
            Self::Application => f.write_str(
                "a call moved the QP to the error state: ibv_modify_qp, rdma_disconnect, or the end of \
                 the device",
            ),
        }
    }
}
