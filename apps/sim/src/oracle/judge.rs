//! The statuses that a completion may have, given the events so far (IBTA 1.7, 11.6.2).

use super::pair::{Pair, QpModel};
use super::{AreaName, Effect, INVALIDATION_REFUSED, Verdict, violated};
use roce_stack::{Completion, QpKind, WcOpcode, WcStatus};

/// Judges the completion of send request `id`.
pub(super) fn send(pair: &Pair, side: usize, id: usize, done: &Completion) -> Verdict {
    let flow = &pair.flows[side];
    let posted = &flow.sends[id];
    let (own, peer) = (&pair.qps[side], &pair.qps[1 - side]);
    let status = done.status;
    if own.destroyed {
        return violated("a completion of a QP that was destroyed".to_owned());
    }
    // The opcode is valid for every status.
    if done.opcode != posted.opcode {
        return violated(format!("the opcode should be {:?}", posted.opcode));
    }
    // A failed request puts the QP, or at least its send queue, into an error state.
    if flow.send_failed && status != WcStatus::WorkRequestFlushed {
        return violated("an earlier request failed, so this must be flushed".to_owned());
    }
    // A QP that was destroyed, or is in the error state, does not answer.
    let peer_may_be_gone = peer.destroyed || peer.may_be_broken;
    let legal = match status {
        WcStatus::Success => {
            // A request that is not signaled has a completion only if it fails.
            if !posted.signaled {
                return violated("the request is not signaled".to_owned());
            }
            // All requests that were begun had completed when the NIC reported this, and in state
            // SQD the NIC begins no others.
            if own.drained {
                return violated(
                    "a request succeeded after the NIC reported that the send queue had drained"
                        .to_owned(),
                );
            }
            if done.byte_len != posted.len {
                return violated(format!("the length should be {} bytes", posted.len));
            }
            true
        }
        WcStatus::WorkRequestFlushed => own.may_be_broken || flow.send_failed,
        // Unreliable services get no answer, so these statuses can't occur.
        WcStatus::RetryExceeded | WcStatus::RnrRetryExceeded | WcStatus::RemoteAccessError
            if !pair.is_reliable() =>
        {
            false
        }
        // The peer's answer is missing because of a loss, the peer's QP, or a fault that the peer
        // does not answer.
        WcStatus::RetryExceeded => {
            pair.causes.lossy || peer_may_be_gone || posted.statuses.contains(&status)
        }
        // Only a request that consumes a receive can find none posted.
        WcStatus::RnrRetryExceeded => pair.causes.rnr_limited && posted.consumes_receive(),
        // Requests take their data from `out`, and put their results there.
        WcStatus::LocalProtectionError => {
            posted.statuses.contains(&status) || flow.is_deregistered(AreaName::Out)
        }
        // Atomics access the host's words instead of the target. A READ needs its key until the
        // peer has sent the last response, and a later request without a fence may invalidate the
        // key before that. Other requests need their keys only until they are executed.
        WcStatus::RemoteAccessError => {
            let uses_target = matches!(
                posted.effect,
                Effect::Write { .. } | Effect::Read { .. } | Effect::Flush
            );
            let reads = matches!(posted.effect, Effect::Read { .. });
            posted.statuses.contains(&status)
                || uses_target && flow.is_uncertain(id)
                || uses_target && flow.is_deregistered(AreaName::Target)
                || reads && flow.may_lose_key(id)
        }
        // The peer's receive is at fault: its memory can't be written.
        WcStatus::RemoteOperationError => {
            let uses_inbox = matches!(posted.effect, Effect::Send { .. });
            posted.statuses.contains(&status) || uses_inbox && flow.is_deregistered(AreaName::Inbox)
        }
        // The region or the window that the request names may no longer exist.
        WcStatus::MemoryWindowBindError => {
            let about_keys = matches!(
                posted.effect,
                Effect::Bind { .. } | Effect::Invalidate { .. }
            );
            posted.statuses.contains(&status) || about_keys && pair.may_refuse_key_request(side)
        }
        _ => posted.statuses.contains(&status),
    };
    verdict(legal, own, done)
}

/// Judges the completion of a receive. `send` is the peer's request that consumes it; `None` if the
/// peer has not posted it, or if the service is unreliable and the receive failed.
pub(super) fn recv(pair: &Pair, side: usize, send: Option<usize>, done: &Completion) -> Verdict {
    let flow = &pair.flows[1 - side];
    let own = &pair.qps[side];
    if own.destroyed {
        return violated("a completion of a QP that was destroyed".to_owned());
    }
    let posted = send.map(|send| &flow.sends[send]);
    // Whether the request has a fault for which the request itself may complete with one of these
    // statuses.
    let justifies = |statuses: &[WcStatus]| {
        posted.is_some_and(|send| send.statuses.iter().any(|status| statuses.contains(status)))
    };
    // Whether this side may have refused the request: the access of a WRITE to the target, or the
    // invalidation of a key.
    let denied = || {
        let is_uncertain = send.is_some_and(|send| flow.is_uncertain(send));
        justifies(&[WcStatus::RemoteAccessError])
            || justifies(INVALIDATION_REFUSED)
            || is_uncertain
            || flow.is_deregistered(AreaName::Target)
    };
    let legal = match done.status {
        WcStatus::Success => {
            let Some(send) = posted else {
                return violated("no message consumes this receive".to_owned());
            };
            let (opcode, expected) = match &send.effect {
                Effect::Write { imm, .. } => (WcOpcode::RecvRdmaWithImm, *imm),
                Effect::Send { imm, .. } => (WcOpcode::Recv, *imm),
                _ => (WcOpcode::Recv, None),
            };
            // The receive of a datagram also holds the header. A WRITE puts nothing into the
            // receive: the length is that of the WRITE's data.
            let header = match opcode {
                WcOpcode::Recv => pair.header_bytes() as u32,
                _ => 0,
            };
            let len = send.len + header;
            if (done.opcode, done.imm, done.byte_len) != (opcode, expected, len) {
                return violated(format!(
                    "it should have {opcode:?}, immediate {expected:?}, {len} bytes"
                ));
            }
            if done.invalidated_rkey != send.invalidates {
                return violated(match send.invalidates {
                    Some(key) => format!("it should name key {key}, which was invalidated"),
                    None => "it should name no key".to_owned(),
                });
            }
            let network = pair.ends.networks[1 - side];
            let header = done.source.map(|source| source.network);
            if pair.ends.kind == QpKind::Ud
                && network.is_some_and(|network| Some(network.header) != header)
            {
                return violated(format!("it should have come by {network:?}"));
            }
            // Only datagrams have a source.
            let from = (pair.ends.kind == QpKind::Ud).then_some(pair.ends.qpns[1 - side]);
            if done.source.map(|source| source.qpn.get()) != from {
                return violated(match from {
                    Some(qpn) => format!("it should come from QP {qpn}"),
                    None => "it should have no source".to_owned(),
                });
            }
            true
        }
        WcStatus::WorkRequestFlushed => own.may_be_broken,
        // The message does not fit in the receive, so the peer's request is invalid.
        WcStatus::LocalLengthError => justifies(&[WcStatus::RemoteInvalidRequest]),
        // The memory of the receive can't be written.
        WcStatus::LocalProtectionError => flow.is_deregistered(AreaName::Inbox),
        // The key can't be invalidated (IBTA 1.7, 9.9.6.3, class J).
        WcStatus::RemoteInvalidRequest if posted.is_some_and(|p| p.invalidates.is_some()) => {
            denied()
        }
        // A WRITE with immediate data was denied access to the target.
        WcStatus::LocalAccessError => denied(),
        _ => false,
    };
    verdict(legal, own, done)
}

fn verdict(legal: bool, own: &QpModel, done: &Completion) -> Verdict {
    if legal {
        return Ok(());
    }
    violated(format!("{:?} has no cause, QP {own:?}", done.status))
}
