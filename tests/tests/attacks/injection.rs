//! Packets that claim to continue a connection.

use super::attacker::{Attacker, Forged};
use super::scene::{DATAPATHS, Scene, wait_for};
use super::victim::{Half, LEN, PACKETS_OF_TRANSFER, connected};
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;
use roce_wire::{ExtHeaders, Opcode, Reth};

/// The number of PSNs ahead of the expected one whose packets are kept.
const REACH: u32 = 1024;
/// The number of PSNs.
const PSNS: u32 = 1 << 24;

/// Attacker: off the path. It knows both addresses, the source port and the QPN, but neither PSN
/// nor R_Key. It sends a WRITE for one of each 1,024 PSNs. One of them is so little ahead of the
/// expected PSN that it would be kept, if the QP were not on guard after the first 16.
///
/// Nothing is kept. The connection goes on, during the attack and past that PSN, and all data are
/// right.
///
/// No forged PSN is ever the expected one: the attacker would win by chance, one time in 1,024
/// attacks. docs/design/security.md lists this.
#[test]
fn blind_writes_do_not_end_a_connection() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Rc, false);
        let attacker = scene.attacker();
        for _ in 0..2 {
            attack_blindly(&scene, &attacker, &near, &far);
        }
        assert_eq!(far.stat(Stat::OutOfOrderKept), 0, "{datapath:?}");
        for half in [&near, &far] {
            assert_eq!(half.state(), QpState::Rts, "{datapath:?}");
        }
        let counters = far.context.counters();
        assert_eq!(counters[Stat::FatalNaksSent], 0, "{counters}");
        // Half of the forged WRITEs were behind the expected PSN, half too far ahead.
        let forged = u64::from(PSNS / REACH);
        // Those within 65,536 of the expected PSN are no guesses.
        let near_misses = 2 * (1 << 16) / u64::from(REACH) + 2;
        assert!(
            counters[Stat::PsnGuesses] >= 2 * (forged - near_misses),
            "{counters}"
        );
        assert!(
            counters[Stat::DuplicateRequests] >= forged - 10,
            "{counters}"
        );
        assert!(
            counters[DropReason::OutOfSequence] >= forged - 10,
            "{counters}"
        );
    }
}

fn attack_blindly(scene: &Scene, attacker: &Attacker<'_>, near: &Half<'_>, far: &Half<'_>) {
    let disguise = scene.disguise(near, far);
    let expected = far.psns()[0];
    let (to, mut at) = (far.qp.qpn(), far.region.remote(0));
    at.rkey ^= 1;
    // The last one is near the expected PSN.
    let psns = (1..=PSNS / REACH).map(|n| expected.wrapping_add(REACH / 2 + n * REACH));
    let packets = psns.map(|psn| Forged::write(Opcode::RC_WRITE_ONLY, to, psn, at, &[0xee; 8]));
    let attack = move || attacker.flood(&disguise, packets, || far.stat(Stat::RxPackets));
    // These transfers do not reach the PSN that is little ahead.
    let before = REACH / 2 / PACKETS_OF_TRANSFER - 1;
    near.transfer_during(far, before..=before, attack);
    // These do.
    (0..2 * REACH / PACKETS_OF_TRANSFER).for_each(|round| near.transfer(far, 100 + round));
}

/// Attacker: another host. It knows everything: QPNs, PSNs, source port, R_Key and addresses. It
/// uses its own address, and one that no host has (ReDMArk's injection, without the peer's address).
///
/// Every packet is dropped and counted, memory does not change, and no receive is consumed. The
/// same packets with the peer's address are executed, which the specification demands: RoCE has
/// nothing else to tell who sent a packet.
#[test]
fn packets_from_another_address_are_dropped() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        for ipv6 in [false, true] {
            inject(&scene, ipv6);
        }
    }
}

fn inject(scene: &Scene, ipv6: bool) {
    let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Rc, ipv6);
    let attacker = scene.attacker();
    let peer = scene.disguise(&near, &far);
    let receive = [far.region.slice(LEN, 8).expect("in range")];
    let receive = RecvRequest {
        wr_id: 7,
        sges: &receive,
    };
    far.qp.post_recv(&receive).expect("posted");
    let before = far.bytes(0, 2 * LEN);
    let [expected, _] = far.psns();
    let to = far.qp.qpn();
    let read = Reth {
        va: far.region.remote(0).addr,
        rkey: far.region.rkey(),
        dma_len: 8,
    };
    let read = ExtHeaders {
        reth: Some(read),
        ..ExtHeaders::NONE
    };
    let packets = |from: u32| {
        let write = Opcode::RC_WRITE_ONLY;
        [
            Forged::write(write, to, from, far.region.remote(16), &[0xaa; 8]),
            Forged::new(
                Opcode::RC_SEND_ONLY,
                to,
                from + 1,
                ExtHeaders::NONE,
                &[0xbb; 8],
            ),
            Forged::new(Opcode::RC_READ_REQUEST, to, from + 2, read, &[]),
        ]
    };
    let nobody = match ipv6 {
        false => [10, 91, 0, 99].into(),
        true => [0xfd91, 0, 0, 0, 0, 0, 0, 99].into(),
    };
    let wrong = [attacker.address(ipv6), nobody];
    for (n, from) in wrong.into_iter().enumerate() {
        let stranger = peer.with_address(from);
        // In order, and each as the next one.
        let all = [0, -1, -2]
            .into_iter()
            .flat_map(|shift: i32| packets(expected.wrapping_add_signed(shift)).into_iter());
        attacker.flood(&stranger, all, || far.drops(DropReason::WrongPeer));
        assert_eq!(far.drops(DropReason::WrongPeer), 9 * (n as u64 + 1));
    }
    assert!(far.bytes(0, 2 * LEN) == before, "memory has changed");
    assert_eq!(far.qp.queued(), (0, 1), "a receive was consumed");
    near.transfer(&far, 1);

    let [expected, _] = far.psns();
    for packet in packets(expected) {
        attacker.send(&peer, &packet);
    }
    assert_eq!(far.status(), WcStatus::Success, "the forged SEND");
    assert_eq!(far.bytes(LEN, 8), [0xbb; 8]);
    assert_eq!(far.bytes(16, 8), [0xaa; 8]);
    wait_for("the READ is answered", || far.psns()[0] == expected + 3);
}
