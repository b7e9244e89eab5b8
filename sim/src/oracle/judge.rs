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
    if done.opcode != posted.opcode {
        return violated(format!("the opcode should be {:?}", posted.opcode));
    }
    if flow.send_failed && status != WcStatus::WorkRequestFlushed {
        return violated("an earlier request failed, so this must be flushed".to_owned());
    }
    let peer_may_be_gone = peer.destroyed || peer.may_be_broken;
    let legal = match status {
        WcStatus::Success => {
            if !posted.signaled {
                return violated("the request is not signaled".to_owned());
            }
            if own.drained {
                return violated("the NIC reported that the send queue has drained".to_owned());
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
        WcStatus::RetryExceeded => {
            pair.causes.lossy || peer_may_be_gone || posted.statuses.contains(&status)
        }
        WcStatus::RnrRetryExceeded => pair.causes.rnr_limited && posted.consumes_receive(),
        WcStatus::LocalProtectionError => {
            posted.statuses.contains(&status) || flow.is_deregistered(AreaName::Out)
        }
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
        WcStatus::RemoteOperationError => {
            let uses_inbox = matches!(posted.effect, Effect::Send { .. });
            posted.statuses.contains(&status) || uses_inbox && flow.is_deregistered(AreaName::Inbox)
        }
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

/// Judges the completion of a receive. Request number `send` of the peer, if posted, consumes it.
pub(super) fn recv(pair: &Pair, side: usize, send: Option<usize>, done: &Completion) -> Verdict {
    let flow = &pair.flows[1 - side];
    let own = &pair.qps[side];
    if own.destroyed {
        return violated("a completion of a QP that was destroyed".to_owned());
    }
    let posted = send.map(|send| &flow.sends[send]);
    let justifies = |statuses: &[WcStatus]| {
        posted.is_some_and(|send| send.statuses.iter().any(|status| statuses.contains(status)))
    };
    let denied = || {
        let in_doubt = send.is_some_and(|send| flow.is_uncertain(send));
        justifies(&[WcStatus::RemoteAccessError])
            || justifies(INVALIDATION_REFUSED)
            || in_doubt
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
                return violated(format!("it should name key {:?}", send.invalidates));
            }
            let from = (pair.ends.kind == QpKind::Ud).then_some(pair.ends.qpns[1 - side]);
            if done.source.map(|source| source.qpn.get()) != from {
                return violated(format!("it should come from {from:?}"));
            }
            true
        }
        WcStatus::WorkRequestFlushed => own.may_be_broken,
        WcStatus::LocalLengthError => justifies(&[WcStatus::RemoteInvalidRequest]),
        WcStatus::LocalProtectionError => flow.is_deregistered(AreaName::Inbox),
        WcStatus::RemoteInvalidRequest if posted.is_some_and(|p| p.invalidates.is_some()) => {
            denied()
        }
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
