//! Messages of communication management in the peer's name.

use super::attacker::{Attacker, Disguise, Forged, mad_of};
use super::scene::{Scene, TIMEOUT, wait_for};
use super::victim::{Half, connected_by_manager};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_verbs::datapath::DatapathChoice;
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;
use roce_verbs::roce_cm::{
    Agent, Config, ConnectRequest, Instant, Path, PortSpace, QpnRange, RejectReason, ServiceId,
};
use roce_wire::cm::{
    CmMad, CmMessage, Drep, Dreq, Mra, Mraed, PrivateData, Rej, Rejected, Rep, Rtu,
};
use roce_wire::{MAD_LEN, QKey};
use std::time::Duration;

const PORT: u16 = 7175;

/// The communication IDs of a connection: the victim's, and its peer's.
#[derive(Clone, Copy, Debug)]
struct Ids {
    victim: u32,
    peer: u32,
}

impl Ids {
    fn mad(self, message: CmMessage<'_>) -> [u8; MAD_LEN] {
        let mad = CmMad {
            transaction: 0x5eed,
            message,
        };
        mad.to_bytes()
    }

    fn dreq(self, victim: Qpn) -> [u8; MAD_LEN] {
        self.mad(CmMessage::Dreq(Dreq {
            local_id: self.peer,
            remote_id: self.victim,
            remote_qpn: victim,
            private: PrivateData::NONE,
        }))
    }

    fn rej(self, reason: RejectReason) -> [u8; MAD_LEN] {
        self.mad(CmMessage::Rej(Rej {
            local_id: self.peer,
            remote_id: self.victim,
            rejected: Rejected::NoMessage,
            reason,
            info: PrivateData::NONE,
            private: PrivateData::NONE,
        }))
    }

    /// All messages that concern an existing connection, as its peer would send them.
    fn all(self, victim: Qpn, peer: Qpn) -> [[u8; MAD_LEN]; 8] {
        let Self {
            victim: remote_id,
            peer: local_id,
        } = self;
        let peer_only = Self { victim: 0, ..self };
        [
            self.dreq(victim),
            self.rej(RejectReason::CONSUMER),
            self.rej(RejectReason::STALE_CONNECTION),
            // From a peer that does not know the victim's ID.
            peer_only.rej(RejectReason::TIMEOUT),
            self.mad(CmMessage::Drep(Drep {
                local_id,
                remote_id,
                private: PrivateData::NONE,
            })),
            self.mad(CmMessage::Mra(Mra {
                local_id,
                remote_id,
                mraed: Mraed::Rep,
                service_timeout: 31,
                private: PrivateData::NONE,
            })),
            self.mad(CmMessage::Rtu(Rtu {
                local_id,
                remote_id,
                private: PrivateData::NONE,
            })),
            self.mad(CmMessage::Rep(Rep {
                local_id,
                remote_id,
                qkey: QKey(0),
                qpn: peer,
                eecn: Qpn::QP0,
                psn: Psn::new(0),
                responder_resources: 0,
                initiator_depth: 0,
                target_ack_delay: 0,
                failover: 0,
                flow_control: false,
                rnr_retry_count: 0,
                srq: false,
                ca_guid: 1,
                private: PrivateData::NONE,
            })),
        ]
    }
}

/// A REQ of a QP with this number at `from`.
pub(super) fn forged_req(from: Path, seed: [u8; 32], port: u16, qpn: Qpn) -> [u8; MAD_LEN] {
    let service = ServiceId::ip(PortSpace::Tcp, port);
    let request = ConnectRequest::new(service, qpn, Psn::new(5));
    let mut attacker = Agent::new(Config::new(seed, QpnRange::FIRST, 7));
    let sent = attacker.connect(Instant::ZERO, from, &request);
    sent.expect("the request is valid");
    attacker.poll_transmit().expect("a REQ").1
}

/// Attacker: off the path. It knows both addresses and both QPNs, but no communication ID. In the
/// peer's name, it sends REQs that name the peer's QP, as if the peer had restarted, and each
/// message that concerns a connection, with IDs that it guesses.
///
/// The connection goes on at both ends. The REQ makes the victim ask its peer, five times at most,
/// and the peer does not confirm what the attacker claims. The other messages are counted.
#[test]
fn forged_messages_do_not_end_a_connection() {
    const GUESSES: u64 = 250;
    let Some(scene) = Scene::new_or_skip(DatapathChoice::Udp) else {
        return;
    };
    let ([near, far], _) = connection(&scene);
    let attacker = scene.attacker();
    // Either end is the victim, since one has sent the REQ and one has received it.
    for (victim, peer) in [(&far, &near), (&near, &far)] {
        let disguise = scene.disguise(peer, victim);
        let (to, from) = (victim.qp.qpn(), peer.qp.qpn());
        let path = Path {
            local: peer.at,
            remote: victim.at,
        };
        // Before the first answer, more of them change nothing.
        for seed in 0..3 {
            let req = forged_req(path, [seed; 32], PORT, from);
            attacker.send(&disguise, &Forged::mad(&req));
        }
        wait_for("the peer is asked", || victim.cm_counters().probes > 0);
        let before = victim.cm_counters().unexpected;
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let guesses = (0..GUESSES).flat_map(|_| {
            let [victim, peer] = [(); 2].map(|()| rng.next_u32());
            Ids { victim, peer }.all(to, from)
        });
        let guesses = guesses.map(|mad| Forged::mad(&mad));
        attacker.flood(&disguise, guesses, || victim.cm_counters().unexpected);
        let unexpected = victim.cm_counters().unexpected - before;
        assert_eq!(unexpected, 8 * GUESSES, "{:?}", victim.cm_counters());
        wait_for("it has stopped asking", || victim.cm_counters().probes == 5);
        near.transfer(&far, 1);
    }
    for half in [&near, &far] {
        let counters = half.cm_counters();
        assert_eq!(counters.probe_answers, 0, "{counters:?}");
        assert_eq!(half.state(), QpState::Rts);
        let ended = half.connection().wait_for_end(Duration::ZERO);
        assert!(!ended, "{counters:?}");
    }
}

/// Attacker: another host, which knows the communication IDs, too: it has seen the connection
/// begin. It sends what ends a connection, from its own address.
///
/// The connection goes on. The same DREQ in the peer's name ends it: an attacker that sees the
/// packets can do that.
#[test]
fn messages_from_another_address_do_not_end_a_connection() {
    let Some(scene) = Scene::new_or_skip(DatapathChoice::Udp) else {
        return;
    };
    let ([near, far], ids) = connection(&scene);
    let attacker = scene.attacker();
    let peer = scene.disguise(&near, &far);
    let stranger = peer.with_address(attacker.address(false));
    let all = ids.all(far.qp.qpn(), near.qp.qpn());
    let messages = all.iter().map(Forged::mad);
    attacker.flood(&stranger, messages, || far.cm_counters().unexpected);
    assert!(!far.connection().wait_for_end(Duration::ZERO));
    near.transfer(&far, 1);

    // With another QPN, the peer's message is no more than a stranger's.
    ends_with(&attacker, &peer, &far, &ids.dreq(near.qp.qpn()), false);
    near.transfer(&far, 2);
    ends_with(&attacker, &peer, &far, &ids.dreq(far.qp.qpn()), true);
    wait_for("its QP ends", || far.state() == QpState::Err);
}

fn ends_with(
    attacker: &Attacker<'_>,
    disguise: &Disguise,
    victim: &Half<'_>,
    mad: &[u8; MAD_LEN],
    ends: bool,
) {
    let before = victim.cm_counters().unexpected;
    attacker.send(disguise, &Forged::mad(mad));
    if ends {
        assert!(victim.connection().wait_for_end(TIMEOUT));
    } else {
        wait_for("it is ignored", || victim.cm_counters().unexpected > before);
        assert!(!victim.connection().wait_for_end(Duration::ZERO));
    }
}

/// A connection from `near` to `far`, and its IDs from the point of view of `far`.
fn connection(scene: &Scene) -> ([Half<'_>; 2], Ids) {
    let (near, far) = (scene.near(), scene.far());
    let at = std::net::SocketAddr::new(far.end.address(false), PORT);
    let listener = far.end.enter(|| Listener::bind(&far.context, at));
    let listener = listener.expect("the port is free");
    let mut tap = scene.tap();
    let halves = connected_by_manager(&near, &far, PORT, |qp| {
        let incoming = listener.accept_within(TIMEOUT).expect("a request");
        let accepted = incoming.accept(qp, &ConnectOptions::default(), b"");
        accepted.expect("established")
    });
    // The RTU has both.
    let ids = tap.find(|frame| {
        mad_of(frame, |mad| match mad.message {
            CmMessage::Rtu(rtu) => Some(Ids {
                victim: rtu.remote_id,
                peer: rtu.local_id,
            }),
            _ => None,
        })
    });
    halves[0].transfer(&halves[1], 0);
    (halves, ids)
}
