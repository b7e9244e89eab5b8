//! Two victims with a connection, and an attacker at their switch.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, RangeInclusive};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use roce_tests::lan::Lan;
use roce_tests::veth::End;
use roce_verbs::datapath::{DatapathChoice, DatapathOptions};
use roce_verbs::device::RoceVersion;
use roce_verbs::observation::{DropReason, Stat};
use roce_verbs::prelude::*;
use roce_verbs::qp::{PathMtu, QpState};
use roce_verbs::roce_cm::Counters as CmCounters;
use roce_verbs::settings::OpenOptions;
use roce_wire::cm::CmMad;
use roce_wire::icrc::{self, IpHeader};
use roce_wire::{
    Bth, Deth, ExtHeaders, Frame, FrameRepr, MAD_LEN, NetworkHeader, Opcode, PacketRepr, QKey,
    Reth, UDP_PORT, UdpHeader,
};
use socket2::{Domain, Protocol, Socket, Type};

pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes that a transfer moves in each direction.
pub(super) const LEN: usize = 65536;
/// Packets of a transfer: of a WRITE and of a READ.
pub(super) const PACKETS_OF_TRANSFER: u32 = 2 * LEN as u32 / 1024;

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
        let raw = |domain| {
            // The sender provides the whole packet, from the IP header on.
            let protocol = Protocol::from(libc::IPPROTO_RAW);
            Socket::new(domain, Type::RAW, Some(protocol)).expect("root may")
        };
        self.lan.other.enter(|| Attacker {
            end: &self.lan.other,
            v4: raw(Domain::IPV4),
            v6: raw(Domain::IPV6),
        })
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
        Disguise {
            from: from.at,
            to: to.at,
            source_port,
            id: id.into(),
        }
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

/// A host that is attacked.
pub(super) struct Victim<'a> {
    pub(super) end: &'a End,
    pub(super) context: Context,
}

impl<'a> Victim<'a> {
    fn open(end: &'a End, datapath: DatapathChoice) -> Self {
        let options = DatapathOptions {
            datapath,
            ..DatapathOptions::default()
        };
        let context = end.enter(|| {
            let device = Device::with_address(end.ip4.into()).expect("its own");
            OpenOptions::new().datapath(options).open(&device)
        });
        Self {
            end,
            context: context.expect("opened"),
        }
    }

    /// A QP with memory for transfers, in a protection domain of its own.
    pub(super) fn half(&self, kind: QpKind, ipv6: bool) -> Half<'a> {
        let pd = self.context.alloc_pd();
        self.half_in(&pd, kind, ipv6)
    }

    pub(super) fn half_in(&self, pd: &ProtectionDomain, kind: QpKind, ipv6: bool) -> Half<'a> {
        self.end.enter(|| {
            let cq = self.context.create_cq(64);
            let options = QpOptions {
                kind,
                ..QpOptions::default()
            };
            let at = self.end.address(ipv6);
            let gids = self.context.gids();
            let gid = gids
                .iter()
                .find(|entry| entry.gid.ip() == at && entry.version == RoceVersion::V2);
            Half {
                end: self.end,
                context: self.context.clone(),
                at,
                gid_index: gid.expect("its address has a GID").index,
                qp: Qp::Own(pd.create_qp(&cq, &cq, &options).expect("a QP")),
                region: pd.allocate(2 * LEN, Access::all()).expect("memory"),
                pd: pd.clone(),
                cq,
            }
        })
    }
}

/// A QP, of the test or of a connection.
pub(super) enum Qp {
    Own(QueuePair),
    Of(Connection),
}

impl Deref for Qp {
    type Target = QueuePair;

    fn deref(&self) -> &QueuePair {
        match self {
            Self::Own(qp) => qp,
            Self::Of(connection) => connection,
        }
    }
}

/// One end of a connection.
pub(super) struct Half<'a> {
    pub(super) end: &'a End,
    pub(super) context: Context,
    pub(super) at: IpAddr,
    gid_index: u8,
    pub(super) pd: ProtectionDomain,
    pub(super) cq: CompletionQueue,
    pub(super) qp: Qp,
    /// A block to be sent or received, and a block that was read.
    pub(super) region: MemoryRegion,
}

/// Connects two QPs, without the connection manager.
pub(super) fn connect(near: &Half<'_>, far: &Half<'_>) {
    let options = ConnectOptions {
        path_mtu: Some(PathMtu::Mtu1024),
        ..ConnectOptions::default()
    };
    let endpoint = |half: &Half<'_>| half.end.enter(|| half.qp.endpoint(half.gid_index));
    let [of_near, of_far] = [near, far].map(|half| endpoint(half).expect("a GID"));
    for (half, remote) in [(near, of_far), (far, of_near)] {
        let connected = half
            .end
            .enter(|| half.qp.connect(half.gid_index, &remote, &options));
        connected.expect("connected");
    }
}

/// A connection of two QPs of these hosts.
pub(super) fn connected<'a>(
    near: &Victim<'a>,
    far: &Victim<'a>,
    kind: QpKind,
    ipv6: bool,
) -> [Half<'a>; 2] {
    let halves = [near, far].map(|victim| victim.half(kind, ipv6));
    connect(&halves[0], &halves[1]);
    halves
}

/// Connects a QP of `near` with one of the program that listens at `far`, which `accept` accepts.
pub(super) fn connected_by_manager<'a>(
    near: &Victim<'a>,
    far: &Victim<'a>,
    port: u16,
    accept: impl FnOnce(QueuePair) -> Connection + Send,
) -> [Half<'a>; 2] {
    let [asking, asked] = [near, far].map(|victim| victim.half(QpKind::Rc, false));
    let to = SocketAddr::new(asked.at, port);
    thread::scope(|scope| {
        let accepting = scope.spawn(|| far.end.enter(|| asked.with_connection(accept)));
        let asking = near.end.enter(|| {
            asking.with_connection(|qp| {
                let connection = Connection::connect(qp, to, &ConnectOptions::default(), b"");
                connection.expect("accepted")
            })
        });
        [asking, accepting.join().expect("accepted")]
    })
}

fn pattern(round: u32) -> Vec<u8> {
    let round = round.wrapping_mul(0x9e37_79b9);
    (0..LEN as u32)
        .map(|at| (at.wrapping_mul(31) ^ at >> 8 ^ round >> (at % 24)) as u8)
        .collect()
}

impl<'a> Half<'a> {
    /// The same with a connection of its QP.
    fn with_connection(self, connect: impl FnOnce(QueuePair) -> Connection) -> Half<'a> {
        let Qp::Own(qp) = self.qp else {
            panic!("it has a connection");
        };
        Half {
            qp: Qp::Of(connect(qp)),
            ..self
        }
    }

    pub(super) fn connection(&self) -> &Connection {
        let Qp::Of(connection) = &self.qp else {
            panic!("it has no connection");
        };
        connection
    }

    /// The counters of the connection manager.
    pub(super) fn cm_counters(&self) -> CmCounters {
        let manager = self.context.connection_manager().expect("it runs");
        manager.with(|agent, _| *agent.counters())
    }

    pub(super) fn state(&self) -> QpState {
        self.qp.query().0
    }

    pub(super) fn drops(&self, reason: DropReason) -> u64 {
        self.context.counters().drops(reason)
    }

    pub(super) fn stat(&self, stat: Stat) -> u64 {
        self.context.counters().stat(stat)
    }

    /// The PSN that it expects next, and the one that it sends next.
    pub(super) fn psns(&self) -> [u32; 2] {
        let config = self.qp.query().1;
        [config.rq_psn.get(), config.sq_psn.get()]
    }

    pub(super) fn bytes(&self, from: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.region.read(from, &mut bytes).expect("in range");
        bytes
    }

    /// Posts a request with `len` bytes of the region, or with no memory.
    pub(super) fn post(&self, op: SendOp, from: usize, len: usize) {
        let sges = [self.region.slice(from, len).expect("in range")];
        let request = SendRequest::new(1, op, &sges[..usize::from(len > 0)]);
        // The port may open a socket for it.
        let posted = self.end.enter(|| self.qp.post_send(&request));
        posted.expect("posted");
    }

    /// The status of the next completion.
    pub(super) fn status(&self) -> WcStatus {
        let done = self.end.enter(|| self.cq.poll_for(TIMEOUT));
        done.expect("no overrun").expect("completed").status
    }

    pub(super) fn perform(&self, op: SendOp, from: usize, len: usize) -> WcStatus {
        self.post(op, from, len);
        self.status()
    }

    /// WRITEs eight bytes: one packet, and one answer.
    fn write(&self, to: &Half<'_>) {
        let written = self.perform(SendOp::Write(to.region.remote(0)), 0, 8);
        assert_eq!(written, WcStatus::Success, "a small WRITE");
    }

    /// WRITEs a block to `far`, READs it, and compares both with what was sent.
    pub(super) fn transfer(&self, far: &Half<'_>, round: u32) {
        let block = pattern(round);
        self.region.write(0, &block).expect("in range");
        self.region.write(LEN, &vec![0; LEN]).expect("in range");
        let there = far.region.remote(0);
        let written = self.perform(SendOp::Write(there), 0, LEN);
        assert_eq!(written, WcStatus::Success, "WRITE, round {round}");
        let read = self.perform(SendOp::Read(there), LEN, LEN);
        assert_eq!(read, WcStatus::Success, "READ, round {round}");
        assert!(far.bytes(0, LEN) == block, "what arrived in round {round}");
        assert!(
            self.bytes(LEN, LEN) == block,
            "what was read in round {round}"
        );
    }

    /// Transfers `rounds` times and, beyond that, until `attack` ends, which runs at the same time.
    pub(super) fn transfer_during(
        &self,
        far: &Half<'_>,
        rounds: RangeInclusive<u32>,
        attack: impl FnOnce() + Send,
    ) {
        thread::scope(|scope| {
            let attack = scope.spawn(attack);
            let mut round = 0;
            while round < *rounds.start() || (!attack.is_finished() && round < *rounds.end()) {
                self.transfer(far, round);
                round += 1;
            }
        });
    }
}

/// All that a forged packet has besides what it does.
pub(super) struct Disguise {
    pub(super) from: IpAddr,
    pub(super) to: IpAddr,
    pub(super) source_port: u16,
    /// The identification of the last packet, for IPv4.
    id: AtomicU16,
}

impl Disguise {
    /// The same packets from another address.
    pub(super) fn with_address(&self, from: IpAddr) -> Self {
        Self {
            from,
            to: self.to,
            source_port: self.source_port,
            id: self.id.load(Ordering::Relaxed).into(),
        }
    }
}

/// What a forged packet does.
#[derive(Clone, Debug)]
pub(super) struct Forged {
    pub(super) bth: Bth,
    pub(super) ext: ExtHeaders,
    pub(super) payload: Vec<u8>,
    /// DSCP and ECN.
    pub(super) traffic_class: u8,
}

impl Forged {
    pub(super) fn new(opcode: Opcode, to: Qpn, psn: u32, ext: ExtHeaders, payload: &[u8]) -> Self {
        Self {
            bth: Bth::new(opcode, to, Psn::new(psn)),
            ext,
            payload: payload.to_vec(),
            // ECN-capable, as usual.
            traffic_class: 2,
        }
    }

    /// A WRITE of these bytes.
    pub(super) fn write(opcode: Opcode, to: Qpn, psn: u32, at: RemoteAddr, payload: &[u8]) -> Self {
        let reth = Reth {
            va: at.addr,
            rkey: at.rkey,
            dma_len: payload.len() as u32,
        };
        let ext = ExtHeaders {
            reth: Some(reth),
            ..ExtHeaders::NONE
        };
        Self::new(opcode, to, psn, ext, payload)
    }

    /// A message to the connection manager.
    pub(super) fn mad(mad: &[u8; MAD_LEN]) -> Self {
        // The key of QP1 (IBTA 1.7, 10.2.5).
        let deth = Deth {
            qkey: QKey(0x8001_0000),
            src_qpn: Qpn::QP1,
        };
        let ext = ExtHeaders {
            deth: Some(deth),
            ..ExtHeaders::NONE
        };
        Self::new(Opcode::UD_SEND_ONLY, Qpn::QP1, 0, ext, mad)
    }

    /// The BTH, for another QP.
    pub(super) fn header_for(&self, to: Qpn) -> [u8; Bth::LEN] {
        let bth = Bth {
            dest_qpn: to,
            ..self.bth
        };
        let mut bytes = [0; Bth::LEN];
        bth.emit(&mut bytes);
        bytes
    }

    /// The bytes from the BTH to the ICRC, which is not computed yet.
    fn transport(&self) -> Vec<u8> {
        let repr = PacketRepr {
            bth: self.bth,
            ext: self.ext,
        };
        let mut bytes = vec![0; repr.buffer_len(self.payload.len())];
        let at = repr.emit_headers(&mut bytes, self.payload.len());
        bytes[at..][..self.payload.len()].copy_from_slice(&self.payload);
        bytes
    }
}

/// The message of communication management in a frame.
pub(super) fn mad_of<T>(
    frame: &Frame<'_>,
    find: impl FnOnce(&CmMad<'_>) -> Option<T>,
) -> Option<T> {
    let packet = frame.packet().ok()?;
    let mad = CmMad::parse(packet.payload).ok();
    find(&mad.filter(|_| packet.bth.dest_qpn == Qpn::QP1)?)
}

/// A host that may send anything.
pub(super) struct Attacker<'a> {
    end: &'a End,
    v4: Socket,
    v6: Socket,
}

/// The number of packets after which a flood waits until the victim has seen them.
const BURST: u64 = 128;

impl Attacker<'_> {
    /// Its own address.
    pub(super) fn address(&self, ipv6: bool) -> IpAddr {
        self.end.address(ipv6)
    }

    /// Sends a packet with a correct ICRC.
    pub(super) fn send(&self, disguise: &Disguise, forged: &Forged) {
        let (from, to) = (disguise.from, disguise.to);
        let id = disguise.id.fetch_add(1, Ordering::Relaxed);
        // The kernel would replace 0.
        let id = id.wrapping_add(1).max(1);
        let mut transport = forged.transport();
        let (network, covered) = match (from, to) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                let (src, dst, flags_fragment) = (src.octets(), dst.octets(), 0x4000);
                let network = NetworkHeader::V4 {
                    src,
                    dst,
                    tos: forged.traffic_class,
                    ttl: 64,
                    id,
                    flags_fragment,
                    options: &[],
                };
                let covered = IpHeader::V4 {
                    src,
                    dst,
                    id,
                    flags_fragment,
                };
                (network, covered)
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let (src, dst) = (src.octets(), dst.octets());
                let network = NetworkHeader::V6 {
                    src,
                    dst,
                    traffic_class: forged.traffic_class,
                    flow_label: 0,
                    hop_limit: 64,
                };
                (network, IpHeader::V6 { src, dst })
            }
            _ => panic!("{from} and {to} are of different families"),
        };
        icrc::seal(&covered, disguise.source_port, UDP_PORT, &mut transport);
        self.emit(to, network, disguise.source_port, &transport);
    }

    /// Sends these bytes to the RoCE port, whatever they are.
    pub(super) fn send_bytes(&self, disguise: &Disguise, bytes: &[u8]) {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (disguise.from, disguise.to) else {
            panic!("over IPv4 only");
        };
        let network = NetworkHeader::V4 {
            src: src.octets(),
            dst: dst.octets(),
            tos: 2,
            ttl: 64,
            id: 1,
            flags_fragment: 0x4000,
            options: &[],
        };
        self.emit(disguise.to, network, disguise.source_port, bytes);
    }

    fn emit(&self, to: IpAddr, network: NetworkHeader<'_>, src_port: u16, transport: &[u8]) {
        let mut frame = FrameRepr {
            link: None,
            network,
            udp: Some(UdpHeader {
                src_port,
                dst_port: UDP_PORT,
                checksum: 0,
            }),
        };
        let checksum = frame.udp_checksum(transport).expect("it has UDP");
        frame.udp = frame.udp.map(|udp| UdpHeader { checksum, ..udp });
        let mut bytes = vec![0; frame.buffer_len(transport.len())];
        frame.emit(&mut bytes, transport);
        let socket = if to.is_ipv4() { &self.v4 } else { &self.v6 };
        let end = Instant::now() + TIMEOUT;
        // Its own queue may be full for a moment.
        while let Err(error) = socket.send_to(&bytes, &SocketAddr::new(to, 0).into()) {
            let full = error.raw_os_error() == Some(libc::ENOBUFS);
            assert!(full && Instant::now() < end, "{to}: {error}");
            thread::yield_now();
        }
    }

    /// Sends the packets no faster than the victim takes them. `seen` returns how many it has seen.
    pub(super) fn flood(
        &self,
        disguise: &Disguise,
        packets: impl IntoIterator<Item = Forged>,
        seen: impl Fn() -> u64,
    ) {
        let (before, mut sent) = (seen(), 0);
        for packet in packets {
            self.send(disguise, &packet);
            sent += 1;
            if sent % BURST == 0 {
                wait_for("a burst arrives", || seen() - before >= sent);
            }
        }
        wait_for("the last burst arrives", || seen() - before >= sent);
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
