//! The causes of failures that NICs name.

use super::state::Run;
use crate::oracle::{Verdict, violated};
use roce_stack::{Cause, Failure, QpState, WcOpcode};

/// Whether this is about a request of the peer that was refused, and by which NAK.
fn refusal(cause: &Cause) -> Option<&'static str> {
    match cause {
        Cause::PeerAccess { .. } => Some("access"),
        Cause::ReceiveMemory { .. } => Some("operation"),
        Cause::PeerRight { .. }
        | Cause::MessageTooLong { .. }
        | Cause::OutOfPlace { .. }
        | Cause::WrongLength { .. }
        | Cause::TooManyFetches { .. }
        | Cause::TooLong { .. }
        | Cause::Misaligned { .. }
        | Cause::WrongSrq => Some("invalid"),
        // An illegal FLUSH is invalid, and one to persistent memory is denied access.
        _ => None,
    }
}

/// Whether a requester's cause agrees with that of the peer that refused the request. A peer that
/// failed for another reason before may still refuse: it sends the responses of READs after later
/// requests have arrived, so such a request may fail its QP before a READ loses its memory.
fn agree(own: &Failure, peer: &Cause) -> bool {
    let of_read = own
        .request
        .is_some_and(|request| request.opcode == WcOpcode::RdmaRead);
    let told = match own.cause {
        Cause::RefusedAccess { .. } if of_read => return true,
        Cause::RefusedAccess { .. } => "access",
        Cause::RefusedOperation { .. } => "operation",
        Cause::RefusedInvalid { .. } => "invalid",
        _ => return true,
    };
    refusal(peer).is_none_or(|refused| refused == told)
}

impl Run<'_> {
    /// Checks that each QP in an error state has a cause, and that the two ends of a pair agree on
    /// the request that one of them refused.
    pub(super) fn check_causes(&mut self) -> Verdict {
        for pair in 0..self.pairs.len() {
            let failures = [self.cause(pair, 0)?, self.cause(pair, 1)?];
            for side in [0, 1] {
                let (Some(own), Some(peer)) = (failures[side], failures[1 - side]) else {
                    continue;
                };
                if !agree(&own, &peer.cause) {
                    return violated(format!(
                        "pair {pair} side {side}: {:?}, but the peer: {:?}",
                        own.cause, peer.cause
                    ));
                }
            }
        }
        Ok(())
    }

    fn cause(
        &mut self,
        pair: usize,
        side: usize,
    ) -> Result<Option<Failure>, crate::oracle::Violation> {
        let end = self.end(pair, side);
        let (host, qpn, alive) = (end.host, end.qpn, end.alive);
        let state = self.qp_state(pair, side);
        let has_failed = matches!(state, Some(QpState::Err | QpState::Sqe));
        let failure = self.fabric.nic(host).failure(qpn).copied();
        if alive && has_failed != failure.is_some() {
            violated(format!(
                "pair {pair} side {side} is in {state:?}, for this reason: {failure:?}"
            ))?;
        }
        Ok(failure.filter(|_| alive))
    }
}
