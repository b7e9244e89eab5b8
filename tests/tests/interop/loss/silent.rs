//! Soft-RoCE can wait for ever for an acknowledgement that it has already seen.
//!
//! While rxe repeats a message, after a timeout or a NAK, the acknowledgement of the message's last
//! packet may arrive: because the first transmission came late, or because the responder had kept
//! the packets after the gap. rxe then counts all of its packets as acknowledged (rxe_comp.c:
//! `comp.psn`), but completes the message only at the next acknowledgement. The responder sends
//! one, as it acknowledges repeated packets, too. If the network loses it, rxe's timer finds nothing
//! outstanding. So rxe neither asks again nor fails.
//!
//! The silence can be proved: the PSN that rxe sends next is the one that the responder expects
//! next, so all its packets have arrived; and in the time of many timeouts, rxe sends nothing.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::ends::{End, Options, Ours, Theirs};
use roce_tests::lab::{GUEST_IP4, HOST_IP4, Lab};
use roce_tests::peer::Operation;
use roce_verbs::device::Gid;
use roce_verbs::observation::Stat;
use roce_verbs::{Endpoint, Psn, Qpn};
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{Aeth, Bth, Credits, ExtHeaders, Opcode, Packet, PacketRepr, Syndrome, UDP_PORT};

use super::TIMEOUT;
use crate::option::set_option;

/// How long rxe must be silent: 30 timeouts.
const SILENCE: Duration = Duration::from_secs(1);

/// Whether rxe, whose completions have not come, waits in silence although `ours` has all its
/// packets.
pub(super) fn is_silent(ours: &Ours, theirs: &mut Theirs) -> bool {
    let (_, config) = ours.qp.query();
    sends_next(theirs) == config.rq_psn
        && is_quiet(|| ours.context.counters().stat(Stat::RxPackets))
}

fn sends_next(theirs: &mut Theirs) -> Psn {
    let state = theirs.peer.query_pair(&theirs.pair);
    Psn::new(state.expect("the peer tells its PSNs").sq_psn)
}

/// Whether the number of packets stays the same for [`SILENCE`].
fn is_quiet(mut packets: impl FnMut() -> u64) -> bool {
    let (before, start) = (packets(), Instant::now());
    while start.elapsed() < SILENCE {
        if packets() != before {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A responder that only acknowledges what a test says.
struct Responder(UdpSocket);

impl Responder {
    /// Connects `theirs` with a QP that does not exist.
    fn connect(lab: &Lab, theirs: &mut Theirs, options: &Options) -> Self {
        let endpoint = Endpoint {
            gid: Gid(HOST_IP4.to_ipv6_mapped().octets()),
            qpn: Qpn::from_bits(0x1234),
            psn: Psn::new(0),
        };
        let bound = lab.enter(|| UdpSocket::bind((HOST_IP4, UDP_PORT)));
        let socket = bound.expect("the namespace is there").expect("a socket");
        // Unfragmented datagrams have no identification, which the ICRC would cover.
        let never = libc::IP_PMTUDISC_DO;
        set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, never);
        theirs.connect(options, &endpoint);
        Self(socket)
    }

    /// Waits for the next packet, until `patience` has passed.
    fn next(&self, patience: Duration) -> Option<Bth> {
        let mut bytes = [0; 2048];
        self.0
            .set_read_timeout(Some(patience))
            .expect("it is not zero");
        match self.0.recv(&mut bytes) {
            Ok(length) => Some(Packet::parse(&bytes[..length]).expect("a packet").bth),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits for the packet with this PSN. Returns `false` if no packet comes for as long as `patience`.
    fn reaches(&self, psn: Psn, patience: Duration) -> bool {
        while let Some(bth) = self.next(patience) {
            if bth.psn == psn {
                return true;
            }
        }
        false
    }

    fn wait_for(&self, psn: Psn) {
        let sends = self.reaches(psn, Duration::from_secs(60));
        assert!(sends, "rxe sends PSN {psn:?}");
    }

    fn acknowledge(&self, theirs: &Theirs, psn: Psn) {
        let repr = PacketRepr {
            bth: Bth::new(Opcode::RC_ACKNOWLEDGE, theirs.endpoint().qpn, psn),
            ext: ExtHeaders {
                aeth: Some(Aeth {
                    syndrome: Syndrome::Ack(Credits::INVALID),
                    msn: 1,
                }),
                ..ExtHeaders::NONE
            },
        };
        let mut bytes = vec![0; repr.buffer_len(0)];
        repr.emit_headers(&mut bytes, 0);
        let ip = IpHeader::V4 {
            src: HOST_IP4.octets(),
            dst: GUEST_IP4.octets(),
            id: 0,
            flags_fragment: 0x4000,
        };
        icrc::seal(&ip, UDP_PORT, UDP_PORT, &mut bytes);
        let to = SocketAddr::from((GUEST_IP4, UDP_PORT));
        self.0.send_to(&bytes, to).expect("it is sent");
    }
}

/// rxe repeats a message, and the acknowledgement of its last packet arrives in the middle.
#[test]
fn soft_roce_waits_for_ever_for_an_acknowledgement_that_it_has_seen() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let options = Options {
        path_mtu: Some(1024),
        timeout: TIMEOUT,
        ..Options::default()
    };
    let mut theirs = Theirs::open(&lab, &options);
    let responder = Responder::connect(&lab, &mut theirs, &options);
    // Almost as many packets as rxe sends without an acknowledgement.
    const PACKETS: u32 = 120;
    // The guest has to take the acknowledgement on one processor while it sends on another.
    const ATTEMPTS: u32 = 1000;
    for attempt in 1..=ATTEMPTS {
        let first = sends_next(&mut theirs);
        let last = first.add(PACKETS - 1);
        theirs.post(1, Operation::Send, &[(0, PACKETS << 10)]);
        responder.wait_for(last);
        // After its timeout.
        responder.wait_for(first);
        responder.acknowledge(&theirs, last);
        // rxe goes on to the last packet, or ends the repetition early and is silent already.
        responder.reaches(last, SILENCE);
        let polled = theirs.peer.poll(&theirs.pair, 1, SILENCE / 10);
        if !polled.expect("the peer polls").is_empty() {
            continue;
        }
        let mut packets = 0;
        let silent = is_quiet(|| {
            packets += u64::from(responder.next(Duration::from_millis(1)).is_some());
            packets
        });
        let next = sends_next(&mut theirs);
        // Any other acknowledgement ends it.
        responder.acknowledge(&theirs, last);
        assert!(theirs.completion().is_success());
        if silent {
            assert_eq!(next, last.next());
            println!("silent in attempt {attempt}");
            return;
        }
    }
    panic!("in {ATTEMPTS} attempts, rxe never fell silent: is it mended? Then `is_silent` can go");
}
