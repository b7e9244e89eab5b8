//! Congestion notifications and marks that nobody's congestion has caused.

use super::attacker::Forged;
use super::scene::{DATAPATHS, Scene, wait_for};
use super::victim::{Half, connected};
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;
use roce_verbs::settings::{CongestionControl, DcqcnParameters};
use roce_wire::{ExtHeaders, Opcode};
use std::sync::Mutex;
use std::time::Instant;

/// CNPs of a flood.
const CNPS: usize = 4096;
/// "Congestion experienced".
const MARKED: u8 = 3;

fn cnps(to: Qpn, count: usize) -> impl Iterator<Item = Forged> + Send {
    let mut cnp = Forged::new(Opcode::CNP, to, 0, ExtHeaders::NONE, &[]);
    cnp.bth.becn = true;
    std::iter::repeat_n(cnp, count)
}

/// The lowest rate of the default settings, in bits a second.
fn lowest_rate() -> f64 {
    let CongestionControl::Dcqcn(parameters) = CongestionControl::default() else {
        panic!("DCQCN is the default");
    };
    assert_eq!(parameters, DcqcnParameters::PAPER);
    f64::from(parameters.rpg_min_rate) * 1e6
}

/// Attacker: another host, that knows the QPN and the source port of a sender's peer. It sends
/// thousands of CNPs, first from its own address, then in the peer's name.
///
/// Those from another address are dropped and counted. Those in the peer's name slow the QP down,
/// to no less than the lowest rate: it still transfers during the attack. Another QP of the same
/// process keeps its rate. After the attack, the QP returns to full rate by itself.
#[test]
fn forged_cnps_slow_one_connection_down_for_as_long_as_they_come() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let (near_host, far_host) = (scene.near(), scene.far());
        let [near, far] = connected(&near_host, &far_host, QpKind::Rc, false);
        let [other, other_far] = connected(&near_host, &far_host, QpKind::Rc, false);
        other.transfer(&other_far, 0);
        let attacker = scene.attacker();
        let peer = scene.disguise_as_responder(&far, &near);
        let rate = |half: &Half<'_>| half.qp.congestion().rate;

        let stranger = peer.with_address(attacker.address(false));
        let to = near.qp.qpn();
        attacker.flood(&stranger, cnps(to, CNPS), || {
            near.drops(DropReason::WrongPeer)
        });
        assert_eq!(near.stat(Stat::CnpsReceived), 0, "{datapath:?}");
        assert_eq!(rate(&near), None, "{datapath:?}");

        let lowest = Mutex::new(f64::INFINITY);
        near.transfer_during(&far, 1..=u32::MAX, || {
            attacker.flood(&peer, cnps(to, CNPS), || {
                let mut lowest = lowest.lock().expect("no panic");
                *lowest = lowest.min(rate(&near).unwrap_or(f64::INFINITY));
                near.stat(Stat::CnpsReceived)
            });
        });
        let lowest = lowest.into_inner().expect("no panic");
        assert!(
            (lowest_rate()..lowest_rate() * 100.0).contains(&lowest),
            "{datapath:?}: {lowest}"
        );
        assert_eq!(near.qp.congestion().cnps_received, CNPS as u64);
        assert_eq!(other.qp.congestion().cnps_received, 0);
        assert_eq!(rate(&other), None, "{datapath:?}");
        other.transfer(&other_far, 1);
        let end_of_attack = Instant::now();
        wait_for("full rate again", || rate(&near).is_none());
        println!(
            "{datapath:?}: {lowest:e} bit/s, full rate {:?} after the attack",
            end_of_attack.elapsed()
        );
        near.transfer(&far, 3);
        assert_eq!(near.state(), QpState::Rts);
    }
}

/// Attacker: as above. It sends marked copies of old packets, so that the receiver of the marks
/// sends CNPs to the sender.
///
/// Marks from another address cause no CNP. Marks in the peer's name cause far fewer CNPs than
/// there are marks, since a QP sends at most one in 50 us.
#[test]
fn forged_marks_cause_few_cnps_and_only_in_the_peers_name() {
    const MARKS: u64 = 4096;
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Rc, false);
        let attacker = scene.attacker();
        let peer = scene.disguise(&near, &far);
        // Long executed, so it has no other effect.
        let old = far.psns()[0].wrapping_sub(5);
        let at = far.region.remote(0);
        let to = far.qp.qpn();
        let mut marked = Forged::write(Opcode::RC_WRITE_ONLY, to, old, at, &[0xcc; 8]);
        marked.traffic_class = MARKED;
        let marks = || std::iter::repeat_n(marked.clone(), MARKS as usize);

        let stranger = peer.with_address(attacker.address(false));
        attacker.flood(&stranger, marks(), || far.drops(DropReason::WrongPeer));
        assert_eq!(far.stat(Stat::CnpsSent), 0, "{datapath:?}");

        attacker.flood(&peer, marks(), || far.qp.congestion().ecn_marked);
        wait_for("a CNP leaves", || far.stat(Stat::CnpsSent) > 0);
        let told = far.qp.congestion();
        assert_eq!(told.cnps_sent + told.cnps_suppressed, MARKS, "{told:?}");
        assert!(told.cnps_suppressed > 0, "{told:?}");
        near.transfer(&far, 1);
    }
}
