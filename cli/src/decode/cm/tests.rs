use super::*;
use roce_wire::cm::{
    Drep, Dreq, Mra, PortSpace, PrivateData, RejectReason, Rtu, SidrStatus, gid_of,
};
use roce_wire::{MAD_LEN, PKey, PathMtu, Psn, QKey};

const LOCAL: u32 = 0x0102_0304;
const REMOTE: u32 = 0x1112_1314;

fn bth(dest_qpn: Qpn) -> Bth {
    Bth::new(Opcode::UD_SEND_ONLY, dest_qpn, Psn::new(0))
}

fn bytes(message: CmMessage<'_>) -> [u8; MAD_LEN] {
    let mad = CmMad {
        transaction: 7,
        message,
    };
    mad.to_bytes()
}

fn parsed(bytes: &[u8]) -> DecodedCm {
    DecodedCm::parse(&bth(Qpn::QP1), bytes).expect("a message")
}

fn req(private: &[u8]) -> Req<'_> {
    Req {
        local_id: LOCAL,
        service: ServiceId::ip(PortSpace::Tcp, 7174),
        ca_guid: 0x2122_2324_2526_2728,
        qkey: QKey(0),
        qpn: Qpn::from_bits(0x41_4243),
        responder_resources: 4,
        initiator_depth: 5,
        remote_response_timeout: 20,
        service_type: ServiceType::Rc,
        flow_control: true,
        psn: Psn::new(0x51_5253),
        local_response_timeout: 18,
        retry_count: 6,
        pkey: PKey(0xffff),
        path_mtu: PathMtu::Mtu1024,
        rnr_retry_count: 5,
        max_cm_retries: 14,
        srq: false,
        path: PathRecord {
            local_lid: PathRecord::PERMISSIVE_LID,
            remote_lid: 0x0203,
            local_gid: gid_of([10, 0, 0, 1].into()),
            remote_gid: gid_of([10, 0, 0, 2].into()),
            flow_label: 0xa_bcde,
            packet_rate: 3,
            traffic_class: 0x68,
            hop_limit: 64,
            service_level: 5,
            subnet_local: false,
            ack_timeout: 19,
        },
        private: PrivateData::new(private).expect("it fits"),
    }
}

#[test]
fn each_message_has_a_one_line_summary() {
    let addresses = IpService {
        source_port: 4660,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    };
    let (local_id, remote_id) = (LOCAL, REMOTE);
    let private = addresses.to_bytes();
    let none = PrivateData::NONE;
    let ids = "id 0x01020304 peer's 0x11121314";
    let rej = Rej {
        local_id,
        remote_id,
        rejected: Rejected::Req,
        reason: RejectReason::CONSUMER,
        info: PrivateData::NONE,
        private: PrivateData::NONE,
    };
    let sidr = SidrRep {
        request_id: LOCAL,
        status: SidrStatus::VALID,
        qpn: Qpn::from_bits(0x41_4243),
        service: ServiceId(0x1234),
        qkey: QKey(0x1_2345),
        private: PrivateData::NONE,
    };
    for (message, name, brief) in [
        (
            CmMessage::Req(req(&private)),
            "REQ",
            "id 0x01020304 RC tcp port 7174 QP 0x414243 PSN 0x515253 mtu 1024 from 10.0.0.1:4660 to \
             10.0.0.2",
        ),
        (
            CmMessage::Rtu(Rtu {
                local_id,
                remote_id,
                private: PrivateData::NONE,
            }),
            "RTU",
            ids,
        ),
        (
            CmMessage::Rej(rej),
            "REJ",
            &format!("{ids} of REQ: consumer reject (28)"),
        ),
        (
            CmMessage::Dreq(Dreq {
                local_id,
                remote_id,
                remote_qpn: Qpn::from_bits(5),
                private: PrivateData::NONE,
            }),
            "DREQ",
            &format!("{ids} to end QP 0x000005"),
        ),
        (
            CmMessage::Drep(Drep {
                local_id,
                remote_id,
                private: PrivateData::NONE,
            }),
            "DREP",
            ids,
        ),
        (
            CmMessage::Mra(Mra {
                local_id,
                remote_id,
                mraed: Mraed::Rep,
                service_timeout: 21,
                private: none_of(),
            }),
            "MRA",
            &format!("{ids} of REP timeout 21"),
        ),
        (
            CmMessage::SidrRep(sidr),
            "SIDR_REP",
            "id 0x01020304 QP 0x414243 qkey 0x00012345: QPN and Q_Key are valid service \
             0x0000000000001234",
        ),
        (
            CmMessage::SidrReq(SidrReq {
                request_id: LOCAL,
                pkey: PKey(0xffff),
                service: ServiceId::ip(PortSpace::Udp, 5),
                private: PrivateData::new(&private).expect("it fits"),
            }),
            "SIDR_REQ",
            "id 0x01020304 udp port 5 from 10.0.0.1:4660 to 10.0.0.2",
        ),
    ] {
        let found = parsed(&bytes(message));
        assert_eq!((found.kind.name(), found.brief()), (name, brief));
    }
    let _: PrivateData<'_, 1> = none;
}

fn none_of<const N: usize>() -> PrivateData<'static, N> {
    PrivateData::NONE
}

#[test]
fn private_data_is_shown_without_padding() {
    let json =
        serde_json::to_value(parsed(&bytes(CmMessage::Req(req(&[0, 1, 0])))).json()).expect("JSON");
    assert_eq!(json["private_data"], "0001");
    let json = serde_json::to_value(parsed(&bytes(CmMessage::Req(req(&[])))).json()).expect("JSON");
    assert_eq!(json.get("private_data"), None);
    assert_eq!(json["transaction"], "0x0000000000000007");
    assert_eq!(
        (&json["type"], &json["srq"]),
        (&"REQ".into(), &false.into())
    );
}

/// LAP and APR are shown with their IDs; others with a reserved value are shown with the error.
#[test]
fn lap_apr_and_malformed_messages_show_their_ids() {
    let mut mad = bytes(CmMessage::Rtu(Rtu {
        local_id: LOCAL,
        remote_id: REMOTE,
        private: PrivateData::NONE,
    }));
    for (attribute, name) in [(0x19, "LAP"), (0x1a, "APR")] {
        mad[17] = attribute;
        let found = parsed(&mad);
        assert_eq!(found.kind.name(), name);
        assert_eq!(found.brief(), "id 0x01020304 peer's 0x11121314");
    }
    // An MRA for a message type that does not exist.
    (mad[17], mad[24 + 8]) = (0x11, 0xc0);
    let found = parsed(&mad);
    assert!(found.brief().contains("malformed: "), "{found:?}");
    mad[17] = 0x1b;
    assert_eq!(DecodedCm::parse(&bth(Qpn::QP1), &mad), None);
}

#[test]
fn other_datagrams_are_none() {
    let mad = bytes(CmMessage::Req(req(&[])));
    assert_eq!(DecodedCm::parse(&bth(Qpn::from_bits(2)), &mad), None);
    for len in 0..24 {
        assert_eq!(DecodedCm::parse(&bth(Qpn::QP1), &mad[..len]), None);
    }
    // Truncated: the fields that are there are shown, with the error.
    for len in 24..MAD_LEN {
        assert!(parsed(&mad[..len]).brief().contains("malformed"));
    }
    let mut other = mad;
    other[1] = 4;
    assert_eq!(DecodedCm::parse(&bth(Qpn::QP1), &other), None);
}
