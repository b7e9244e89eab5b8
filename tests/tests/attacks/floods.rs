//! More packets than a victim can take, from addresses that do not exist.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use super::attacker::{Attacker, Disguise, Forged};
use super::connections::forged_req;
use super::scene::{DATAPATHS, Scene, TIMEOUT, wait_for};
use super::victim::{Half, Victim, connected, connected_by_manager};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::roce_cm::Path;
use roce_wire::{ExtHeaders, Opcode};

const PORT: u16 = 7176;
/// The longest time of a flood, once it has sent as many packets as a test needs ([`LEAST`]).
const LIMIT: Duration = Duration::from_secs(2);
/// The most packets of a flood.
const PACKETS: u32 = 20_000;
/// The fewest packets of a flood, however slow the machine is: more requests than can wait.
const LEAST: u32 = 4 * BACKLOG as u32;

/// The most requests that wait for a program that accepts connections with [`Listener`].
const BACKLOG: usize = 128;
/// The most requests that wait for a program that may begin to listen.
const HELD: usize = 256;
/// The most refused requests that are remembered.
const FINISHED: usize = 4096;

/// What a flood sends: a packet, or bytes that are none.
enum Sent {
    Packet(Forged),
    Bytes(Vec<u8>),
}

/// Sends for a while, as fast as the victim takes the packets: none is lost for lack of room in its
/// socket, which would be a matter of the link. `seen` returns how many packets it has seen; bytes
/// need not be seen.
fn flood(
    attacker: &Attacker<'_>,
    seen: impl Fn() -> u64,
    mut next: impl FnMut(u32) -> (Disguise, Sent),
) {
    const BURST: u64 = 128;
    let (end, before, mut sent) = (Instant::now() + LIMIT, seen(), 0);
    let arrived = |sent| wait_for("a burst arrives", || seen().saturating_sub(before) >= sent);
    for n in (0..PACKETS).take_while(|&n| n < LEAST || Instant::now() < end) {
        match next(n) {
            (disguise, Sent::Packet(packet)) => {
                attacker.send(&disguise, &packet);
                sent += 1;
                if sent % BURST == 0 {
                    arrived(sent);
                }
            }
            (disguise, Sent::Bytes(bytes)) => attacker.send_bytes(&disguise, &bytes),
        }
    }
    arrived(sent);
}

/// An address that no host has.
fn nobody(n: u32) -> IpAddr {
    Ipv4Addr::new(10, 91, 0, 100 + (n % 150) as u8).into()
}

fn seed(port: u16, n: u32) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..2].copy_from_slice(&port.to_be_bytes());
    seed[2..6].copy_from_slice(&n.to_be_bytes());
    seed
}

fn agent<R>(victim: &Victim<'_>, look: impl FnOnce(&roce_verbs::roce_cm::Agent) -> R) -> R {
    let manager = victim.context.connection_manager().expect("it runs");
    manager.with(|agent, _| look(agent))
}

/// Connects as a client of the listener, whose program refuses all others.
fn connect_honestly<'a>(near: &Victim<'a>, far: &Victim<'a>, listener: &Listener) -> [Half<'a>; 2] {
    connected_by_manager(near, far, PORT, |qp| {
        loop {
            let incoming = listener.accept_within(TIMEOUT).expect("a request");
            if incoming.peer() == near.end.address(false) {
                let accepted = incoming.accept(qp, &ConnectOptions::default(), b"");
                return accepted.expect("established");
            }
            incoming.reject(b"").expect("it waits");
        }
    })
}

/// Attacker: off the path. It sends thousands of REQs in the name of 150 hosts that do not exist,
/// to a program that listens but does not accept, and to a port at which nobody listens.
///
/// The number of pending connections is bounded, and so is that of requests that are held. When
/// the program accepts again, an honest client connects and transfers. A connection that existed
/// before transfers during the attack.
#[test]
fn a_flood_of_requests_keeps_nobody_out() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        flood_with_requests(&scene);
    }
}

fn flood_with_requests(scene: &Scene) {
    let (near, far) = (scene.near(), scene.far());
    let at = SocketAddr::new(far.end.address(false), PORT);
    let listener = far.end.enter(|| Listener::bind(&far.context, at));
    let listener = listener.expect("the port is free");
    let [before, before_far] = connect_honestly(&near, &far, &listener);
    let attacker = scene.attacker();
    let peer = scene.disguise(&before, &before_far);
    for port in [PORT, PORT + 1] {
        before.transfer_during(&before_far, 1..=u32::MAX, || {
            // Those that are not for the connection's QP.
            let seen = || {
                let of_qp = before_far.qp.status().expect("a QP").traffic.rx_packets;
                before_far.stat(Stat::RxPackets).saturating_sub(of_qp)
            };
            flood(&attacker, seen, |n| {
                let disguise = peer.with_address(nobody(n));
                let path = Path {
                    local: disguise.from,
                    remote: disguise.to,
                };
                let mad = forged_req(path, seed(port, n), port, Qpn::from_bits(2 + n));
                (disguise, Sent::Packet(Forged::mad(&mad)))
            });
        });
        // The NIC counts a packet before the connection manager reads it.
        if port == PORT {
            let refused = || before_far.cm_counters().backlog_full;
            wait_for("a request finds no room", || refused() > 0);
        }
        let (connections, held) = agent(&far, |agent| (agent.connections(), agent.held()));
        assert!(held <= HELD, "{held}");
        if port == PORT {
            // The one connection, and those that wait.
            assert_eq!(connections, 1 + BACKLOG);
        } else {
            assert!(connections <= 2 + FINISHED, "{connections}");
            assert!(held > 0, "{:?}", before_far.cm_counters());
        }
        let [after, after_far] = connect_honestly(&near, &far, &listener);
        after.transfer(&after_far, 1);
        before.transfer(&before_far, 2);
    }
}

/// Attacker: off the path. It sends packets to QPNs that nobody has, packets with a wrong ICRC, and
/// random bytes, in the peer's name and in those of others.
///
/// All are dropped and counted by reason, and a connection transfers during the attack and
/// afterwards.
#[test]
fn a_flood_of_garbage_is_counted_and_dropped() {
    for datapath in DATAPATHS {
        let Some(scene) = Scene::new_or_skip(datapath) else {
            return;
        };
        let [near, far] = connected(&scene.near(), &scene.far(), QpKind::Rc, false);
        let attacker = scene.attacker();
        let peer = scene.disguise(&near, &far);
        let to = far.qp.qpn();
        near.transfer_during(&far, 1..=u32::MAX, || {
            let mut rng = ChaCha20Rng::seed_from_u64(3);
            let seen = || far.drops(DropReason::UnknownQp);
            flood(&attacker, seen, |n| {
                let from = if n % 2 == 0 { peer.from } else { nobody(n) };
                let disguise = peer.with_address(from);
                let mut bytes = vec![0; (rng.next_u32() % 200) as usize];
                rng.fill_bytes(&mut bytes);
                let unknown = Qpn::from_bits(to.get() ^ (1 + rng.next_u32() % 0xffff));
                let send = Opcode::RC_SEND_ONLY;
                let packet = Forged::new(send, unknown, n, ExtHeaders::NONE, &bytes);
                match n % 3 {
                    0 => (disguise, Sent::Packet(packet)),
                    // A whole packet for the QP, whose ICRC is wrong.
                    1 => {
                        bytes.resize(64, 0);
                        bytes[..12].copy_from_slice(&packet.header_for(to));
                        (disguise, Sent::Bytes(bytes))
                    }
                    _ => {
                        // Half of them are for the QP, and end within their ICRC: AF_XDP's program leaves
                        // nearly all random QPNs to the kernel.
                        if n % 2 == 0 {
                            bytes.resize(15, 0);
                            bytes[..12].copy_from_slice(&packet.header_for(to));
                        }
                        (disguise, Sent::Bytes(bytes))
                    }
                }
            });
        });
        let counters = far.context.counters();
        for reason in [
            DropReason::UnknownQp,
            DropReason::BadIcrc,
            DropReason::Malformed,
        ] {
            assert!(
                counters[reason] > 10,
                "{datapath:?}, {reason:?}: {counters}"
            );
        }
        assert_eq!(counters[Stat::FatalNaksSent], 0, "{counters}");
        near.transfer(&far, 5);
        wait_for("nothing waits", || far.qp.queued() == (0, 0));
    }
}
