//! Peers that lie: each costs its own connection, and nothing else.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_rsockets as rs;
use roce_rsockets::wire::{ByteOrder, ConnectData, Control, Element, Message};
use roce_verbs::cm::{Connecting, Connection};
use roce_verbs::prelude::*;
use roce_verbs::work::{Payload, SendOp};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, RawFd};
use std::time::Duration;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// A peer that uses verbs, and says what it likes.
struct Liar {
    cq: CompletionQueue,
    pd: ProtectionDomain,
    memory: MemoryRegion,
    /// The number of receives that each new QP gets.
    receives: usize,
}

impl Liar {
    fn new() -> Self {
        let context = Device::with_address(HERE).expect("loopback").open();
        let context = context.expect("opened");
        let (pd, cq) = (context.alloc_pd(), context.create_cq(64));
        let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let memory = pd.allocate(1 << 16, rights).expect("memory");
        Self {
            cq,
            pd,
            memory,
            receives: 32,
        }
    }

    /// True private data.
    fn data(&self) -> ConnectData {
        let element = |offset, len| {
            let here = self.memory.remote(offset);
            Element {
                address: here.addr,
                key: here.rkey,
                len,
            }
        };
        ConnectData {
            order: ByteOrder::NATIVE,
            credits: 16,
            mappings: Some(4),
            elements: element(0, 2),
            buffer: element(4096, 4096),
        }
    }

    fn qp(&self) -> QueuePair {
        let options = QpOptions {
            signal_all: true,
            ..QpOptions::default()
        };
        let qp = self
            .pd
            .create_qp(&self.cq, &self.cq, &options)
            .expect("a QP");
        qp.to_init(Access::REMOTE_WRITE).expect("INIT");
        post_receives(&qp, self.receives);
        qp
    }

    /// Asks a socket that listens for a connection.
    fn ask(&self, listener: RawFd, private: &[u8]) -> Connecting {
        let at = rs::local_name(listener).expect("a name");
        let options = ConnectOptions::default();
        let from = SocketAddr::new(HERE, 0);
        Connection::start(self.qp(), from, at, &options, private).expect("asked")
    }

    /// Connects with a socket that listens. Returns the connection, what the socket said, and the
    /// socket that it accepted.
    fn connect(&self, listener: RawFd, private: &[u8]) -> (Connection, ConnectData, RawFd) {
        let accepted = std::thread::spawn(move || rs::accept(listener).expect("accepted").0);
        let connection = self.ask(listener, private).wait().expect("connected");
        let fd = accepted.join().expect("no panic");
        let data = ConnectData::parse(connection.private()).expect("of an rsocket");
        (connection, data, fd)
    }

    fn tell(&self, connection: &Connection, remote: RemoteAddr, imm: u32, bytes: &[u8]) {
        let op = SendOp::WriteImm(remote, imm);
        let payload = if bytes.is_empty() {
            Payload::Elements(&[])
        } else {
            Payload::Inline(bytes)
        };
        let request = SendRequest::new(0, op, payload);
        connection.post_send(&request).expect("posted");
    }
}

fn post_receives(qp: &QueuePair, count: usize) {
    for _ in 0..count {
        let receive = RecvRequest {
            wr_id: 1,
            sges: &[],
        };
        qp.post_recv(&receive).expect("posted");
    }
}

const NOWHERE: RemoteAddr = RemoteAddr { addr: 0, rkey: 0 };

fn listening() -> (RawFd, SocketAddr) {
    let fd = rs::socket(rs::Domain::V4).expect("a socket");
    rs::bind(fd, (HERE, 0).into()).expect("bound");
    rs::listen(fd, 0).expect("listens");
    let at = rs::local_name(fd).expect("a name");
    (fd, at)
}

/// Two sockets that must not notice anything.
fn bystanders(listener: RawFd, at: SocketAddr) -> (RawFd, RawFd) {
    let client = rs::socket(rs::Domain::V4).expect("a socket");
    let accepted = std::thread::spawn(move || rs::accept(listener).expect("accepted").0);
    rs::connect(client, at).expect("connected");
    (client, accepted.join().expect("no panic"))
}

fn still_talk((one, other): (RawFd, RawFd)) {
    let mut got = [0; 5];
    assert_eq!(
        rs::send(one, &[IoSlice::new(b"hello")], false).expect("sent"),
        5
    );
    let flags = rs::ReceiveFlags {
        wait_all: true,
        ..Default::default()
    };
    rs::receive(other, &mut [IoSliceMut::new(&mut got)], flags).expect("received");
    assert_eq!(&got, b"hello");
}

fn readable_within(fd: RawFd, patience: Option<Duration>) -> usize {
    let mut polled = [rs::PollFd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }];
    rs::poll(&mut polled, patience).expect("polled")
}

/// Whether the answer to a request has arrived.
fn is_readable(pending: &Connecting) -> bool {
    let mut polled = [PollFd::new(pending.as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).expect("polled") == 1
}

/// Waits until something has happened, and checks that the non-blocking listener has no connection
/// until then.
fn nobody_connects(listener: RawFd, mut has_happened: impl FnMut() -> bool) {
    loop {
        let is_last = has_happened();
        assert_eq!(readable_within(listener, Some(Duration::ZERO)), 0);
        let errno = rs::accept(listener).expect_err("nobody's").errno();
        assert_eq!(errno as i32, libc::EAGAIN);
        if is_last {
            return;
        }
    }
}

/// The errno that the socket reports when it is ready.
fn outcome(fd: RawFd) -> Result<usize, i32> {
    assert_eq!(readable_within(fd, PATIENCE), 1);
    let mut got = [0; 8192];
    let flags = rs::ReceiveFlags::default();
    let received = rs::receive(fd, &mut [IoSliceMut::new(&mut got)], flags);
    received.map_err(|error| error.errno() as i32)
}

/// The result that the program gets in the end, after the bytes that arrived before.
fn end_of(fd: RawFd) -> Result<usize, i32> {
    loop {
        match outcome(fd) {
            Ok(1..) => {}
            end => return end,
        }
    }
}

/// A listener, and a connection of others that must not notice anything.
struct Scene {
    listener: RawFd,
    others: (RawFd, RawFd),
    liar: Liar,
}

impl Scene {
    fn new() -> Self {
        let (listener, at) = listening();
        Self {
            listener,
            others: bystanders(listener, at),
            liar: Liar::new(),
        }
    }

    fn end(self) {
        still_talk(self.others);
        for fd in [self.others.0, self.others.1, self.listener] {
            rs::close(fd).expect("closed");
        }
    }
}

#[test]
fn a_message_that_lies_ends_its_own_connection() {
    let scene = Scene::new();
    type Messages = fn(&ConnectData) -> Vec<Message>;
    let lies: [(&str, Messages); 4] = [
        ("too long", |_| vec![Message::Data((1 << 29) - 1)]),
        ("a byte too many", |theirs| {
            // Both halves of the buffer are known by then, or only the first.
            let half = theirs.buffer.len;
            vec![Message::Data(half), Message::Data(half), Message::Data(1)]
        }),
        ("too many", |theirs| {
            let count = usize::from(theirs.credits) + 1;
            vec![Message::Data(1); count]
        }),
        ("bytes after the end", |_| {
            let shutdown = Message::Control(Control::Shutdown);
            vec![shutdown, Message::Data(u32::MAX >> 3)]
        }),
    ];
    for (what, messages) in lies {
        let private = scene.liar.data().encode();
        let (connection, theirs, fd) = scene.liar.connect(scene.listener, &private);
        let before = scene.liar.cq.clone();
        for message in messages(&theirs) {
            scene.liar.tell(&connection, NOWHERE, message.encode(), &[]);
            // One at a time: the send queue is shorter than some of the lies.
            while before.wait_polling().expect("no overrun").wr_id == 1 {}
            rs::unread(fd).expect("a socket");
        }
        assert_eq!(end_of(fd), Err(libc::EPROTO), "{what}");
        rs::close(fd).expect("closed");
        still_talk(scene.others);
        drop(connection);
    }
    scene.end();
}

#[test]
fn unknown_messages_end_their_own_connection() {
    let scene = Scene::new();
    for imm in [
        0x2000_0000,
        0x4000_0000,
        0x6000_0001,
        0xa000_0000,
        0xe000_0003,
        0xffff_ffff,
    ] {
        let private = scene.liar.data().encode();
        let (connection, _, fd) = scene.liar.connect(scene.listener, &private);
        scene.liar.tell(&connection, NOWHERE, imm, &[]);
        assert_eq!(end_of(fd), Err(libc::EPROTO), "{imm:#x}");
        rs::close(fd).expect("closed");
    }
    scene.end();
}

/// The peer offers addresses outside of its memory, which refuses the socket's writes.
#[test]
fn a_false_offer_costs_the_connection_that_uses_it() {
    let scene = Scene::new();
    let mut private = scene.liar.data();
    private.buffer.address = 0x1234;
    let (_connection, _, fd) = scene.liar.connect(scene.listener, &private.encode());
    rs::send(fd, &[IoSlice::new(b"into the void")], false).expect("sent");
    assert_eq!(end_of(fd), Err(libc::EIO));
    rs::close(fd).expect("closed");

    let mut private = scene.liar.data();
    private.elements.key ^= 1;
    // The first thing that a socket writes is an offer of its own, into the list of elements.
    let (_connection, _, fd) = scene.liar.connect(scene.listener, &private.encode());
    assert_eq!(end_of(fd), Err(libc::EIO));
    rs::close(fd).expect("closed");
    scene.end();
}

#[test]
fn private_data_of_others_are_refused() {
    let scene = Scene::new();
    let mut wrong_version = scene.liar.data().encode();
    wrong_version[0] = 9;
    let mut no_elements = scene.liar.data();
    no_elements.elements.len = 0;
    rs::set_nonblocking(scene.listener, true).expect("set");
    for private in [&wrong_version[..], &no_elements.encode()[..], &[]] {
        let pending = scene.liar.ask(scene.listener, private);
        nobody_connects(scene.listener, || is_readable(&pending));
        pending.wait().expect_err("refused");
    }
    rs::set_nonblocking(scene.listener, false).expect("set");
    scene.end();
}

/// A REQ can have a forged source address, whose owner never confirms what this end answers: no
/// connection comes of it, and the program does not wake up.
#[test]
fn a_connection_counts_once_the_peer_has_confirmed_it() {
    let scene = Scene::new();
    let private = scene.liar.data().encode();
    let pending = scene.liar.ask(scene.listener, &private);
    rs::set_nonblocking(scene.listener, true).expect("set");
    // The answer has arrived, and the peer keeps silent.
    nobody_connects(scene.listener, || is_readable(&pending));
    let connection = pending.wait().expect("connected");
    assert_eq!(readable_within(scene.listener, PATIENCE), 1);
    let (fd, from) = rs::accept(scene.listener).expect("confirmed");
    assert_eq!(from.ip(), HERE);
    rs::set_nonblocking(scene.listener, false).expect("set");
    rs::close(fd).expect("closed");
    drop(connection);
    scene.end();
}

/// More requests than there is room for, of which none is ever confirmed.
#[test]
fn requests_that_nobody_confirms_keep_nobody_out() {
    const REQUESTS: usize = 300;
    let scene = Scene::new();
    let private = scene.liar.data().encode();
    rs::set_nonblocking(scene.listener, true).expect("set");
    let mut asked = Vec::new();
    for _ in 0..REQUESTS {
        let pending = scene.liar.ask(scene.listener, &private);
        nobody_connects(scene.listener, || is_readable(&pending));
        asked.push(pending);
    }
    rs::set_nonblocking(scene.listener, false).expect("set");
    let at = rs::local_name(scene.listener).expect("a name");
    still_talk(bystanders(scene.listener, at));
    scene.end();
}

/// A program may connect and accept in one thread.
#[test]
fn a_thread_accepts_a_connection_that_it_asked_for() {
    let (listener, at) = listening();
    let client = rs::socket(rs::Domain::V4).expect("a socket");
    rs::set_nonblocking(client, true).expect("set");
    let errno = rs::connect(client, at)
        .expect_err("it takes a while")
        .errno();
    assert_eq!(errno as i32, libc::EINPROGRESS);
    let (accepted, _) = rs::accept(listener).expect("accepted");
    still_talk((client, accepted));
    for fd in [client, accepted, listener] {
        rs::close(fd).expect("closed");
    }
}

#[test]
fn shutdowns_that_cross_end_the_connection() {
    let scene = Scene::new();
    for theirs in [Control::Shutdown, Control::Disconnect] {
        let private = scene.liar.data().encode();
        let (connection, _, fd) = scene.liar.connect(scene.listener, &private);
        rs::shutdown(fd, rs::Shutdown::Writes).expect("shut");
        let imm = Message::Control(theirs).encode();
        scene.liar.tell(&connection, NOWHERE, imm, &[]);
        assert_eq!(end_of(fd), Ok(0));
        if theirs == Control::Shutdown {
            let ends = Message::Control(Control::Shutdown).encode();
            loop {
                let completion = scene.liar.cq.poll_for(Duration::from_secs(20));
                let completion = completion.expect("no overrun").expect("in time");
                if completion.imm == Some(ends) {
                    break;
                }
            }
        }
        rs::close(fd).expect("closed");
        // Nothing that nobody takes any more is waited for.
        assert!(
            connection.wait_for_end(Duration::from_secs(20)),
            "{theirs:?}"
        );
    }
    scene.end();
}

/// The peer has no receives, so the socket's messages stay in its send queue. Once all places for messages
/// without data are taken, the socket's shutdown waits, and the peer's shutdown crosses it.
#[test]
fn a_shutdown_that_waits_to_be_sent_crosses_the_peers() {
    let mut scene = Scene::new();
    scene.liar.receives = 0;
    for theirs in [Control::Shutdown, Control::Disconnect] {
        let private = scene.liar.data().encode();
        let (connection, socket, fd) = scene.liar.connect(scene.listener, &private);
        let tell = |message: Message| {
            scene.liar.tell(&connection, NOWHERE, message.encode(), &[]);
        };
        // The socket offers each half of its buffer that becomes free. No offer arrives.
        let mut half = vec![0; socket.buffer.len as usize];
        for _ in 0..4 {
            tell(Message::Data(socket.buffer.len));
            let flags = rs::ReceiveFlags {
                wait_all: true,
                ..Default::default()
            };
            let received = rs::receive(fd, &mut [IoSliceMut::new(&mut half)], flags);
            assert_eq!(received.expect("received"), half.len());
        }
        rs::set_nonblocking(fd, true).expect("set");
        rs::shutdown(fd, rs::Shutdown::Writes).expect("shut");
        tell(Message::Control(theirs));
        assert_eq!(end_of(fd), Ok(0));
        post_receives(&connection, 16);
        if theirs == Control::Shutdown {
            // One message stands for both shutdowns.
            let ends = Message::Control(Control::Disconnect).encode();
            let ended = (0..1000).any(|_| {
                rs::unread(fd).expect("a socket");
                let completion = scene.liar.cq.poll_for(Duration::from_millis(20));
                let completion = completion.expect("no overrun");
                completion.is_some_and(|completion| completion.imm == Some(ends))
            });
            assert!(ended, "the socket's shutdown is lost");
        }
        rs::close(fd).expect("closed");
        // The close does not wait for a message that a disconnected peer never takes.
        assert!(
            connection.wait_for_end(Duration::from_secs(20)),
            "{theirs:?}"
        );
    }
    scene.end();
}

/// A peer that is silent is asked whether it is there.
#[test]
fn a_silent_peer_is_asked_for_a_sign_of_life() {
    let scene = Scene::new();
    rs::set_number(scene.listener, rs::Number::KeepAlive, 1).expect("set");
    rs::set_number(scene.listener, rs::Number::KeepIdle, 1).expect("set");
    let private = scene.liar.data().encode();
    let (_connection, _, fd) = scene.liar.connect(scene.listener, &private);
    assert_eq!(rs::number(fd, rs::Number::KeepIdle).expect("set"), 1);
    let asks = Message::Control(Control::KeepAlive).encode();
    let mut asked = 0;
    while asked < 2 {
        let completion = scene.liar.cq.poll_for(Duration::from_secs(60));
        let completion = completion.expect("no overrun").expect("in time");
        asked += u32::from(completion.imm == Some(asks));
    }
    rs::close(fd).expect("closed");
    scene.end();
}
