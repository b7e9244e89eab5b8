//! Guesses of R_Keys.

use super::attacker::Forged;
use super::scene::{DATAPATHS, Scene, wait_for};
use super::victim::connected;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::qp::QpState;
use roce_wire::Opcode;

/// The number of guesses after the first one.
const GUESSES: u64 = 1000;

/// Random keys, none of which is `right`; the same in each run.
fn wrong_keys(right: u32) -> impl Iterator<Item = u32> {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    std::iter::repeat_with(move || rng.next_u32()).filter(move |key| *key != right)
}

/// Attacker: one that forges the peer of an RC connection, and knows all but the R_Key: on the
/// path, or the peer itself.
///
/// One wrong guess ends the connection, as the specification demands (IBTA 1.7, 9.7.4.1), so the
/// attacker has one guess in 2^32 for each connection. Further guesses, and even the right key, do
/// nothing. The other connections of the process go on.
#[test]
fn one_wrong_key_ends_a_reliable_connection() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let (near_host, far_host) = (scene.near(), scene.far());
        let [near, far] = connected(&near_host, &far_host, QpKind::Rc, false);
        let [other, other_far] = connected(&near_host, &far_host, QpKind::Rc, false);
        let attacker = scene.attacker();
        let peer = scene.disguise(&near, &far);
        let before = far.bytes(0, 64);
        let right = far.region.remote(16);
        let guess = |psn, rkey| {
            let at = RemoteAddr { rkey, ..right };
            Forged::write(Opcode::RC_WRITE_ONLY, far.qp.qpn(), psn, at, &[0xee; 8])
        };
        let [expected, _] = far.psns();
        let mut keys = wrong_keys(right.rkey);
        attacker.send(&peer, &guess(expected, keys.next().expect("endless")));
        wait_for("the connection ends", || far.state() == QpState::Err);
        assert_eq!(far.stat(Stat::FatalNaksSent), 1, "{datapath:?}");
        let more = keys.take(GUESSES as usize - 1).chain([right.rkey]);
        let more = more.map(|key| guess(expected, key));
        attacker.flood(&peer, more, || far.drops(DropReason::WrongState));
        assert_eq!(far.drops(DropReason::WrongState), GUESSES);
        assert_eq!(far.bytes(0, 64), before, "{datapath:?}");
        other.transfer(&other_far, 1);
    }
}

/// Attacker: as above, with an unreliable connection (UC), which has no answers.
///
/// Every wrong guess is dropped and counted, and memory does not change. The connection goes on,
/// as the specification demands, so guesses are not limited: the right key works after them.
#[test]
fn wrong_keys_on_an_unreliable_connection_are_counted() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Uc, false);
        let attacker = scene.attacker();
        let peer = scene.disguise(&near, &far);
        let before = far.bytes(0, 64);
        let right = far.region.remote(16);
        let guess = |rkey| {
            let at = RemoteAddr { rkey, ..right };
            let opcode = Opcode::UC_WRITE_ONLY;
            Forged::write(opcode, far.qp.qpn(), 77, at, &[0xee; 8])
        };
        let wrong = wrong_keys(right.rkey).take(GUESSES as usize).map(guess);
        attacker.flood(&peer, wrong, || far.drops(DropReason::AccessDenied));
        assert_eq!(far.drops(DropReason::AccessDenied), GUESSES);
        assert_eq!(far.bytes(0, 64), before, "{datapath:?}");
        assert_eq!(far.state(), QpState::Rts, "{datapath:?}");
        attacker.send(&peer, &guess(right.rkey));
        wait_for("the right key works", || far.bytes(16, 8) == [0xee; 8]);
    }
}
