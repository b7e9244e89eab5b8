//! Hosts that connect, and what they learn.

use super::*;

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
