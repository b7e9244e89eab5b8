//! Hosts that keep to the protocol, and hosts that do not, against sessions without I/O.

use super::{Action, Answer, Controllers, Data, Extent, Limits, Offer, Over, Session, Shape};
use crate::wire::admin::{self, Identify};
use crate::wire::discovery::{self, DISCOVERY_NQN, DiscoveryEntry};
use crate::wire::fabrics::{self, ANY_CONTROLLER, CONNECT_DATA_LEN, Connect, ConnectData};
use crate::wire::identify::{self, IDENTIFY_LEN, parse_list};
use crate::wire::io::{self, Blocks};
use crate::wire::{
    Capabilities, Command, Configuration, ControllerStatus, HostId, KeyedSgl, Nqn, Property,
    Refusal, RequestPrivate, Sgl, Status,
};
use roce_verbs::RemoteAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SUBSYSTEM: &str = "nqn.2014-08.org.nvmexpress:disk1";
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Blocks of namespace 1. Namespace 2 is read-only and has the most that there can be.
const BLOCKS: u64 = 4096;

/// The hosts' side of a few sessions.
struct Rig {
    controllers: Arc<Controllers>,
    now: Instant,
}

impl Rig {
    fn new() -> Self {
        let shape = |blocks, number, read_only| Shape {
            blocks,
            guid: [number; 16],
            read_only,
        };
        let offer = Offer {
            subsystem: name(SUBSYSTEM),
            serial: "S1".to_owned(),
            namespaces: vec![
                shape(BLOCKS, 1, false),
                shape(i64::MAX as u64 / 512, 2, true),
            ],
            volatile_cache: true,
            address: "10.0.0.1:4420".parse().expect("an address"),
            limits: Limits {
                queues: 4,
                ..Limits::default()
            },
        };
        Self {
            controllers: Arc::new(Controllers::new(offer)),
            now: Instant::now(),
        }
    }

    fn session(&self, queue: u16) -> Session {
        let request = RequestPrivate {
            queue,
            host_receive_len: 32,
            host_send_len: 31,
            controller: 0,
        };
        Session::new(&self.controllers, &request).expect("a good request")
    }

    /// A session with an enabled controller of `subsystem`.
    fn admin(&self, subsystem: &str) -> (Session, u16) {
        let mut session = self.session(0);
        let controller = self.connect(&mut session, &data(subsystem, ANY_CONTROLLER));
        let controller = succeeded(controller) as u16;
        let enable = Configuration::ENABLED.0.into();
        let enable = fabrics::property_set(Property::Configuration, enable);
        succeeded(self.answer(&mut session, enable, &[]));
        (session, controller)
    }

    /// A session that is queue 1 of a new controller, and the controller's.
    fn io(&self) -> (Session, Session) {
        let (admin, controller) = self.admin(SUBSYSTEM);
        let mut session = self.session(1);
        succeeded(self.connect(&mut session, &data(SUBSYSTEM, controller)));
        (session, admin)
    }

    /// Connects with the data in the capsule.
    fn connect(&self, session: &mut Session, data: &ConnectData) -> Answer {
        self.connect_bytes(session, connect(session.number()), &data.encode())
    }

    fn connect_bytes(&self, session: &mut Session, connect: Connect, data: &[u8]) -> Answer {
        let len = data.len() as u32;
        let command = connect
            .command()
            .with_sgl(&Sgl::InCapsule { offset: 0, len });
        self.answer(session, command, data)
    }

    fn act(&self, session: &mut Session, command: Command, data: &[u8]) -> Action {
        let capsule = [command.with_id(7).bytes(), data].concat();
        let step = session.handle(&capsule, self.now).expect("it goes on");
        assert_eq!(step.command, 7);
        step.action
    }

    fn answer(&self, session: &mut Session, command: Command, data: &[u8]) -> Answer {
        match self.act(session, command, data) {
            Action::Answer(answer) => answer,
            action => panic!("{action:?} is no answer"),
        }
    }

    fn refuses(&self, session: &mut Session, command: Command, status: Status) {
        let answer = self.answer(session, command, &[]);
        assert_eq!(answer.status, status.do_not_retry(), "{}", answer.status);
    }
}

fn name(text: &str) -> Nqn {
    text.parse().expect("a name")
}

fn connect(queue: u16) -> Connect {
    Connect {
        queue,
        length: 31,
        keep_alive_ms: KEEP_ALIVE.as_millis() as u32,
    }
}

fn data(subsystem: &str, controller: u16) -> ConnectData {
    ConnectData {
        host_id: HostId([1; 16]),
        controller,
        subsystem: name(subsystem),
        host: name("nqn.2014-08.org.nvmexpress:uuid:host"),
    }
}

fn keyed(len: u32) -> KeyedSgl {
    KeyedSgl {
        remote: RemoteAddr {
            addr: 0x1000,
            rkey: 9,
        },
        len,
        invalidate: true,
    }
}

fn at_host(command: Command, len: u32) -> Command {
    command.with_sgl(&Sgl::Keyed(keyed(len)))
}

fn blocks(namespace: u32, first: u64, count: u32) -> Blocks {
    Blocks {
        namespace,
        first,
        count,
    }
}

fn succeeded(answer: Answer) -> u64 {
    assert_eq!(answer.status, Status::SUCCESS, "{}", answer.status);
    answer.result
}

/// What a command puts into the host's memory.
fn returned(action: Action) -> Vec<u8> {
    match action {
        Action::Return { bytes, to } => {
            assert_eq!(bytes.len(), to.len as usize);
            bytes
        }
        action => panic!("{action:?} returns nothing"),
    }
}

fn structure(action: Action) -> [u8; IDENTIFY_LEN] {
    returned(action).try_into().expect("4096 bytes")
}

#[test]
fn a_host_connects_and_learns_what_there_is() {
    let rig = Rig::new();
    let (mut admin, controller) = rig.admin(SUBSYSTEM);
    let get = |property| fabrics::property_get(property);
    let caps = succeeded(rig.answer(&mut admin, get(Property::Capabilities), &[]));
    assert_eq!(Capabilities(caps).max_queue_entries(), 128);
    let status = succeeded(rig.answer(&mut admin, get(Property::Status), &[]));
    assert_eq!(ControllerStatus(status as u32), ControllerStatus::READY);

    let ask = |structure, namespace| at_host(admin::identify(structure, namespace), 4096);
    let found = structure(rig.act(&mut admin, ask(Identify::Controller, 0), &[]));
    let found = identify::Controller::parse(&found);
    assert_eq!((found.id, found.namespaces), (controller, 2));
    assert_eq!(
        (found.in_capsule_len(), found.max_transfer()),
        (8192, Some(1 << 20))
    );
    assert!(found.volatile_cache && found.keyed_sgl && !found.is_discovery);
    let list = structure(rig.act(&mut admin, ask(Identify::ActiveNamespaces, 0), &[]));
    assert_eq!(parse_list(&list), [1, 2]);
    let list = structure(rig.act(&mut admin, ask(Identify::ActiveNamespaces, u32::MAX), &[]));
    assert_eq!(parse_list(&list), [0; 0]);
    let first = structure(rig.act(&mut admin, ask(Identify::Namespace, 1), &[]));
    let second = structure(rig.act(&mut admin, ask(Identify::Namespace, 2), &[]));
    assert_eq!(
        (first[99], second[99]),
        (0, 1),
        "only the second is write protected"
    );
    assert_eq!(identify::Namespace::parse(&first).blocks, BLOCKS);
    assert_eq!(identify::Namespace::parse(&first).block_len(), Some(512));

    let most = admin::set_feature(admin::NUMBER_OF_QUEUES, 15 | 15 << 16);
    assert_eq!(succeeded(rig.answer(&mut admin, most, &[])), 3 | 3 << 16);
    assert_eq!(rig.controllers.count(), (1, 0));
}

#[test]
fn connect_data_at_the_host_are_fetched_first() {
    let rig = Rig::new();
    let mut session = rig.session(0);
    let command = at_host(connect(0).command(), CONNECT_DATA_LEN as u32);
    let asked = rig.act(&mut session, command, &[]);
    assert_eq!(asked, Action::Fetch(keyed(CONNECT_DATA_LEN as u32)));
    // One at a time.
    rig.refuses(&mut session, command, Status::COMMAND_SEQUENCE_ERROR);
    assert!(!session.is_connected());
    let data = data(SUBSYSTEM, ANY_CONTROLLER).encode();
    let answer = session.fetched(&data, rig.now);
    assert_eq!(answer, Action::Answer(Answer::success(1)));
    assert!(session.is_connected());
    // Nothing was asked for any more.
    let again = session.fetched(&data, rig.now);
    assert_eq!(again, Action::Answer(Status::INTERNAL_ERROR.into()));
}

#[test]
fn requests_for_impossible_queues_are_refused() {
    let rig = Rig::new();
    let good = RequestPrivate {
        queue: 1,
        host_receive_len: 128,
        host_send_len: 127,
        controller: 0,
    };
    let refusal = |request: RequestPrivate| Session::new(&rig.controllers, &request).err();
    assert_eq!(refusal(good), None);
    assert_eq!(refusal(RequestPrivate { queue: 4, ..good }), None);
    for (request, reason) in [
        (RequestPrivate { queue: 5, ..good }, Refusal::INVALID_QUEUE),
        (
            RequestPrivate {
                queue: u16::MAX,
                ..good
            },
            Refusal::INVALID_QUEUE,
        ),
        (
            RequestPrivate {
                host_send_len: 128,
                ..good
            },
            Refusal::INVALID_SEND_LEN,
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
                controller: 1,
                ..good
            },
            Refusal::INVALID_CONTROLLER,
        ),
    ] {
        assert_eq!(refusal(request), Some(reason), "{request:?}");
    }
}

#[test]
fn wrong_connect_commands_are_refused() {
    let rig = Rig::new();
    let good = data(SUBSYSTEM, ANY_CONTROLLER);
    let wrong = |result: u64, connect: Connect, data: &[u8]| {
        let mut session = rig.session(0);
        let answer = rig.connect_bytes(&mut session, connect, data);
        assert_eq!(
            answer.status,
            Status::CONNECT_INVALID_PARAMETERS.do_not_retry()
        );
        assert_eq!(answer.result, result, "the field that is wrong");
        assert!(!session.is_connected());
    };
    wrong(42, connect(1), &good.encode());
    wrong(
        44,
        Connect {
            length: 0,
            ..connect(0)
        },
        &good.encode(),
    );
    wrong(
        44,
        Connect {
            length: 32,
            ..connect(0)
        },
        &good.encode(),
    );
    wrong(
        44,
        Connect {
            length: u16::MAX,
            ..connect(0)
        },
        &good.encode(),
    );
    const IN_DATA: u64 = 1 << 16;
    let other = data("nqn.2014-08.org.nvmexpress:disk2", ANY_CONTROLLER);
    wrong(256 | IN_DATA, connect(0), &other.encode());
    wrong(16 | IN_DATA, connect(0), &data(SUBSYSTEM, 1).encode());
    // Names that are none.
    let mut bytes = good.encode();
    bytes[256..512].fill(0xff);
    wrong(256 | IN_DATA, connect(0), &bytes);
    let mut bytes = good.encode();
    bytes[512] = b'x';
    wrong(256 | IN_DATA, connect(0), &bytes);

    let mut session = rig.session(0);
    let answer = rig.connect_bytes(&mut session, connect(0), &[0; CONNECT_DATA_LEN - 1]);
    assert_eq!(
        answer.status,
        Status::DATA_SGL_LENGTH_INVALID.do_not_retry()
    );
    let sgl = Sgl::InCapsule {
        offset: 1,
        len: CONNECT_DATA_LEN as u32,
    };
    let answer = rig.answer(
        &mut session,
        connect(0).command().with_sgl(&sgl),
        &good.encode(),
    );
    assert_eq!(answer.status, Status::SGL_OFFSET_INVALID.do_not_retry());
    assert_eq!(rig.controllers.count(), (0, 0));
}

#[test]
fn io_queues_belong_to_a_controller_of_the_same_host() {
    let rig = Rig::new();
    let (mut admin, controller) = rig.admin(SUBSYSTEM);
    let two = admin::set_feature(admin::NUMBER_OF_QUEUES, 1 | 1 << 16);
    succeeded(rig.answer(&mut admin, two, &[]));
    let good = data(SUBSYSTEM, controller);
    let status = |queue: u16, data: &ConnectData| {
        let mut session = rig.session(queue);
        let answer = rig.connect(&mut session, data);
        (answer.status, session)
    };
    let invalid = Status::CONNECT_INVALID_PARAMETERS.do_not_retry();
    let absent = data(SUBSYSTEM, controller + 1);
    assert_eq!(status(1, &absent).0, invalid, "no such controller");
    assert_eq!(status(3, &good).0, invalid, "two were granted");
    let stranger = ConnectData {
        host_id: HostId([2; 16]),
        ..good.clone()
    };
    assert_eq!(status(1, &stranger).0, invalid, "another host");
    let (connected, first) = status(1, &good);
    assert_eq!(connected, Status::SUCCESS);
    assert_eq!(
        status(1, &good).0,
        Status::CONNECT_CONTROLLER_BUSY,
        "it exists"
    );
    drop(first);
    assert_eq!(status(1, &good).0, Status::SUCCESS, "it has gone");

    let (_discovery, controller) = rig.admin(DISCOVERY_NQN);
    let of_discovery = data(DISCOVERY_NQN, controller);
    assert_eq!(status(1, &of_discovery).0, invalid);
}

#[test]
fn commands_out_of_order_are_refused() {
    let rig = Rig::new();
    let mut session = rig.session(0);
    for early in [
        admin::keep_alive(),
        io::flush(1),
        fabrics::property_get(Property::Status),
    ] {
        rig.refuses(&mut session, early, Status::COMMAND_SEQUENCE_ERROR);
    }
    let good = data(SUBSYSTEM, ANY_CONTROLLER);
    let controller = succeeded(rig.connect(&mut session, &good)) as u16;
    let again = rig.connect(&mut session, &good);
    assert_eq!(again.status, Status::COMMAND_SEQUENCE_ERROR.do_not_retry());
    // Before it is enabled, it has properties and nothing else.
    rig.refuses(
        &mut session,
        admin::keep_alive(),
        Status::COMMAND_SEQUENCE_ERROR,
    );
    let mut queue = rig.session(1);
    let early = rig.connect(&mut queue, &data(SUBSYSTEM, controller));
    assert_eq!(early.status, Status::COMMAND_SEQUENCE_ERROR.do_not_retry());

    let (mut queue, mut admin) = rig.io();
    rig.refuses(
        &mut queue,
        fabrics::property_get(Property::Status),
        Status::INVALID_OPCODE,
    );
    let disable = fabrics::property_set(Property::Configuration, 0);
    succeeded(rig.answer(&mut admin, disable, &[]));
    rig.refuses(&mut queue, io::flush(1), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn reads_and_writes_that_fit_become_extents() {
    let rig = Rig::new();
    let (mut queue, _admin) = rig.io();
    let extent = Extent {
        namespace: 0,
        offset: (BLOCKS - 8) * 512,
        len: 4096,
    };
    let last = blocks(1, BLOCKS - 8, 8);
    let read = rig.act(&mut queue, at_host(io::read(&last), 4096), &[]);
    let to = keyed(4096);
    assert_eq!(read, Action::Read { extent, to });
    let write = rig.act(&mut queue, at_host(io::write(&last, true), 4096), &[]);
    let durable = true;
    assert_eq!(
        write,
        Action::Write {
            extent,
            data: Data::AtHost(to),
            durable
        }
    );
    let sgl = Sgl::InCapsule {
        offset: 16,
        len: 512,
    };
    let write = io::write(&blocks(1, 0, 1), false).with_sgl(&sgl);
    let write = rig.act(&mut queue, write, &[0; 528]);
    let extent = Extent {
        namespace: 0,
        offset: 0,
        len: 512,
    };
    let data = Data::InCapsule(16..528);
    assert_eq!(
        write,
        Action::Write {
            extent,
            data,
            durable: false
        }
    );
    assert_eq!(rig.act(&mut queue, io::flush(2), &[]), Action::Flush(1..2));
    assert_eq!(
        rig.act(&mut queue, io::flush(u32::MAX), &[]),
        Action::Flush(0..2)
    );
}

#[test]
fn hostile_reads_and_writes_are_refused() {
    let rig = Rig::new();
    let (mut queue, _admin) = rig.io();
    let mut refused = |command: Command, len: u32, status: Status| {
        rig.refuses(&mut queue, at_host(command, len), status);
    };
    let read = |namespace, first, count| io::read(&blocks(namespace, first, count));
    for first in [BLOCKS, BLOCKS - 7, u64::MAX, u64::MAX - 7, 1 << 55] {
        refused(read(1, first, 8), 4096, Status::LBA_OUT_OF_RANGE);
    }
    refused(read(2, u64::MAX, 1), 512, Status::LBA_OUT_OF_RANGE);
    for namespace in [0, 3, u32::MAX] {
        refused(read(namespace, 0, 1), 512, Status::INVALID_NAMESPACE);
        refused(
            io::write(&blocks(namespace, 0, 1), false),
            512,
            Status::INVALID_NAMESPACE,
        );
    }
    for len in [0, 511, 513, 0xff_ffff] {
        refused(read(1, 0, 1), len, Status::DATA_SGL_LENGTH_INVALID);
        refused(
            io::write(&blocks(1, 0, 1), false),
            len,
            Status::DATA_SGL_LENGTH_INVALID,
        );
    }
    refused(read(1, 0, 2049), 2049 * 512, Status::INVALID_FIELD);
    refused(read(2, 0, 65_536), 0, Status::INVALID_FIELD);
    let protected = io::write(&blocks(2, 0, 1), false);
    refused(protected, 512, Status::NAMESPACE_WRITE_PROTECTED);
    refused(io::flush(3), 0, Status::INVALID_NAMESPACE);

    let write = io::write(&blocks(1, 0, 1), false);
    for (offset, data_len) in [(0, 511), (1, 512), (u64::MAX, 512), (u64::MAX - 511, 8192)] {
        let sgl = Sgl::InCapsule { offset, len: 512 };
        let answer = rig.answer(&mut queue, write.with_sgl(&sgl), &vec![0; data_len]);
        assert_eq!(answer.status, Status::SGL_OFFSET_INVALID.do_not_retry());
    }
    // What is read does not fit in the capsule.
    let in_capsule = Sgl::InCapsule {
        offset: 0,
        len: 512,
    };
    rig.refuses(
        &mut queue,
        read(1, 0, 1).with_sgl(&in_capsule),
        Status::SGL_TYPE_INVALID,
    );
}

#[test]
fn commands_without_a_good_descriptor_are_refused() {
    let rig = Rig::new();
    let (mut queue, mut admin) = rig.io();
    let mut with = |at: usize, value: u8, status: Status| {
        let read = at_host(io::read(&blocks(1, 0, 1)), 512);
        let mut bytes = *read.bytes();
        bytes[at] = value;
        rig.refuses(&mut queue, Command::from_bytes(bytes), status);
    };
    // The descriptor's type: bit bucket, segment, vendor specific.
    for kind in [0x10, 0x20, 0xf0] {
        with(39, kind, Status::SGL_TYPE_INVALID);
    }
    // Data by PRP, metadata by SGL, part of a fused operation.
    for flags in [0x00, 0x80, 0x41, 0x42] {
        with(1, flags, Status::INVALID_FIELD);
    }
    // Operations that are not there: compare, dataset management.
    for opcode in [0x05, 0x09, 0xff] {
        with(0, opcode, Status::INVALID_OPCODE);
    }
    let identify = at_host(admin::identify(Identify::Controller, 0), 4095);
    rig.refuses(&mut admin, identify, Status::DATA_SGL_LENGTH_INVALID);
    let identify = at_host(admin::identify(Identify::Other(6), 0), 4096);
    rig.refuses(&mut admin, identify, Status::INVALID_FIELD);
    let absent = at_host(admin::identify(Identify::Descriptors, 3), 4096);
    rig.refuses(&mut admin, absent, Status::INVALID_NAMESPACE);
}

#[test]
fn log_pages_have_an_end_and_a_limit() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(DISCOVERY_NQN);
    let page = |offset, len| at_host(admin::log_page(admin::DISCOVERY_LOG, offset, len), len);
    let all = returned(rig.act(&mut admin, page(0, 4096), &[]));
    let header: &[u8; 1024] = all[..1024].try_into().expect("1024 bytes");
    assert_eq!(discovery::parse_header(header), (0, 1));
    let entry = DiscoveryEntry::parse(all[1024..2048].try_into().expect("1024 bytes"));
    assert_eq!(entry.subsystem, SUBSYSTEM);
    assert_eq!(
        (entry.address.as_str(), entry.service.as_str()),
        ("10.0.0.1", "4420")
    );
    assert!(all[2048..].iter().all(|&byte| byte == 0));
    let part = returned(rig.act(&mut admin, page(1024, 1024), &[]));
    assert_eq!(part, all[1024..2048]);
    let beyond = returned(rig.act(&mut admin, page(u64::MAX - 3, 512), &[]));
    assert!(beyond.iter().all(|&byte| byte == 0));
    let health = at_host(admin::log_page(2, 0, 512), 512);
    rig.refuses(&mut admin, health, Status::INVALID_LOG_PAGE);

    let (mut admin, _) = rig.admin(SUBSYSTEM);
    assert_eq!(returned(rig.act(&mut admin, health, &[])), [0; 512]);
    rig.refuses(&mut admin, page(0, 1024), Status::INVALID_LOG_PAGE);
    let huge = at_host(admin::log_page(2, 0, u32::MAX), 0xff_fffc);
    rig.refuses(&mut admin, huge, Status::INVALID_FIELD);
}

#[test]
fn a_silent_host_loses_its_controller_and_all_its_queues() {
    let mut rig = Rig::new();
    let (mut queue, mut admin) = rig.io();
    let limit = KEEP_ALIVE + Limits::default().grace;
    rig.now += limit;
    assert_eq!(queue.check(rig.now), Ok(()));
    // A command on any queue is a sign of life.
    rig.act(&mut queue, io::flush(1), &[]);
    rig.now += limit;
    succeeded(rig.answer(&mut admin, admin::keep_alive(), &[]));
    rig.now += limit + Duration::from_millis(1);
    assert_eq!(queue.check(rig.now), Err(Over::Silent(limit)));
    assert_eq!(admin.check(rig.now), Err(Over::Silent(limit)));
    assert_eq!(rig.controllers.count(), (1, 1));
    drop(admin);
    assert_eq!(queue.check(rig.now), Err(Over::NoController));
    let flush = io::flush(1);
    assert_eq!(
        queue.handle(flush.bytes(), rig.now),
        Err(Over::NoController)
    );
    drop(queue);
    assert_eq!(rig.controllers.count(), (0, 0));
}

#[test]
fn a_host_that_asked_for_no_keep_alive_may_be_silent() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let none = admin::set_feature(admin::KEEP_ALIVE_TIMER, 0);
    succeeded(rig.answer(&mut admin, none, &[]));
    assert_eq!(admin.check(rig.now + Duration::from_secs(1 << 30)), Ok(()));
}

#[test]
fn a_shutdown_is_complete_at_once() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let status = |admin: &mut Session| {
        let get = fabrics::property_get(Property::Status);
        ControllerStatus(succeeded(rig.answer(admin, get, &[])) as u32)
    };
    let set = |admin: &mut Session, value: u32| {
        let set = fabrics::property_set(Property::Configuration, value.into());
        succeeded(rig.answer(admin, set, &[]));
    };
    set(&mut admin, Configuration::SHUTDOWN.0);
    assert!(status(&mut admin).is_shut_down());
    // Pages of 8192 bytes, which it cannot do.
    set(&mut admin, Configuration::ENABLED.0 | 1 << 7);
    assert!(status(&mut admin).is_fatal());
    set(&mut admin, 0);
    assert_eq!(status(&mut admin), ControllerStatus(0));
    set(&mut admin, Configuration::ENABLED.0);
    assert!(status(&mut admin).is_ready());
}

#[test]
fn one_command_may_wait_for_an_event() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let mut bytes = *admin::keep_alive().bytes();
    bytes[0] = 0x0c;
    let wait = Command::from_bytes(bytes);
    assert_eq!(rig.act(&mut admin, wait, &[]), Action::Hold);
    rig.refuses(&mut admin, wait, Status::new(1, 0x05));
}

#[test]
fn a_capsule_that_holds_no_command_ends_the_connection() {
    let rig = Rig::new();
    let mut session = rig.session(0);
    for len in [0, 1, 63] {
        let over = session.handle(&vec![0; len], rig.now);
        assert_eq!(over, Err(Over::ShortCapsule(len)));
    }
}

#[test]
fn responses_tell_the_head_of_the_queue() {
    let rig = Rig::new();
    let (mut admin, _) = rig.admin(SUBSYSTEM);
    let heads = (0..33).map(|_| admin.respond(3, Answer::default()).sq_head);
    let expected = (1..32).chain([0, 1]);
    assert!(heads.eq(expected), "there are 32 entries");
}
