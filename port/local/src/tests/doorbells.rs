//! Waking up a receiver, and processes that want to prevent it.

use super::{HERE, SOURCE, send};
use crate::doorbell::Ringer;
use crate::ring::Sender;
use crate::{LaneConfig, Lanes};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{
    AddressFamily, Shutdown, SockFlag, SockType, UnixAddr, bind, connect, shutdown, socket,
};
use roce_port::memory::{Frame, MemoryIp, MemoryPort};
use roce_port::{Layer as _, Offers as _, Port as _};
use roce_stack::{Instant, IpCovered, RxMeta};
use std::any::Any;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

/// A device to which others have lanes.
struct Device {
    lanes: Lanes,
    port: MemoryPort,
}

/// A process that has a lane to the device.
struct Process {
    ring: Sender,
    doorbell: Ringer,
    _connection: Box<dyn Any + Send>,
}

impl Device {
    fn new() -> Self {
        Self {
            lanes: Lanes::new(LaneConfig::default()).expect("lanes"),
            port: MemoryPort::new(MemoryIp::V4, 4096),
        }
    }

    fn accept(&self) -> Process {
        let (mut ring, file) = Sender::create(SOURCE).expect("a ring");
        let accepted = self.lanes.inbox().take(HERE, file);
        let (_connection, doorbell) = accepted.expect("accepted");
        let doorbell = Ringer::new(doorbell).expect("a doorbell");
        ring.note_accepted();
        Process {
            ring,
            doorbell,
            _connection,
        }
    }

    fn receive(&mut self) -> usize {
        let received = self
            .lanes
            .receive(&mut self.port, 64, &mut |_: &_, _: &[u8]| {});
        received.expect("the port is there")
    }

    /// Looks for packets at a point in time. Returns how many there were.
    fn receive_at(&mut self, now: Instant) -> usize {
        self.lanes.note_time(&mut self.port, Some(now));
        self.receive()
    }

    /// A packet arrives at the port inside.
    fn arrive(&mut self) {
        let meta = RxMeta {
            src: SOURCE,
            dst: HERE,
            src_port: 0xc000,
            traffic_class: 0,
            ip: IpCovered::V4Hidden,
        };
        self.port.arrived.push_back(Frame::new(meta, vec![0; 100]));
    }

    /// Whether the device would not sleep now.
    fn is_awake(&self) -> bool {
        let fds = self.lanes.packet_fds(&self.port);
        let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut polled: Vec<_> = fds.iter().map(|of| polled(of.fd)).collect();
        poll(&mut polled, PollTimeout::ZERO).expect("polled") > 0
    }

    /// Whether the device, which sleeps, is woken up by `wake`.
    fn wakes_up(&self, wake: impl FnOnce()) -> bool {
        assert!(!self.is_awake());
        let fds = self.lanes.packet_fds(&self.port);
        let polled = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut polled: Vec<_> = fds.iter().map(|of| polled(of.fd)).collect();
        wake();
        poll(&mut polled, PollTimeout::ZERO).expect("polled") > 0
    }
}

impl Process {
    fn send(&mut self) {
        send(&mut self.ring, 100, 1);
        if self.ring.must_wake_receiver() {
            self.doorbell.ring();
        }
    }
}

#[test]
fn a_device_that_sleeps_is_woken_up_by_each_lane() {
    let mut device = Device::new();
    let mut processes: Vec<Process> = (0..3).map(|_| device.accept()).collect();
    assert!(device.is_awake(), "lanes wait to be picked up");
    device.receive();
    for _ in 0..20 {
        for process in &mut processes {
            assert!(device.wakes_up(|| process.send()));
            assert!(device.is_awake(), "a packet waits");
            assert_eq!(device.receive(), 1);
        }
    }
    // Between packets of a device that does not sleep, nobody rings.
    processes[0].send();
    assert!(!processes[0].ring.must_wake_receiver());
    assert_eq!(device.receive(), 1);
    assert!(!device.is_awake());
    // Closing a doorbell does not ring it.
    drop(processes);
    assert!(!device.is_awake());
}

/// A new lane wakes up a thread that sleeps with the descriptors from before.
#[test]
fn a_new_lane_wakes_up_a_thread_that_sleeps_already() {
    let mut device = Device::new();
    let mut new = None;
    assert!(device.wakes_up(|| new = Some(device.accept())));
    device.receive();
    let fds = device.lanes.packet_fds(&device.port);
    let fds: Vec<OwnedFd> = fds
        .iter()
        .map(|of| of.fd.try_clone_to_owned().expect("a descriptor"))
        .collect();
    let mut newer = device.accept();
    device.receive();
    assert!(!device.is_awake());
    newer.send();
    let mut polled: Vec<_> = fds
        .iter()
        .map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
        .collect();
    assert!(poll(&mut polled, PollTimeout::ZERO).expect("polled") > 0);
}

/// A device that has lanes answers peers on other hosts as quickly as one without: a packet that comes by the
/// port waits at most a sixteenth of the time since the last one, and at most 50 us.
#[test]
fn a_lane_delays_packets_of_the_port_by_a_part_of_its_silence() {
    let mut device = Device::new();
    device.port.activate(HERE).expect("an address");
    let mut process = device.accept();
    device.receive();
    let second = 1_000_000_000;
    let mut time = second;
    let mut at = |later| {
        time += later;
        Instant::from_nanos(time)
    };
    device.arrive();
    assert_eq!(device.receive_at(at(0)), 1);
    for (silence, longest) in [
        (100, 6),
        (16_000, 1000),
        (800_000, 50_000),
        (second, 50_000),
    ] {
        // A look that finds nothing after this silence.
        assert_eq!(device.receive_at(at(silence)), 0);
        device.arrive();
        process.send();
        let early = device.receive_at(at(longest - 1));
        assert_eq!(
            early, 1,
            "the lane's packet alone, {silence} ns after the port's"
        );
        assert_eq!(device.receive_at(at(1)), 1, "after {silence} ns");
    }
}

/// What a process does with its descriptor of a doorbell.
type Attack<'a> = (&'a str, &'a dyn Fn(&Ringer));

#[test]
fn nobody_silences_the_doorbell_of_another_process() {
    let elsewhere = || {
        let none = SockFlag::empty();
        let other = socket(AddressFamily::Unix, SockType::Datagram, none, None).expect("a socket");
        let name = format!("roce-test-{}-{}", std::process::id(), other.as_raw_fd());
        let address = UnixAddr::new_abstract(name.as_bytes()).expect("a name");
        bind(other.as_raw_fd(), &address).expect("nobody has it");
        (other, address)
    };
    let attacks: [Attack<'_>; 4] = [
        ("shut down", &|doorbell| {
            shutdown(doorbell.as_fd().as_raw_fd(), Shutdown::Both).expect("shut down");
        }),
        ("connected elsewhere", &|doorbell| {
            let (_other, address) = elsewhere();
            connect(doorbell.as_fd().as_raw_fd(), &address).expect("connected");
        }),
        ("full", &|doorbell| {
            (0..1000).for_each(|_| doorbell.ring());
        }),
        ("without a send buffer", &|doorbell| {
            use nix::sys::socket::{setsockopt, sockopt};
            setsockopt(&doorbell.as_fd(), sockopt::SndBuf, &0).expect("set");
        }),
    ];
    for (attack, make) in attacks {
        let mut device = Device::new();
        let (hostile, mut honest) = (device.accept(), device.accept());
        device.receive();
        make(&hostile.doorbell);
        // What the attack itself has rung.
        for _ in 0..1000 {
            if !device.is_awake() {
                break;
            }
        }
        assert!(device.wakes_up(|| honest.send()), "{attack}");
        assert_eq!(device.receive(), 1, "{attack}");
    }
}

/// Descriptors on which a call may block, and others that are no doorbells.
#[test]
fn only_unix_datagram_sockets_are_doorbells() {
    let (_end, pipe) = std::io::pipe().expect("a pipe");
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = tcp.local_addr().expect("an address");
    let connected = TcpStream::connect(address).expect("connected");
    let stream = UnixStream::pair().expect("a pair").0;
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let full = EventFd::from_value_and_flags(u32::MAX, EfdFlags::empty()).expect("an eventfd");
    full.write(u64::MAX - 1 - u64::from(u32::MAX))
        .expect("room");
    let file = File::options()
        .write(true)
        .open("/dev/null")
        .expect("opened");
    let (_, ring) = Sender::create(SOURCE).expect("a ring");
    let others: [OwnedFd; 8] = [
        pipe.into(),
        tcp.into(),
        connected.into(),
        stream.into(),
        udp.into(),
        full.into(),
        file.into(),
        ring,
    ];
    for other in others {
        let fd = other.as_raw_fd();
        assert!(Ringer::new(other).is_none(), "descriptor {fd}");
    }
}

/// If one of these calls waited, the test would not end.
#[test]
fn nobody_waits_for_a_doorbell() {
    let ringer = |socket: UnixDatagram| Ringer::new(socket.into()).expect("a doorbell");
    let (full, _reader) = UnixDatagram::pair().expect("a pair");
    let (closed, reader) = UnixDatagram::pair().expect("a pair");
    drop(reader);
    let (shut, _other) = UnixDatagram::pair().expect("a pair");
    shut.shutdown(std::net::Shutdown::Both).expect("shut down");
    let unconnected = UnixDatagram::unbound().expect("a socket");
    for doorbell in [full, closed, shut, unconnected].map(ringer) {
        (0..1000).for_each(|_| doorbell.ring());
    }
}
