//! Causes in words.

use crate::{Bytes, InWords};
use core::fmt::{Display, Formatter, Result};
use roce_stack::{Access, AccessError, Cause, CqId, DeniedAccess, Extent, InjectedFailure};

/// The name that C programs use for a right.
pub(crate) fn c_name(right: Access) -> &'static str {
    match right {
        Access::LOCAL_WRITE => "IBV_ACCESS_LOCAL_WRITE",
        Access::REMOTE_WRITE => "IBV_ACCESS_REMOTE_WRITE",
        Access::REMOTE_READ => "IBV_ACCESS_REMOTE_READ",
        Access::REMOTE_ATOMIC => "IBV_ACCESS_REMOTE_ATOMIC",
        Access::MW_BIND => "IBV_ACCESS_MW_BIND",
        Access::FLUSH_GLOBAL => "IBV_ACCESS_FLUSH_GLOBAL",
        Access::FLUSH_PERSISTENT => "IBV_ACCESS_FLUSH_PERSISTENT",
        _ => "another right",
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
            write!(f, "{bar}{}", c_name(right))?;
        }
        Ok(())
    }
}

impl InWords<'_, DeniedAccess> {
    /// By how much the access misses the region.
    fn write_bounds(&self, f: &mut Formatter<'_>, region: &Extent) -> Result {
        let from = u128::from(self.0.addr);
        let to = from + u128::from(self.0.len);
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
}

impl Display for InWords<'_, DeniedAccess> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let denied = self.0;
        let DeniedAccess { key, addr, len, .. } = denied;
        write!(f, "{} at {addr:#x} with key {key:#010x}: ", Bytes(*len))?;
        match (denied.error, &denied.region) {
            (AccessError::OutOfBounds, Some(region)) => self.write_bounds(f, region),
            (AccessError::Denied, Some(region)) if !region.access.contains(denied.rights) => {
                let missing = denied.rights.difference(region.access);
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
            _ => {
                let denied = InWords(*denied);
                write!(f, "element {element} of the {request} request, {denied}")
            }
        }
    }
}

impl Display for InWords<'_, InjectedFailure> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            InjectedFailure::Status { status, wr_id } => write!(
                f,
                "an injected fault makes the request with wr_id {wr_id:#x} report: {status}"
            ),
            InjectedFailure::Overrun(CqId(number)) => write!(
                f,
                "an injected fault makes completion queue {number} overrun"
            ),
        }
    }
}

impl Display for InWords<'_, Cause> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.0 {
            Cause::RequestMemory { element, denied } => {
                Element("send", *element, denied).fmt(f)
            }
            Cause::ReceiveMemory { element, denied } => {
                Element("receive", *element, denied).fmt(f)
            }
            Cause::Bind(error) => write!(f, "the window was not bound: {error}"),
            Cause::Invalidate { rkey, error } => {
                write!(f, "key {rkey:#010x} was not invalidated: {error}")
            }
            Cause::NoAnswer {
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
            Cause::AlwaysLost { psn, retries } => write!(
                f,
                "the packet with PSN {psn}, or its response, is missing, and all {retries} retries are \
                 used up (retry_cnt {retries}), although the peer answers other packets"
            ),
            Cause::ReceiverNotReady {
                psn, retries: 0, ..
            } => write!(
                f,
                "the peer had no receive posted for the packet with PSN {psn}, and rnr_retry 0 allows no \
                 other attempt"
            ),
            Cause::ReceiverNotReady { psn, retries, wait } => write!(
                f,
                "the peer had no receive posted for the packet with PSN {psn}, and all {retries} RNR \
                 retries are used up (rnr_retry {retries}); it asked for {wait:?} between them (its \
                 min_rnr_timer)"
            ),
            Cause::RefusedInvalid { psn } => write!(
                f,
                "the peer refused the packet with PSN {psn} as an invalid request. Only the peer \
                 knows the reason"
            ),
            Cause::RefusedAccess { psn } => write!(
                f,
                "the peer denied the packet with PSN {psn} access to its memory. Only the peer \
                 knows the reason"
            ),
            Cause::RefusedOperation { psn } => write!(
                f,
                "the peer could not execute the packet with PSN {psn}. Only the peer knows the \
                 reason"
            ),
            Cause::BadResponse { opcode, len } => write!(
                f,
                "the peer answered with {opcode} of {}, which does not fit the request",
                Bytes(*len as u64)
            ),
            Cause::PeerAccess { opcode, denied } => {
                write!(f, "the peer's {opcode}, {}", InWords(denied))
            }
            Cause::PeerRight { opcode, right } => write!(
                f,
                "the peer's {opcode} needs {}, which this QP does not have",
                Rights(*right)
            ),
            Cause::MessageTooLong { arrived, receive } => write!(
                f,
                "the peer's message has at least {}, but the receive request has {}",
                Bytes(*arrived),
                Bytes(*receive)
            ),
            Cause::OutOfPlace { opcode } => write!(
                f,
                "the peer's {opcode} does not follow the packet before it: a message begins within \
                 another, or goes on without a beginning"
            ),
            Cause::WrongLength { opcode, len, mtu } if len > mtu => write!(
                f,
                "the peer's {opcode} has {}, more than this QP's path MTU of {mtu}",
                Bytes(*len as u64)
            ),
            Cause::WrongLength { opcode, len, mtu } => write!(
                f,
                "the peer's {opcode} has {}, which does not fit its message or the path MTU of {mtu}",
                Bytes(*len as u64)
            ),
            Cause::TooManyFetches { limit } => write!(
                f,
                "the peer has more READs and atomics outstanding than this QP allows \
                 (max_dest_rd_atomic {limit})"
            ),
            Cause::TooLong { opcode, len } => write!(
                f,
                "the peer's {opcode} is for {len} bytes, and a message has at most 2^31"
            ),
            Cause::Misaligned { opcode, addr } => write!(
                f,
                "the address of the peer's {opcode}, {addr:#x}, is not a multiple of 8"
            ),
            Cause::PeerInvalidation { rkey, error } => write!(
                f,
                "the peer's SEND invalidates key {rkey:#010x}, which it may not: {error}"
            ),
            Cause::Unsupported { opcode } => {
                write!(f, "the peer's {opcode} is not supported, or lacks a header")
            }
            Cause::WrongSrq => f.write_str(
                "the peer's request names an SRQ that is not in the XRC domain of this QP, or \
                 another one than its message began with",
            ),
            Cause::NotDurable { opcode } => write!(
                f,
                "the memory of the peer's {opcode} could not be made durable: its file could not be \
                 written to the device, now or earlier"
            ),
            Cause::CqOverrun { capacity, .. } => write!(
                f,
                "a completion did not fit in its CQ, which holds {capacity} and was not polled"
            ),
            Cause::Injected(failure) => InWords(failure).fmt(f),
            Cause::Application => f.write_str(
                "a call moved the QP to the error state: ibv_modify_qp, rdma_disconnect, or the end of \
                 the device",
            ),
            other => write!(f, "{other:?}"),
        }
    }
}
