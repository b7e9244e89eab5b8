//! Acknowledgements and NAKs that the peer never sent.

use super::attacker::Forged;
use super::scene::{DATAPATHS, Scene, wait_for};
use super::victim::connected;
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;
use roce_wire::{Aeth, ExtHeaders, NakCode, Opcode, RnrTimer, Syndrome};

/// Every answer that has an effect.
fn syndromes() -> [Syndrome; 6] {
    let nak = Syndrome::Nak;
    [
        Syndrome::default(),
        Syndrome::RnrNak(RnrTimer::LONGEST),
        nak(NakCode::PsnSequenceError),
        nak(NakCode::InvalidRequest),
        nak(NakCode::RemoteAccessError),
        nak(NakCode::RemoteOperationalError),
    ]
}

fn answer(to: Qpn, psn: u32, syndrome: Syndrome) -> Forged {
    let aeth = Aeth { syndrome, msn: psn };
    let ext = ExtHeaders {
        aeth: Some(aeth),
        ..ExtHeaders::NONE
    };
    Forged::new(Opcode::RC_ACKNOWLEDGE, to, psn, ext, &[])
}

/// Attacker: off the path. It knows both addresses, the source port and the QPN, but not the PSNs.
/// It sends answers of each kind for PSNs all over the space, while the connection is idle and
/// while it transfers.
///
/// Answers for what is not in flight have no effect. Those for what was never sent are counted.
#[test]
fn answers_for_what_is_not_in_flight_are_ignored() {
    const STRIDE: u32 = 1 << 14;
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Rc, false);
        let attacker = scene.attacker();
        let peer = scene.disguise_as_responder(&far, &near);
        let [_, next] = near.psns();
        let to = near.qp.qpn();
        // While it is idle: from the next PSN to the last one that was sent, all around.
        let everywhere = (0..1 << 24).step_by(STRIDE as usize);
        let idle = everywhere.flat_map(|distance| {
            syndromes().map(|syndrome| answer(to, next.wrapping_add(distance), syndrome))
        });
        let sent = near.stat(Stat::TxPackets);
        attacker.flood(&peer, idle, || near.stat(Stat::RxPackets));
        assert_eq!(near.stat(Stat::TxPackets), sent, "it was made to send");
        let counters = near.context.counters();
        assert!(counters[DropReason::GhostAck] > 0, "{counters}");
        near.transfer(&far, 1);

        // While it transfers: at least 2^21 packets away from what is in flight.
        let away = ((1 << 21)..(1 << 24) - (1 << 21)).step_by(STRIDE as usize);
        let busy = away.flat_map(move |distance| {
            syndromes().map(|syndrome| answer(to, next.wrapping_add(distance), syndrome))
        });
        near.transfer_during(&far, 3..=1000, || {
            attacker.flood(&peer, busy, || near.stat(Stat::RxPackets));
        });
        let counters = near.context.counters();
        for stat in [Stat::FatalNaksReceived, Stat::RnrNaksReceived] {
            // Old ones are counted as received before they are found to be old.
            assert!(
                counters[stat] <= counters[DropReason::DuplicateResponse],
                "{counters}"
            );
        }
        for half in [&near, &far] {
            assert_eq!(half.state(), QpState::Rts, "{datapath:?}");
        }
    }
}

/// Attacker: one that also knows the PSN of a request in flight, or guesses it. Packets do not say
/// more about their sender, so it succeeds: an acknowledgement completes a WRITE that never
/// arrived, and a NAK ends the connection. This is what the test above is to be seen against, and
/// what docs/design/encryption.md is for.
#[test]
fn an_answer_for_what_is_in_flight_is_believed() {
    let Some(scene) = Scene::new_or_skip(DATAPATHS[0]) else {
        return;
    };
    let refused = Syndrome::Nak(NakCode::RemoteAccessError);
    for (syndrome, status, state) in [
        (Syndrome::default(), WcStatus::Success, QpState::Rts),
        (refused, WcStatus::RemoteAccessError, QpState::Err),
    ] {
        let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Rc, false);
        let attacker = scene.attacker();
        let peer = scene.disguise_as_responder(&far, &near);
        scene.lan.plug(&scene.lan.far, false);
        let [_, psn] = near.psns();
        near.post(SendOp::Write(far.region.remote(0)), 0, 8);
        wait_for("it is in flight", || near.psns()[1] != psn);
        attacker.send(&peer, &answer(near.qp.qpn(), psn, syndrome));
        assert_eq!(near.status(), status);
        assert_eq!(near.state(), state);
        scene.lan.plug(&scene.lan.far, true);
    }
}
