//! The bytes of all messages, in both directions. The expected bytes are written by hand, field by
//! field, from the tables of the specification. The test `tests/tests/decode_tshark/cm.rs` decodes
//! emitted messages with tshark.

use core::net::{IpAddr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::testing::Numbers;
use crate::{PKey, PathMtu, Psn, QKey, Qpn, Reason};

const LOCAL: u32 = 0x0102_0304;
const REMOTE: u32 = 0x1112_1314;
const TRANSACTION: u64 = 0xa1a2_a3a4_a5a6_a7a8;

/// A MAD: its attribute, and its nonzero bytes, by their offset in the message.
fn mad(attribute: u8, fields: &[(usize, &[u8])]) -> [u8; MAD_LEN] {
    let mut bytes = [0; MAD_LEN];
    bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
    bytes[8..16].copy_from_slice(&[0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8]);
    bytes[17] = attribute;
    for (at, field) in fields {
        bytes[24 + at..24 + at + field.len()].copy_from_slice(field);
    }
    bytes
}

/// Checks that `message` has `bytes` on the wire, in both directions, and that shorter ones are
/// refused.
#[track_caller]
fn check(message: CmMessage<'_>, bytes: [u8; MAD_LEN]) {
    let transaction = TRANSACTION;
    let mad = CmMad {
        transaction,
        message,
    };
    assert_eq!(mad.to_bytes(), bytes);
    assert_eq!(CmMad::parse(&bytes), Ok(mad));
    for len in 0..MAD_LEN {
        let error = CmMad::parse(&bytes[..len]).expect_err("it is too short");
        assert!(matches!(error.reason, Reason::Truncated { .. }), "{error}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(CmMad::parse(&longer).is_err());
}

fn private<const N: usize>(bytes: &[u8; N]) -> PrivateData<'_, N> {
    PrivateData::new(bytes).expect("within the limit")
}

fn req(private: &[u8; 92]) -> Req<'_> {
    Req {
        local_id: LOCAL,
        service: ServiceId::ip(PortSpace::Tcp, 0x1bfd),
        ca_guid: 0x2122_2324_2526_2728,
        qkey: QKey(0x3132_3334),
        qpn: Qpn::from_bits(0x41_4243),
        responder_resources: 4,
        initiator_depth: 5,
        remote_response_timeout: 20,
        service_type: ServiceType::Uc,
        flow_control: true,
        psn: Psn::new(0x51_5253),
        local_response_timeout: 18,
        retry_count: 6,
        pkey: PKey(0xffff),
        path_mtu: PathMtu::Mtu1024,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        srq: true,
        path: PathRecord {
            local_lid: 0xffff,
            remote_lid: 0x0203,
            local_gid: "::ffff:10.0.0.1".parse().expect("an address"),
            remote_gid: "fe80::1234".parse().expect("an address"),
            flow_label: 0xa_bcde,
            packet_rate: 0x23,
            traffic_class: 0x68,
            hop_limit: 64,
            service_level: 5,
            subnet_local: true,
            ack_timeout: 19,
        },
        private: self::private(private),
    }
}

// shows: 12.6.5-req, 12.6.5-path, 12.6.5-transport, 16.7-class, 13.4.3-header, 13.4.2-length
#[test]
fn a_request_is_where_the_specification_puts_it() {
    let mut local_gid = [0; 16];
    local_gid[10..].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 1]);
    let mut remote_gid = [0; 16];
    remote_gid[..2].copy_from_slice(&[0xfe, 0x80]);
    remote_gid[14..].copy_from_slice(&[0x12, 0x34]);
    let bytes = mad(
        0x10,
        &[
            (0, &[1, 2, 3, 4]),
            (8, &[0, 0, 0, 0, 1, 6, 0x1b, 0xfd]),
            (16, &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]),
            (28, &[0x31, 0x32, 0x33, 0x34]),
            (32, &[0x41, 0x42, 0x43, 4]),
            (39, &[5]),
            (43, &[20 << 3 | 1 << 1 | 1]),
            (44, &[0x51, 0x52, 0x53, 18 << 3 | 6]),
            (48, &[0xff, 0xff, 3 << 4 | 7, 15 << 4 | 8]),
            (52, &[0xff, 0xff, 2, 3]),
            (56, &local_gid),
            (72, &remote_gid),
            (88, &[0xab, 0xcd, 0xe0, 0x23]),
            (92, &[0x68, 64, 5 << 4 | 8, 19 << 3]),
            (140, &[0x77; 92]),
        ],
    );
    check(CmMessage::Req(req(&[0x77; 92])), bytes);
}

#[test]
fn each_kind_of_connection_makes_the_round_trip() {
    for (service_type, byte_43, byte_51) in [
        (ServiceType::Rc, 0, 0),
        (ServiceType::Uc, 2, 0),
        (ServiceType::Xrc, 6, 1),
    ] {
        let none = [0; 92];
        let message = CmMessage::Req(Req {
            service_type,
            ..req(&none)
        });
        let transaction = 0;
        let bytes = CmMad {
            transaction,
            message,
        }
        .to_bytes();
        assert_eq!((bytes[24 + 43] & 6, bytes[24 + 51] & 7), (byte_43, byte_51));
        assert_eq!(CmMad::parse(&bytes).map(|mad| mad.message), Ok(message));
    }
}

#[test]
fn reserved_values_are_refused() {
    let good = mad(0x10, &[(50, &[1 << 4])]);
    assert!(CmMad::parse(&good).is_ok());
    for (attribute, fields, name) in [
        (0x10, (43, 2 << 1), "transport service type"),
        (0x10, (43, 3 << 1), "transport service type"),
        (0x10, (50, 0), "path packet payload mtu"),
        (0x10, (50, 6 << 4), "path packet payload mtu"),
        (0x11, (8, 3 << 6), "message mraed"),
        (0x12, (8, 3 << 6), "message rejected"),
        (0x12, (9, 73 << 1), "reject info length"),
        (0x0f, (0, 0), "attribute id"),
        (0x19, (0, 0), "attribute id"),
    ] {
        let (at, byte) = fields;
        let mut bytes = mad(attribute, &[(50, &[1 << 4])]);
        bytes[24 + at] = byte;
        let error = CmMad::parse(&bytes).expect_err(name);
        assert_eq!(error.field, name);
    }
}

// shows: 12.6.6-mra
#[test]
fn an_mra_is_where_the_specification_puts_it() {
    for (mraed, bits) in [(Mraed::Req, 0), (Mraed::Rep, 0x40), (Mraed::Lap, 0x80)] {
        let fields: [(usize, &[u8]); 3] = [
            (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14]),
            (8, &[bits, 24 << 3]),
            (10, &[0x77; 222]),
        ];
        let mra = Mra {
            local_id: LOCAL,
            remote_id: REMOTE,
            mraed,
            service_timeout: 24,
            private: private(&[0x77; 222]),
        };
        check(CmMessage::Mra(mra), mad(0x11, &fields));
    }
}

// shows: 12.6.7-rej, 12.6.7.2-reasons
#[test]
fn a_rej_is_where_the_specification_puts_it() {
    for (rejected, bits) in [
        (Rejected::Req, 0),
        (Rejected::Rep, 0x40),
        (Rejected::NoMessage, 0x80),
    ] {
        let fields: [(usize, &[u8]); 4] = [
            (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14]),
            (8, &[bits, 8 << 1, 0, 28]),
            (12, &[0x66; 8]),
            (84, &[0x77; 148]),
        ];
        let rej = Rej {
            local_id: LOCAL,
            remote_id: REMOTE,
            rejected,
            reason: RejectReason::CONSUMER,
            info: PrivateData::new(&[0x66; 8]).expect("it fits"),
            private: private(&[0x77; 148]),
        };
        check(CmMessage::Rej(rej), mad(0x12, &fields));
    }
}

// shows: 12.6.8-rep
#[test]
fn a_rep_is_where_the_specification_puts_it() {
    let rep = Rep {
        local_id: LOCAL,
        remote_id: REMOTE,
        qkey: QKey(0x3132_3334),
        qpn: Qpn::from_bits(0x41_4243),
        eecn: Qpn::from_bits(0x61_6263),
        psn: Psn::new(0x51_5253),
        responder_resources: 4,
        initiator_depth: 5,
        target_ack_delay: 15,
        failover: 1,
        flow_control: true,
        rnr_retry_count: 6,
        srq: true,
        ca_guid: 0x2122_2324_2526_2728,
        private: private(&[0x77; 196]),
    };
    let fields: [(usize, &[u8]); 8] = [
        (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14]),
        (8, &[0x31, 0x32, 0x33, 0x34]),
        (12, &[0x41, 0x42, 0x43]),
        (16, &[0x61, 0x62, 0x63]),
        (20, &[0x51, 0x52, 0x53]),
        (24, &[4, 5, 15 << 3 | 1 << 1 | 1, 6 << 5 | 1 << 4]),
        (28, &[0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]),
        (36, &[0x77; 196]),
    ];
    check(CmMessage::Rep(rep), mad(0x13, &fields));
}

// shows: 12.6.9-rtu, 12.6.10-dreq, 12.6.11-drep, 16.7.3-attributes
#[test]
fn short_messages_are_where_the_specification_puts_them() {
    let ids: (usize, &[u8]) = (0, &[1, 2, 3, 4, 0x11, 0x12, 0x13, 0x14]);
    let (local_id, remote_id) = (LOCAL, REMOTE);
    let rtu = Rtu {
        local_id,
        remote_id,
        private: private(&[0x77; 224]),
    };
    check(CmMessage::Rtu(rtu), mad(0x14, &[ids, (8, &[0x77; 224])]));
    let dreq = Dreq {
        local_id,
        remote_id,
        remote_qpn: Qpn::from_bits(0x41_4243),
        private: private(&[0x77; 220]),
    };
    let fields = [ids, (8, &[0x41, 0x42, 0x43]), (12, &[0x77; 220])];
    check(CmMessage::Dreq(dreq), mad(0x15, &fields));
    let drep = Drep {
        local_id,
        remote_id,
        private: private(&[0x77; 224]),
    };
    check(CmMessage::Drep(drep), mad(0x16, &[ids, (8, &[0x77; 224])]));
}

// shows: 12.11.1-sidr-req, 12.11.2-sidr-rep, 12.11.2-status
#[test]
fn lookups_are_where_the_specification_puts_them() {
    let service = ServiceId::ip(PortSpace::Udp, 0x1bfd);
    let service_bytes = [0, 0, 0, 0, 1, 0x11, 0x1b, 0xfd];
    let req = SidrReq {
        request_id: LOCAL,
        pkey: PKey(0xfff1),
        service,
        private: private(&[0x77; 216]),
    };
    let fields: [(usize, &[u8]); 3] = [
        (0, &[1, 2, 3, 4, 0xff, 0xf1]),
        (8, &service_bytes),
        (16, &[0x77; 216]),
    ];
    check(CmMessage::SidrReq(req), mad(0x17, &fields));
    let rep = SidrRep {
        request_id: LOCAL,
        status: SidrStatus::NO_QP,
        qpn: Qpn::from_bits(0x41_4243),
        service,
        qkey: QKey(0x3132_3334),
        private: private(&[0x77; 136]),
    };
    let fields: [(usize, &[u8]); 6] = [
        (0, &[1, 2, 3, 4, 3, 0]),
        (8, &[0x41, 0x42, 0x43]),
        (12, &service_bytes),
        (20, &[0x31, 0x32, 0x33, 0x34]),
        (24, &[]),
        (96, &[0x77; 136]),
    ];
    check(CmMessage::SidrRep(rep), mad(0x18, &fields));
}

// shows: 13.4.3-unknown
#[test]
fn other_classes_versions_and_methods_are_refused() {
    for (at, values, field) in [
        (0, [0, 2, 0xff], "base version"),
        (1, [0x03, 0x81, 0x09], "management class"),
        (2, [0, 1, 3], "class version"),
        (3, [0x01, 0x81, 0x83], "method"),
    ] {
        for value in values {
            let mut bytes = mad(0x14, &[]);
            bytes[at] = value;
            let error = CmMad::parse(&bytes).expect_err(field);
            assert_eq!((error.layer, error.field), (Layer::Mad, field));
        }
    }
}

// shows: A11-service-id
#[test]
fn service_ids_name_ports() {
    assert_eq!(ServiceId::ip(PortSpace::Tcp, 7174).0, 0x0106_1c06);
    for space in PortSpace::ALL {
        assert_eq!(PortSpace::from_code(space.code()), Some(space));
        for port in [0, 1, 0xffff] {
            let service = ServiceId::ip(space, port);
            assert_eq!(service.port(), Some((space, port)));
        }
    }
    for other in [0x0107_0001, 0x0001_0106_0001, 0x1000_0000_0106_0001, 0] {
        assert_eq!(ServiceId(other).port(), None);
    }
}

// shows: A11-private-data, A11-version
#[test]
fn the_ip_services_private_data_is_where_the_annex_puts_it() {
    let v4 = IpService {
        source_port: 0x1234,
        source: IpAddr::from([10, 0, 0, 1]),
        destination: IpAddr::from([10, 0, 0, 2]),
    };
    let mut bytes = [0; IpService::LEN];
    bytes[1..4].copy_from_slice(&[0x40, 0x12, 0x34]);
    bytes[16..20].copy_from_slice(&[10, 0, 0, 1]);
    bytes[32..].copy_from_slice(&[10, 0, 0, 2]);
    assert_eq!(v4.to_bytes(), bytes);
    assert_eq!(IpService::parse(&bytes), Ok(v4));

    let v6 = IpService {
        source_port: 1,
        source: IpAddr::V6(Ipv6Addr::from([1; 16])),
        destination: IpAddr::V6(Ipv6Addr::from([2; 16])),
    };
    let mut bytes = [1; IpService::LEN];
    bytes[..4].copy_from_slice(&[0, 0x60, 0, 1]);
    bytes[20..].fill(2);
    assert_eq!(v6.to_bytes(), bytes);
    assert_eq!(IpService::parse(&bytes), Ok(v6));

    for (at, value) in [(0, 1), (1, 0x50), (1, 0)] {
        let mut wrong = bytes;
        wrong[at] = value;
        assert!(IpService::parse(&wrong).is_err());
    }
    assert!(IpService::parse(&bytes[..35]).is_err());
}

#[test]
fn addresses_are_gids() {
    for address in ["10.1.2.3", "fe80::1", "2001:db8::1"] {
        let address: IpAddr = address.parse().expect("an address");
        assert_eq!(ip_of(gid_of(address)), address);
    }
}

#[test]
fn private_data_that_does_not_fit_is_refused() {
    let bytes: Vec<u8> = vec![1; 93];
    assert!(PrivateData::<92>::new(&bytes).is_none());
    assert_eq!(
        PrivateData::<92>::new(&bytes[..92]).map(|p| p.bytes().len()),
        Some(92)
    );
}

/// Any bytes that parse are emitted as bytes that parse to the same message.
#[test]
fn any_bytes_make_the_round_trip_or_are_refused() {
    let mut numbers = Numbers(1);
    let mut parsed = 0;
    for attribute in (0x0f..0x1a).cycle().take(2000) {
        let mut bytes: [u8; MAD_LEN] = numbers.array();
        bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
        bytes[16..18].copy_from_slice(&[0, attribute]);
        if let Ok(mad) = CmMad::parse(&bytes) {
            parsed += 1;
            assert_eq!(CmMad::parse(&mad.to_bytes()), Ok(mad));
        }
    }
    assert!(parsed > 1000, "{parsed}");
}
