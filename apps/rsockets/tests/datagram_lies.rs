//! Lies to a socket of datagrams, over its UDP socket and over its UD QP: they cost their sender, and
//! nobody else.

use nix::sys::socket::{MsgFlags, SockaddrIn, sendto};
use roce_rsockets as rs;
use roce_rsockets::wire::{Operation, UdHeader, UdpHeader};
use roce_verbs::datagram::AddressOptions;
use roce_verbs::prelude::*;
use roce_verbs::qp::QKey;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::RawFd;
use std::time::Duration;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const KEY: QKey = QKey(0x0123_4567);
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket of datagrams that waits at most a minute.
fn socket() -> (RawFd, SocketAddr) {
    let fd = rs::datagram_socket(rs::Domain::V4).expect("a socket");
    rs::bind(fd, SocketAddr::new(HERE, 0)).expect("bound");
    rs::set_time(fd, rs::Time::Receive, Some(PATIENCE)).expect("set");
    (fd, rs::local_name(fd).expect("a name"))
}

fn send(from: RawFd, to: SocketAddr, bytes: &[u8]) {
    let sent = rs::send_to(from, &[IoSlice::new(bytes)], to, false);
    assert_eq!(sent.expect("sent"), bytes.len());
}

fn receive(fd: RawFd) -> (Vec<u8>, Option<SocketAddr>) {
    let mut bytes = vec![0; 2048];
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let received = rs::receive_from(fd, &mut slices, rs::ReceiveFlags::default());
    let received = received.expect("received");
    bytes.truncate(received.len);
    (bytes, received.from)
}

/// The sockets still exchange datagrams, and nothing else has arrived.
fn still_talk(one: (RawFd, SocketAddr), other: (RawFd, SocketAddr)) {
    for round in 0..10_u8 {
        send(one.0, other.1, &[round]);
        assert_eq!(receive(other.0), (vec![round], Some(one.1)));
        send(other.0, one.1, &[round, round]);
        assert_eq!(receive(one.0), (vec![round, round], Some(other.1)));
    }
}

/// Something that is no rsocket, with a UDP socket and a UD QP.
struct Liar {
    udp: UdpSocket,
    qp: QueuePair,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    memory: MemoryRegion,
    index: u8,
}

impl Liar {
    fn new() -> Self {
        let context = Device::with_address(HERE).expect("loopback").open();
        let context = context.expect("opened");
        let (pd, cq) = (context.alloc_pd(), context.create_cq(64));
        let options = QpOptions {
            kind: QpKind::Ud,
            ..QpOptions::default()
        };
        let qp = pd.create_qp(&cq, &cq, &options).expect("a QP");
        let index = context.gid_index(HERE).expect("an address");
        qp.activate(index, KEY).expect("ready");
        let memory = pd.allocate(4096, Access::LOCAL_WRITE).expect("memory");
        let udp = UdpSocket::bind((HERE, 0)).expect("a socket");
        udp.set_read_timeout(Some(PATIENCE)).expect("set");
        Self {
            udp,
            qp,
            cq,
            pd,
            memory,
            index,
        }
    }

    fn at(&self) -> SocketAddr {
        self.udp.local_addr().expect("a name")
    }

    /// A message of an rsocket at the liar's address.
    fn message(&self, operation: Operation, data: &[u8]) -> Vec<u8> {
        let header = UdpHeader {
            operation,
            qpn: self.qp.qpn().get(),
            address: HERE,
        };
        [&header.encode()[..], data].concat()
    }

    /// Says something true, and learns the QPN of a socket from its answer.
    fn introduce(&self, to: (RawFd, SocketAddr)) -> Qpn {
        let message = self.message(Operation::Data, b"true");
        self.udp.send_to(&message, to.1).expect("sent");
        assert_eq!(receive(to.0), (b"true".to_vec(), Some(self.at())));
        let mut bytes = [0; 100];
        let (len, from) = self.udp.recv_from(&mut bytes).expect("an answer");
        assert_eq!(from, to.1);
        assert!(len <= message.len(), "an answer does not amplify");
        let (header, rest) = UdpHeader::parse(&bytes[..len]).expect("a header");
        assert_eq!((header.operation, rest), (Operation::Control, &b""[..]));
        assert_eq!(header.address, HERE);
        Qpn::new(header.qpn).expect("a QPN")
    }

    /// Sends a packet from the QP.
    fn packet(&self, to: Qpn, payload: &[u8]) {
        self.memory.write(0, payload).expect("in range");
        let sge = self.memory.slice(0, payload.len()).expect("in range");
        let there = self
            .pd
            .create_ah(self.index, HERE.into(), &AddressOptions::default());
        let request = SendRequest::send(sge)
            .id(1)
            .to(there.expect("a path").to(to, KEY));
        self.qp.post_send(&request).expect("posted");
        let done = self.cq.poll_for(PATIENCE).expect("no overrun");
        done.expect("sent").ok().expect("sent");
    }
}

#[test]
fn messages_that_are_not_right_are_dropped_without_an_answer() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    still_talk(one, other);
    let right = liar.message(Operation::Data, b"data");
    let changed = |at: usize, value: u8| {
        let mut bytes = right.clone();
        bytes[at] = value;
        bytes
    };
    let mut lies = vec![
        Vec::new(),
        vec![0x55; 11],
        right[..15].to_vec(),
        changed(0, 0),
        changed(4, 5),
        changed(4, 6),
        changed(5, 1),
        changed(6, 28),
        // Longer than what fits.
        liar.message(Operation::Data, &[0; 2048 - 15]),
        // A control message says something and is not answered.
        liar.message(Operation::Control, b""),
        liar.message(Operation::Control, b"with data"),
    ];
    // QPs that no socket has.
    for qpn in [0, 1, 0xff_ffff] {
        let header = UdpHeader {
            operation: Operation::Control,
            qpn,
            address: HERE,
        };
        lies.push(header.encode().to_vec());
    }
    for lie in &lies {
        liar.udp.send_to(lie, one.1).expect("sent");
    }
    // The answer to this is the first, so all that came before it has been dropped.
    liar.introduce(one);
    liar.udp.set_nonblocking(true).expect("set");
    let more = liar
        .udp
        .recv_from(&mut [0; 100])
        .map_err(|error| error.kind());
    assert_eq!(more, Err(ErrorKind::WouldBlock));
    still_talk(one, other);
}

#[test]
fn a_message_redirects_nobody_but_its_sender() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    still_talk(one, other);
    // The header states the address of another, and the sender's QP.
    for address in ["10.1.2.3", "0.0.0.0", "255.255.255.255"] {
        let header = UdpHeader {
            operation: Operation::Data,
            qpn: liar.qp.qpn().get(),
            address: address.parse().expect("an address"),
        };
        liar.udp.send_to(&header.encode(), one.1).expect("sent");
        assert_eq!(receive(one.0), (Vec::new(), Some(liar.at())));
        // The answer goes to the sender of the message, whatever the header says.
        let (_, from) = liar.udp.recv_from(&mut [0; 100]).expect("an answer");
        assert_eq!(from, one.1);
    }
    still_talk(one, other);
}

/// In the name of a socket, says that its QP is the liar's: an attacker can forge the source of a
/// message.
fn forge(from: RawFd, liar: &Liar, to: SocketAddr) {
    let SocketAddr::V4(to) = to else {
        panic!("IPv4");
    };
    let message = liar.message(Operation::Data, b"forged");
    let to = SockaddrIn::from(to);
    // A datagram socket's descriptor is that of its UDP socket.
    let sent = sendto(from, &message, &to, MsgFlags::empty());
    assert_eq!(sent.expect("sent"), message.len());
}

#[test]
fn a_forged_message_redirects_nobody() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    still_talk(one, other);
    for _ in 0..3 {
        forge(other.0, &liar, one.1);
        assert_eq!(receive(one.0), (b"forged".to_vec(), Some(other.1)));
        still_talk(one, other);
    }
}

#[test]
fn a_forged_message_is_not_believed_before_the_first_datagram() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    forge(other.0, &liar, one.1);
    assert_eq!(receive(one.0), (b"forged".to_vec(), Some(other.1)));
    still_talk(one, other);
}

#[test]
fn packets_that_are_not_right_are_dropped() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    still_talk(one, other);
    let qpn = liar.introduce(one);
    let named = |source: &str| {
        let source = source.parse().expect("an address");
        UdHeader { source }.encode().to_vec()
    };
    let right = [&named(&liar.at().to_string())[..], b"right"].concat();
    for lie in [
        &[][..],
        &right[..3],
        &right[..7],
        &[5; 100],
        &[0xff; 2048],
        // Other hosts.
        &named("10.1.2.3:7"),
        &named("[::1]:7"),
        // Longer than a receive.
        &[&right[..], &[0; 2048]].concat(),
    ] {
        liar.packet(qpn, lie);
    }
    liar.packet(qpn, &right);
    assert_eq!(receive(one.0), (b"right".to_vec(), Some(liar.at())));
    still_talk(one, other);
}

#[test]
fn a_connected_socket_takes_nothing_from_strangers() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    still_talk(one, other);
    let qpn = liar.introduce(one);
    rs::connect(one.0, other.1).expect("connected");
    let named = UdHeader { source: liar.at() }.encode();
    liar.packet(qpn, &[&named[..], b"stranger"].concat());
    send(other.0, one.1, b"peer");
    assert_eq!(receive(one.0), (b"peer".to_vec(), Some(other.1)));
}

#[test]
fn the_longest_datagram_fits_a_receive_with_its_header() {
    let (one, other) = (socket(), socket());
    let header = UdpHeader {
        operation: Operation::Data,
        qpn: 1,
        address: HERE,
    };
    let longest = vec![7; 2048 - header.encode().len()];
    send(one.0, other.1, &longest);
    assert_eq!(receive(other.0), (longest.clone(), Some(one.1)));
    let longer = [&longest[..], b"!"].concat();
    let error = rs::send_to(one.0, &[IoSlice::new(&longer)], other.1, false);
    let error = error.expect_err("a byte too many");
    assert_eq!(error.errno() as i32, libc::EMSGSIZE);
}

/// The socket's receives are not used up by what it drops, and it keeps a bounded number of peers and
/// datagrams.
#[test]
fn floods_leave_a_socket_as_it_was() {
    let (one, other, liar) = (socket(), socket(), Liar::new());
    still_talk(one, other);
    let qpn = liar.introduce(one);
    for number in 0..2000_u32 {
        liar.packet(qpn, &number.to_be_bytes());
    }
    still_talk(one, other);
    let message = liar.message(Operation::Data, b"flood");
    for _ in 0..1500 {
        let stranger = UdpSocket::bind((HERE, 0)).expect("a socket");
        stranger.send_to(&message, one.1).expect("sent");
    }
    // While buffers are full, datagrams are lost. Then the socket is as before.
    while !{
        send(other.0, one.1, b"marker");
        arrives(one.0, b"marker")
    } {}
}

/// Takes what has arrived. Returns whether `expected` is part of it.
fn arrives(fd: RawFd, expected: &[u8]) -> bool {
    let dont_wait = rs::ReceiveFlags {
        dont_wait: true,
        ..rs::ReceiveFlags::default()
    };
    let mut bytes = [0; 10];
    while let Ok(len) = rs::receive(fd, &mut [IoSliceMut::new(&mut bytes)], dont_wait) {
        if &bytes[..len] == expected {
            return true;
        }
    }
    false
}
