//! Two victims and an attacker at their switch.

use std::io::Read;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::lan::Lan;
use roce_verbs::datapath::DatapathChoice;
use roce_wire::{Frame, NetworkHeader, UDP_PORT};
use socket2::{Domain, Protocol, Socket, Type};

use super::attacker::{Attacker, Disguise};
use super::victim::{Half, Victim};

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// The datapaths under attack.
pub(super) const DATAPATHS: [DatapathChoice; 2] = [DatapathChoice::Udp, DatapathChoice::Xdp];

/// The hosts.
pub(super) struct Scene {
    pub(super) lan: Lan,
    datapath: DatapathChoice,
}

impl Scene {
    /// `None`, after a line on stderr, if the machine can't have one.
    pub(super) fn new_or_skip(datapath: DatapathChoice) -> Option<Self> {
        let lan = Lan::new_or_skip(1500)?;
        Some(Self { lan, datapath })
    }

    pub(super) fn near(&self) -> Victim<'_> {
        Victim::open(&self.lan.near, self.datapath)
    }

    pub(super) fn far(&self) -> Victim<'_> {
        Victim::open(&self.lan.far, self.datapath)
    }

    pub(super) fn attacker(&self) -> Attacker<'_> {
        Attacker::at(&self.lan.other)
    }

    /// Captures the frames that pass the switch from now on.
    pub(super) fn tap(&self) -> Tap {
        const EVERY_PROTOCOL: u16 = 3;
        self.lan.enter_switch(|| {
            let protocol = Protocol::from(i32::from(EVERY_PROTOCOL.to_be()));
            let socket = Socket::new(Domain::PACKET, Type::RAW, Some(protocol)).expect("root may");
            socket.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            Tap(socket)
        })
    }

    /// The disguise as `from` towards `to`: all that a packet of `from` has beyond addresses, QPN
    /// and PSN, as seen at the switch while `from` WRITEs.
    pub(super) fn disguise(&self, from: &Half<'_>, to: &Half<'_>) -> Disguise {
        self.disguise_during(from, to, || from.write(to))
    }

    /// The same for the answers that `from` sends to `to`, which WRITEs.
    pub(super) fn disguise_as_responder(&self, from: &Half<'_>, to: &Half<'_>) -> Disguise {
        self.disguise_during(from, to, || to.write(from))
    }

    fn disguise_during(&self, from: &Half<'_>, to: &Half<'_>, write: impl FnOnce()) -> Disguise {
        let mut tap = self.tap();
        write();
        let (source_port, id) = tap.find(|frame| {
            let packet = frame.packet().ok()?;
            let (src, id) = match frame.network {
                NetworkHeader::V4 { src, id, .. } => (IpAddr::from(src), id),
                NetworkHeader::V6 { src, .. } => (src.into(), 0),
                NetworkHeader::Grh(_) => return None,
            };
            let sent = src == from.at && packet.bth.dest_qpn == to.qp.qpn();
            sent.then(|| (frame.udp.map_or(0, |udp| udp.src_port), id))
        });
        Disguise::new(from.at, to.at, source_port, id)
    }
}

/// The frames that pass the switch.
pub(super) struct Tap(Socket);

impl Tap {
    /// Waits for a RoCE frame of which `find` returns something.
    pub(super) fn find<T>(&mut self, mut find: impl FnMut(&Frame<'_>) -> Option<T>) -> T {
        let (mut bytes, end) = (vec![0; 1 << 16], Instant::now() + TIMEOUT);
        loop {
            assert!(Instant::now() < end, "no such frame after {TIMEOUT:?}");
            let len = self.0.read(&mut bytes).expect("a frame");
            // ARP and others.
            let Ok(frame) = Frame::parse_ethernet(&bytes[..len]) else {
                continue;
            };
            let is_ours = frame.udp.is_some_and(|udp| udp.dst_port == UDP_PORT);
            if let Some(found) = is_ours.then(|| find(&frame)).flatten() {
                return found;
            }
        }
    }
}

/// Polls until `look` returns true.
#[track_caller]
pub(super) fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !look() {
        assert!(Instant::now() < end, "{what}: not after {TIMEOUT:?}");
        thread::yield_now();
    }
}
