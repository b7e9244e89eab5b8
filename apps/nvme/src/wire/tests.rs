use super::admin::{self, Identify};
use super::discovery::{self, DiscoveryEntry, Family, SubsystemType};
use super::fabrics::{self, Connect, ConnectData};
use super::identify::{self, Controller, Namespace};
use super::io::{self, Blocks};
use super::*;
use roce_verbs::RemoteAddr;

/// Base, figure "Connect Command - Submission Queue Entry".
#[test]
fn a_connect_command_has_its_fields_in_their_places() {
    let connect = Connect {
        queue: 3,
        length: 127,
        keep_alive_ms: 5000,
    };
    let command = connect.command().with_id(0x1234);
    let bytes = command.bytes();
    assert_eq!(bytes[..8], [0x7f, 0x40, 0x34, 0x12, 0x01, 0, 0, 0]);
    assert_eq!(bytes[40..52], [0, 0, 3, 0, 127, 0, 0, 0, 0x88, 0x13, 0, 0]);
    let parsed = fabrics::Request::parse(&command);
    assert_eq!(parsed, Some(Ok(fabrics::Request::Connect(connect))));
    let odd = command.with(40, &[1]);
    let refused = Status::CONNECT_INCOMPATIBLE_FORMAT.do_not_retry();
    assert_eq!(fabrics::Request::parse(&odd), Some(Err(refused)));
}

#[test]
fn properties_make_the_round_trip_and_others_are_refused() {
    for property in [
        Property::Capabilities,
        Property::Version,
        Property::Configuration,
        Property::Status,
    ] {
        let get = fabrics::property_get(property);
        let parsed = fabrics::Request::parse(&get);
        assert_eq!(parsed, Some(Ok(fabrics::Request::PropertyGet(property))));
        let wrong_size = get.with(40, &[u8::from(!property.is_wide())]);
        let refused = Some(Err(Status::INVALID_FIELD.do_not_retry()));
        assert_eq!(fabrics::Request::parse(&wrong_size), refused);
        assert_eq!(fabrics::Request::parse(&get.with(44, &[0x24])), refused);
    }
    let set = fabrics::property_set(Property::Configuration, 0x0046_0001);
    assert_eq!(
        set.bytes()[40..56],
        [0, 0, 0, 0, 0x14, 0, 0, 0, 1, 0, 0x46, 0, 0, 0, 0, 0]
    );
    let parsed = fabrics::Request::parse(&set);
    let expected = fabrics::Request::PropertySet(Property::Configuration, 0x0046_0001);
    assert_eq!(parsed, Some(Ok(expected)));
    assert_eq!(Configuration::ENABLED.0, 0x0046_0001);
}

#[test]
fn descriptors_make_the_round_trip() {
    let keyed = |invalidate| {
        Sgl::Keyed(KeyedSgl {
            remote: RemoteAddr {
                addr: 0x1122_3344_5566_7788,
                rkey: 0xaabb_ccdd,
            },
            len: 0x0012_3456,
            invalidate,
        })
    };
    let bytes = [
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x56, 0x34, 0x12, 0xdd, 0xcc, 0xbb, 0xaa,
        0x40,
    ];
    assert_eq!(keyed(false).encode(), bytes);
    let in_capsule = Sgl::InCapsule {
        offset: 64,
        len: 4096,
    };
    assert_eq!(in_capsule.encode()[8..], [0, 0x10, 0, 0, 0, 0, 0, 0x01]);
    for sgl in [keyed(false), keyed(true), in_capsule, Sgl::NONE] {
        assert_eq!(Sgl::parse(&sgl.encode()), Ok(sgl));
    }
    for kind in [0x00, 0x10, 0x20, 0x41, 0x50] {
        let mut bytes = bytes;
        bytes[15] = kind;
        assert_eq!(Sgl::parse(&bytes), Err(BadSgl(kind)));
    }
}

#[test]
fn commands_of_io_queues_make_the_round_trip() {
    let blocks = Blocks {
        namespace: 1,
        first: 0x1_0000_0001,
        count: 65_536,
    };
    let parse = |command: &Command| io::Request::parse(command);
    assert_eq!(parse(&io::read(&blocks)), Ok(io::Request::Read(blocks)));
    for durable in [false, true] {
        let expected = io::Request::Write { blocks, durable };
        assert_eq!(parse(&io::write(&blocks, durable)), Ok(expected));
    }
    let namespace = 7;
    assert_eq!(parse(&io::flush(7)), Ok(io::Request::Flush { namespace }));
    let unknown = Command::from_bytes([0x55; COMMAND_LEN]);
    assert_eq!(parse(&unknown), Err(Status::INVALID_OPCODE.do_not_retry()));
}

#[test]
fn commands_of_the_admin_queue_make_the_round_trip() {
    let identify = admin::identify(Identify::Namespace, 9);
    let expected = admin::Request::Identify {
        structure: Identify::Namespace,
        namespace: 9,
    };
    assert_eq!(admin::Request::parse(&identify), Ok(expected));
    let log = admin::log_page(admin::DISCOVERY_LOG, 1024, 1 << 20);
    let expected = admin::Request::LogPage {
        page: 0x70,
        offset: 1024,
        len: 1 << 20,
    };
    assert_eq!(admin::Request::parse(&log), Ok(expected));
    let set = admin::set_feature(admin::NUMBER_OF_QUEUES, 0x0003_0003);
    let expected = admin::Request::SetFeature {
        feature: 7,
        value: 0x0003_0003,
    };
    assert_eq!(admin::Request::parse(&set), Ok(expected));
    let alive = admin::keep_alive();
    assert_eq!(admin::Request::parse(&alive), Ok(admin::Request::KeepAlive));
}

#[test]
fn responses_make_the_round_trip() {
    let response = Response {
        result: 0x0102_0304_0506_0708,
        sq_head: 17,
        command_id: 0xabcd,
        status: Status::LBA_OUT_OF_RANGE.do_not_retry(),
    };
    let bytes = response.encode();
    assert_eq!(bytes[8..], [17, 0, 0, 0, 0xcd, 0xab, 0x00, 0x81]);
    assert_eq!(Response::parse(&bytes), response);
    assert!(response.status.is_final() && !response.status.is_success());
    assert!(
        Status::from_bits(1).is_success(),
        "the phase bit is no error"
    );
}

#[test]
fn statuses_have_names_with_and_without_flags() {
    let status = Status::LBA_OUT_OF_RANGE.do_not_retry();
    assert_eq!(
        status.to_string(),
        "LBA out of range (type 0, code 0x80, do not retry)"
    );
    let unknown = Status::new(7, 0x55);
    assert_eq!(
        (unknown.kind(), unknown.code(), unknown.name()),
        (7, 0x55, None)
    );
}

#[test]
fn private_data_make_the_round_trip_and_others_are_refused() {
    let request = RequestPrivate {
        queue: 2,
        host_receive_len: 128,
        host_send_len: 127,
        controller: 5,
    };
    let mut bytes = request.encode();
    assert_eq!(bytes[..10], [0, 0, 2, 0, 128, 0, 127, 0, 5, 0]);
    assert_eq!(RequestPrivate::parse(&bytes), Ok(request));
    assert_eq!(
        RequestPrivate::parse(&bytes[..31]),
        Err(Refusal::INVALID_LENGTH)
    );
    bytes[0] = 1;
    assert_eq!(RequestPrivate::parse(&bytes), Err(Refusal::INVALID_FORMAT));

    let accept = AcceptPrivate {
        controller_receive_len: 64,
    };
    assert_eq!(AcceptPrivate::parse(&accept.encode()), Some(accept));
    assert_eq!(AcceptPrivate::parse(&[0; 3]), None);
    let reject = RejectPrivate {
        reason: Refusal::NO_RESOURCES,
    };
    assert_eq!(RejectPrivate::parse(&reject.encode()), Some(reject));
    assert_eq!(RejectPrivate::parse(&[]), None);
}

fn name(text: &str) -> Nqn {
    text.parse().expect("a name")
}

#[test]
fn connect_data_make_the_round_trip() {
    let data = ConnectData {
        host_id: HostId([7; 16]),
        controller: fabrics::ANY_CONTROLLER,
        subsystem: name("nqn.2014-08.org.nvmexpress:disk1"),
        host: name("nqn.2014-08.org.nvmexpress:uuid:07070707-0707-0707-0707-070707070707"),
    };
    assert_eq!(ConnectData::parse(&data.encode()), Ok(data));
    assert!(ConnectData::parse(&[0; fabrics::CONNECT_DATA_LEN]).is_err());
    assert!(ConnectData::parse(&[0xff; fabrics::CONNECT_DATA_LEN]).is_err());
}

#[test]
fn names_have_a_beginning_and_a_bound() {
    assert!(format!("nqn.{}", "a".repeat(219)).parse::<Nqn>().is_ok());
    for wrong in [
        "",
        "nqn.",
        "iqn.2014-08.org:disk",
        "nqn.with space",
        "nqn.with\nline",
        &format!("nqn.{}", "a".repeat(220)),
    ] {
        assert!(wrong.parse::<Nqn>().is_err(), "{wrong:?}");
    }
}

#[test]
fn identify_structures_make_the_round_trip() {
    let controller = Controller {
        serial: "0123".into(),
        model: "roce".into(),
        firmware: "0.1.0".into(),
        id: 3,
        version: identify::VERSION_1_4,
        is_discovery: false,
        max_transfer_shift: 8,
        keep_alive_granularity: 10,
        max_commands: 128,
        namespaces: 2,
        volatile_cache: true,
        keyed_sgl: true,
        in_capsule_sgl: true,
        subsystem: "nqn.2014-08.org.nvmexpress:disk1".into(),
        command_capsule_units: 4 + 512,
        response_capsule_units: 1,
        in_capsule_offset_units: 0,
    };
    assert_eq!(Controller::parse(&controller.encode()), controller);
    assert_eq!(controller.max_transfer(), Some(1 << 20));
    assert_eq!(controller.in_capsule_len(), 8192);
    let namespace = Namespace {
        blocks: 1 << 40,
        block_shift: 12,
        metadata_len: 0,
        guid: [9; 16],
    };
    assert_eq!(Namespace::parse(&namespace.encode()), namespace);
    assert_eq!(namespace.block_len(), Some(4096));
    let list = identify::encode_list([1, 2, 7]);
    assert_eq!(identify::parse_list(&list), [1, 2, 7]);
}

/// A controller that lies about its capsules or transfers makes no number overflow.
#[test]
fn identify_structures_of_all_ones_are_harmless() {
    let controller = Controller::parse(&[0xff; identify::IDENTIFY_LEN]);
    assert_eq!(controller.max_transfer(), Some(u64::MAX));
    assert_eq!(controller.in_capsule_len(), 0);
    let namespace = Namespace::parse(&[0xff; identify::IDENTIFY_LEN]);
    assert_eq!(namespace.block_len(), None);
    assert_eq!(
        identify::parse_list(&[0xff; identify::IDENTIFY_LEN]).len(),
        1024
    );
}

#[test]
fn discovery_pages_make_the_round_trip() {
    let entry = DiscoveryEntry {
        is_rdma: true,
        family: Family::V6,
        kind: SubsystemType::Nvm,
        port_id: 1,
        admin_queue_len: 32,
        service: "4420".into(),
        subsystem: "nqn.2014-08.org.nvmexpress:disk1".into(),
        address: "fd00::2".into(),
    };
    let page = discovery::encode(9, &[entry.clone(), entry.clone()]);
    let (header, entries) = page.split_first_chunk().expect("a header");
    assert_eq!(discovery::parse_header(header), (9, 2));
    let (chunks, rest) = entries.as_chunks();
    assert!(rest.is_empty());
    assert!(
        chunks
            .iter()
            .all(|bytes| DiscoveryEntry::parse(bytes) == entry)
    );
    assert_eq!(discovery::parse_header(&[0xff; 1024]).1, 1024);
}

/// A peer must not control the terminal of a program that prints its texts.
#[test]
fn control_characters_of_a_peer_become_replacement_characters() {
    let hostile = "\x1b]0;owned\x07\u{9b}2J\r\x7fx";
    let harmless = "\u{fffd}]0;owned\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}x";
    let mut bytes = [0; identify::IDENTIFY_LEN];
    for field in [4..24, 24..64, 64..72, 768..1024] {
        let len = hostile.len().min(field.len());
        bytes[field.start..field.start + len].copy_from_slice(&hostile.as_bytes()[..len]);
    }
    let controller = Controller::parse(&bytes);
    assert_eq!(controller.model, harmless);
    let Controller {
        serial,
        firmware,
        subsystem,
        ..
    } = controller;
    let mut entry = [0; discovery::ENTRY_LEN];
    for start in [32, 256, 512] {
        entry[start..start + hostile.len()].copy_from_slice(hostile.as_bytes());
    }
    let entry = DiscoveryEntry::parse(&entry);
    for text in [
        serial,
        firmware,
        subsystem,
        entry.service,
        entry.subsystem,
        entry.address,
    ] {
        assert!(text.starts_with("\u{fffd}]0;"), "{text:?}");
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
