//! Hosts that break the protocol cost their own connections and nothing else.

use super::Rig;
use super::raw::{Raw, keyed, refusal, request};
use roce_nvme::host::Host;
use roce_nvme::target::TargetOptions;
use roce_nvme::wire::io::{self, Blocks};
use roce_nvme::wire::{KeyedSgl, Refusal, RequestPrivate, Sgl, Status, admin};
use roce_verbs::roce_cm::{ConnectRequest, Event, Path, PortSpace, ServiceId};
use roce_verbs::{ConnectOptions, Device, QpOptions, Qpn, RemoteAddr};
use std::time::Duration;

/// An honest host, which must not notice the others.
struct Honest(Host);

impl Honest {
    fn new(rig: &Rig) -> Self {
        Self(rig.host(1))
    }

    fn works(&mut self) {
        for disk in self.0.namespaces().to_vec() {
            let queue = &mut self.0.queues()[0];
            let buffer = queue.allocate(1 << 20).expect("memory");
            queue.write(&disk, 0, &buffer, 0..1 << 20).expect("posted");
            queue.drain().expect("written");
            queue.read(&disk, 0, &buffer, 0..1 << 20).expect("posted");
            queue.drain().expect("read");
        }
    }
}

/// Waits until only the honest host's connections are left.
fn until_alone(rig: &Rig) {
    rig.until("alone", |s| {
        (s.connections, s.half_open, s.controllers, s.queues) == (2, 0, 1, 1)
    });
}

fn blocks(namespace: u32, first: u64, count: u32) -> Blocks {
    Blocks {
        namespace,
        first,
        count,
    }
}

#[test]
fn capsules_of_impossible_lengths_end_their_connection() {
    let rig = Rig::start();
    let mut honest = Honest::new(&rig);
    for len in [0, 1, 63, 64 + 8193] {
        let raw = Raw::connect(rig.at, &request(0).encode(), 8).expect("connected");
        raw.send(&vec![0; len]);
        assert_eq!(raw.response(), None, "{len}");
        honest.works();
    }
    until_alone(&rig);
    let failures = rig.target().take_failures();
    assert_eq!(failures.len(), 4, "{failures:?}");
}

#[test]
fn commands_before_connect_are_refused() {
    let rig = Rig::start();
    let raw = Raw::connect(rig.at, &request(0).encode(), 8).expect("connected");
    for command in [admin::keep_alive(), io::flush(1)] {
        raw.send(command.with_id(5).bytes());
        let response = raw.response().expect("answered");
        let refused = Status::COMMAND_SEQUENCE_ERROR.do_not_retry();
        assert_eq!((response.command_id, response.status), (5, refused));
    }
    let (io, _controller) = Raw::admin(rig.at);
    let data = io.establish(0, roce_nvme::wire::fabrics::ANY_CONTROLLER);
    assert_eq!(
        data.status,
        Status::COMMAND_SEQUENCE_ERROR.do_not_retry(),
        "twice"
    );
}

#[test]
fn a_wrong_key_ends_its_connection() {
    let rig = Rig::start();
    let mut honest = Honest::new(&rig);
    let wrong = Sgl::Keyed(KeyedSgl {
        remote: RemoteAddr {
            addr: 0x1000,
            rkey: 0xdead_beef,
        },
        len: 65_536,
        invalidate: true,
    });
    for number in [1, 2] {
        for command in [
            io::read(&blocks(number, 0, 128)),
            io::write(&blocks(number, 0, 128), false),
        ] {
            let (admin, controller) = Raw::admin(rig.at);
            let first = Raw::io(rig.at, 1, controller);
            let second = Raw::io(rig.at, 2, controller);
            first.send(command.with_sgl(&wrong).bytes());
            assert_eq!(first.response(), None);
            second.send(command.with_sgl(&keyed(&second.closed, 65_536)).bytes());
            assert_eq!(second.response(), None);
            // The controller is there.
            admin.send(admin::keep_alive().bytes());
            assert_eq!(admin.response().expect("answered").status, Status::SUCCESS);
            honest.works();
        }
    }
    until_alone(&rig);
    // Connect data behind a wrong key.
    let raw = Raw::connect(rig.at, &request(0).encode(), 8).expect("connected");
    let connect = roce_nvme::wire::fabrics::Connect {
        queue: 0,
        length: 31,
        keep_alive_ms: 0,
    };
    raw.send(
        connect
            .command()
            .with_sgl(&keyed(&raw.closed, 1024))
            .bytes(),
    );
    assert_eq!(raw.response(), None);
    honest.works();
    until_alone(&rig);
}

#[test]
fn hostile_numbers_are_answered_with_an_error() {
    let rig = Rig::start();
    let (_admin, controller) = Raw::admin(rig.at);
    let raw = Raw::io(rig.at, 1, controller);
    let memory = |len| keyed(&raw.open, len);
    let in_capsule = |offset, len| Sgl::InCapsule { offset, len };
    let read = |first, count| io::read(&blocks(1, first, count));
    let write = io::write(&blocks(1, 0, 1), false);
    for (command, status) in [
        (
            read(u64::MAX, 8).with_sgl(&memory(4096)),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            read(1 << 55, 1).with_sgl(&memory(512)),
            Status::LBA_OUT_OF_RANGE,
        ),
        (
            read(0, 8).with_sgl(&memory(512)),
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (
            read(0, 1).with_sgl(&memory(4096)),
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        (read(0, 65_536).with_sgl(&memory(0)), Status::INVALID_FIELD),
        (
            write.with_sgl(&in_capsule(0, 512)),
            Status::SGL_OFFSET_INVALID,
        ),
        (
            write.with_sgl(&in_capsule(u64::MAX, 512)),
            Status::SGL_OFFSET_INVALID,
        ),
    ] {
        raw.send(command.bytes());
        let response = raw.response().expect("answered");
        assert_eq!(
            response.status,
            status.do_not_retry(),
            "{}",
            response.status
        );
    }
    raw.send(read(0, 8).with_sgl(&memory(4096)).bytes());
    assert_eq!(raw.response().expect("answered").status, Status::SUCCESS);
}

/// A host that floods its queue and takes no responses stops itself.
#[test]
fn more_commands_than_the_queue_has_entries_stop_their_host() {
    let rig = Rig::start();
    let mut honest = Honest::new(&rig);
    let (admin, controller) = Raw::admin(rig.at);
    let flood = Raw::connect(rig.at, &request(1).encode(), 1).expect("connected");
    assert_eq!(flood.establish(1, controller).status, Status::SUCCESS);
    // One more response can be received, and none of the others.
    let read = io::read(&blocks(1, 0, 2048)).with_sgl(&keyed(&flood.open, 1 << 20));
    flood.send_many(&read, 200);
    honest.works();
    admin.send(admin::keep_alive().bytes());
    assert_eq!(admin.response().expect("answered").status, Status::SUCCESS);
    drop((flood, admin));
    until_alone(&rig);
    honest.works();
}

#[test]
fn impossible_queues_are_refused_with_the_reason() {
    let rig = Rig::start();
    let good = request(1);
    for (request, reason) in [
        (RequestPrivate { queue: 65, ..good }, Refusal::INVALID_QUEUE),
        (
            RequestPrivate {
                queue: u16::MAX,
                ..good
            },
            Refusal::INVALID_QUEUE,
        ),
        (
            RequestPrivate {
                host_send_len: u16::MAX,
                ..good
            },
            Refusal::INVALID_SEND_LEN,
        ),
        (
            RequestPrivate {
                host_receive_len: 0,
                ..good
            },
            Refusal::INVALID_RECEIVE_LEN,
        ),
        (
            RequestPrivate {
                controller: 77,
                ..good
            },
            Refusal::INVALID_CONTROLLER,
        ),
    ] {
        let connected = Raw::connect(rig.at, &request.encode(), 8);
        assert_eq!(refusal(connected), reason, "{request:?}");
    }
    let connected = Raw::connect(rig.at, &[0xff; 56], 8);
    assert_eq!(refusal(connected), Refusal::INVALID_FORMAT);
    rig.until_all_is_free();
    assert_eq!(rig.target().snapshot().refused, 6);
}

#[test]
fn a_connection_without_a_connect_command_ends() {
    let rig = Rig::with(TargetOptions {
        connect_within: Duration::from_millis(300),
        ..TargetOptions::default()
    });
    let mut honest = Honest::new(&rig);
    let raw = Raw::connect(rig.at, &request(0).encode(), 8).expect("connected");
    assert_eq!(raw.response(), None);
    until_alone(&rig);
    honest.works();
    let failures = rig.target().take_failures();
    let late = |why: &String| why.contains("no connect command within 300ms");
    assert!(failures.iter().any(late), "{failures:?}");
}

/// The target reads a host's memory.
#[test]
fn a_host_that_permits_no_reads_is_refused() {
    let rig = Rig::start();
    let options = ConnectOptions {
        max_dest_rd_atomic: 0,
        ..ConnectOptions::default()
    };
    let connected = Raw::connect_with(rig.at, &options, &request(0).encode(), 8);
    assert_eq!(refusal(connected), Refusal::INVALID_IRD);
}

#[test]
fn the_response_invalidates_the_key_that_the_command_names() {
    let rig = Rig::start();
    let (_admin, controller) = Raw::admin(rig.at);
    let raw = Raw::io(rig.at, 1, controller);
    for command in [
        io::read(&blocks(1, 0, 128)),
        io::write(&blocks(1, 0, 128), false),
        io::write(&blocks(2, 0, 128), false),
        // This one fails.
        io::read(&blocks(1, u64::MAX, 128)),
    ] {
        let window = raw.window(65_536);
        let sgl = Sgl::Keyed(KeyedSgl {
            remote: window,
            len: 65_536,
            invalidate: true,
        });
        raw.send(command.with_sgl(&sgl).bytes());
        raw.response().expect("answered");
        assert_eq!(raw.invalidated(), Some(window.rkey));
    }
}

#[test]
fn connections_are_bounded() {
    let rig = Rig::with(TargetOptions {
        connections: 4,
        half_open: 2,
        ..TargetOptions::default()
    });
    let connect = || Raw::connect(rig.at, &request(0).encode(), 8);
    // The third takes the place of the first.
    let half_open = [(); 3].map(|()| connect().expect("connected"));
    assert_eq!(half_open[0].response(), None);
    rig.until("two", |s| (s.connections, s.half_open) == (2, 2));
    drop(half_open);
    rig.until_all_is_free();
    let mut honest = Honest::new(&rig);
    let others = [Raw::admin(rig.at), Raw::admin(rig.at)];
    assert_eq!(refusal(connect()), Refusal::NO_RESOURCES, "there are four");
    honest.works();
    drop(others);
    until_alone(&rig);
    Raw::admin(rig.at);
}

/// Requests in the name of hosts that never confirm the connection, as if their addresses were
/// forged.
#[test]
fn forged_requests_keep_nobody_out() {
    let rig = Rig::start();
    let limit = TargetOptions::default().half_open;
    let forger = Device::with_address(rig.at.ip()).and_then(|device| device.open());
    let forger = forger.expect("a device");
    let manager = forger.connection_manager().expect("it starts");
    manager.activate(rig.at.ip()).expect("an address");
    let (pd, cq) = (forger.alloc_pd(), forger.create_cq(1));
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
    let service = ServiceId::ip(PortSpace::Tcp, rig.at.port());
    let of_qp = qp.connect_request(service, &ConnectOptions::default());
    let of_qp = of_qp.expect("a request");
    let path = Path {
        local: rig.at.ip(),
        remote: rig.at.ip(),
    };
    let (sender, replies) = std::sync::mpsc::channel();
    manager.set_sink(Box::new(move |event| {
        let _ = sender.send(matches!(event, Event::Replied { .. }));
    }));
    for number in 1..=limit as u32 {
        let request = ConnectRequest {
            qpn: Qpn::from_bits(of_qp.qpn.get() ^ number),
            private: request(0).encode().to_vec(),
            ..of_qp.clone()
        };
        let connect = manager.with(|agent, now| agent.connect(now, path, &request));
        connect.expect("it is sent");
        assert_eq!(replies.recv_timeout(super::PATIENCE), Ok(true), "{number}");
    }
    rig.until("full", |s| s.half_open == limit);
    Honest::new(&rig).works();
    let failures = rig.target().take_failures();
    let evicted = |why: &String| why.contains("made room for another request");
    assert!(failures.iter().any(evicted), "{failures:?}");
    manager.with(|agent, now| while !agent.forget_some(now, 64) {});
    rig.until_all_is_free();
}
