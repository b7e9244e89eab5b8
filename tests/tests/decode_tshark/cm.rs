//! tshark decodes our messages of communication management correctly. tshark 4.0 does not know
//! SIDR.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Command;

use roce_tests::decode::{assert_decode_agrees, decode};
use roce_tests::programs;
use roce_wire::cm::{
    CmMad, CmMessage, Drep, Dreq, IpService, PathRecord, PortSpace, PrivateData, Rej, RejectReason,
    Rejected, Rep, Req, Rtu, ServiceId, ServiceType, gid_of,
};
use roce_wire::{Opcode, PKey, PathMtu, Psn, QKey, Qpn};

use crate::{Capture, ENVELOPES, packet};

const LOCAL: u32 = 0x0102_0304;
const REMOTE: u32 = 0x1112_1314;

/// tshark's fields of a message, by their names without `infiniband.`; numbers are decimal.
type Fields = BTreeMap<&'static str, String>;

fn tshark(capture: &Capture, names: &[&'static str]) -> Vec<Fields> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields", "-E", "occurrence=f"]);
    tshark.args(["-d", "udp.port==69,infiniband"]);
    for name in names {
        tshark.args(["-e", &format!("infiniband.{name}")]);
    }
    let output = tshark.arg("-r").arg(capture.path()).output();
    let output = output.expect("tshark runs");
    let lines = String::from_utf8(output.stdout).expect("tshark writes UTF-8");
    let value = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map_or(text.to_owned(), |n| n.to_string()),
        None => text.to_owned(),
    };
    let fields = |line: &str| {
        let values = names.iter().zip(line.split('\t'));
        let there = values.filter(|(_, text)| !text.is_empty());
        there.map(|(name, text)| (*name, value(text))).collect()
    };
    lines.lines().map(fields).collect()
}

/// A message, and the fields expected from tshark.
type Expected<'a> = (CmMessage<'a>, Vec<(&'static str, String)>);

fn number(name: &'static str, value: impl Into<u64>) -> (&'static str, String) {
    (name, value.into().to_string())
}

fn req(private: &[u8]) -> Expected<'_> {
    let [local, remote] = ["10.0.0.1", "10.0.0.2"];
    let gid = |text: &str| gid_of(text.parse::<IpAddr>().expect("an address"));
    let req = Req {
        local_id: LOCAL,
        service: ServiceId::ip(PortSpace::Tcp, 7174),
        ca_guid: 0x2122_2324_2526_2728,
        qkey: QKey(0),
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
        rnr_retry_count: 5,
        max_cm_retries: 14,
        srq: true,
        path: PathRecord {
            local_lid: PathRecord::PERMISSIVE_LID,
            remote_lid: 0x0203,
            local_gid: gid(local),
            remote_gid: gid(remote),
            flow_label: 0xa_bcde,
            packet_rate: 3,
            traffic_class: 0x68,
            hop_limit: 64,
            service_level: 5,
            subnet_local: false,
            ack_timeout: 19,
        },
        private: PrivateData::new(private).expect("it fits"),
    };
    let expected = vec![
        number("cm.req", LOCAL),
        number("cm.req.serviceid.protocol", 6_u64),
        number("cm.req.serviceid.dport", 7174_u64),
        number("cm.req.localcaguid", req.ca_guid),
        number("cm.req.localqpn", 0x41_4243_u64),
        number("cm.req.responderres", 4_u64),
        number("cm.req.initdepth", 5_u64),
        number("cm.req.remoteresptout", 20_u64),
        number("cm.req.transpsvctype", 1_u64),
        number("cm.req.e2eflowctrl", 1_u64),
        number("cm.req.startpsn", 0x51_5253_u64),
        number("cm.req.localresptout", 18_u64),
        number("cm.req.retrcount", 6_u64),
        number("cm.req.pkey", 0xffff_u64),
        number("cm.req.pppmtu", 3_u64),
        number("cm.req.rnrretrcount", 5_u64),
        number("cm.req.maxcmretr", 14_u64),
        number("cm.req.srq", 1_u64),
        number("cm.req.prim_locallid", 0xffff_u64),
        number("cm.req.prim_remotelid", 0x0203_u64),
        ("cm.req.prim_localgid_ipv4", local.to_owned()),
        ("cm.req.prim_remotegid_ipv4", remote.to_owned()),
        // In the word with flow label and packet rate, tshark 4.0 reads three bytes as the flow
        // label and the first as the packet rate.
        number("cm.req.prim_tfcclass", 0x68_u64),
        number("cm.req.prim_hoplim", 64_u64),
        number("cm.req.prim_sl", 5_u64),
        number("cm.req.prim_subnetlocal", 0_u64),
        number("cm.req.prim_localacktout", 19_u64),
        number("cm.req.ip_cm.ipv", 4_u64),
        number("cm.req.ip_cm.sport", 0x1234_u64),
        ("cm.req.ip_cm.sip4", local.to_owned()),
        ("cm.req.ip_cm.dip4", remote.to_owned()),
    ];
    (CmMessage::Req(req), expected)
}

fn rep() -> Expected<'static> {
    let rep = Rep {
        local_id: LOCAL,
        remote_id: REMOTE,
        qkey: QKey(0),
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
        private: PrivateData::NONE,
    };
    let expected = vec![
        number("cm.rep", LOCAL),
        number("cm.rep.remotecommid", REMOTE),
        number("cm.rep.localqpn", 0x41_4243_u64),
        number("cm.rep.localeecn", 0x61_6263_u64),
        number("cm.rep.startpsn", 0x51_5253_u64),
        number("cm.rep.respres", 4_u64),
        number("cm.rep.initdepth", 5_u64),
        number("cm.rep.tgtackdelay", 15_u64),
        number("cm.rep.failoveracc", 1_u64),
        number("cm.rep.e2eflowctrl", 1_u64),
        number("cm.rep.rnrretrcount", 6_u64),
        number("cm.rep.srq", 1_u64),
        number("cm.rep.localcaguid", rep.ca_guid),
    ];
    (CmMessage::Rep(rep), expected)
}

fn others() -> Vec<Expected<'static>> {
    let (local_id, remote_id) = (LOCAL, REMOTE);
    let rtu = Rtu {
        local_id,
        remote_id,
        private: PrivateData::NONE,
    };
    let rej = Rej {
        local_id,
        remote_id,
        rejected: Rejected::Rep,
        reason: RejectReason::CONSUMER,
        info: PrivateData::new(&[7; 8]).expect("it fits"),
        private: PrivateData::NONE,
    };
    let dreq = Dreq {
        local_id,
        remote_id,
        remote_qpn: Qpn::from_bits(0x41_4243),
        private: PrivateData::NONE,
    };
    let drep = Drep {
        local_id,
        remote_id,
        private: PrivateData::NONE,
    };
    let ids = |local, remote| vec![number(local, LOCAL), number(remote, REMOTE)];
    let mut of_rej = ids("cm.rej.localcommid", "cm.rej.remotecommid");
    of_rej.extend([
        number("cm.rej.msgrej", 1_u64),
        number("cm.rej.rejinfolen", 8_u64),
        number("cm.rej.reason", 28_u64),
    ]);
    let mut of_dreq = ids("cm.dreq.localcommid", "cm.dreq.remotecommid");
    of_dreq.push(number("cm.req.remoteqpneecn", 0x41_4243_u64));
    vec![
        (
            CmMessage::Rtu(rtu),
            ids("cm.rtu.localcommid", "cm.rtu.remotecommid"),
        ),
        (CmMessage::Rej(rej), of_rej),
        (CmMessage::Dreq(dreq), of_dreq),
        (
            CmMessage::Drep(drep),
            ids("cm.drsp.localcommid", "cm.drsp.remotecommid"),
        ),
    ]
}

/// The name of each field in `roce decode`, by tshark's name. Fields of the same name in several
/// messages have the same ending.
const OURS: &[(&str, &str)] = &[
    ("cm.req", "local_comm_id"),
    ("cm.rep", "local_comm_id"),
    ("localcommid", "local_comm_id"),
    ("remotecommid", "remote_comm_id"),
    ("serviceid.dport", "port"),
    ("localqpn", "local_qpn"),
    ("localeecn", "local_eecn"),
    ("responderres", "responder_resources"),
    ("respres", "responder_resources"),
    ("initdepth", "initiator_depth"),
    ("remoteresptout", "remote_response_timeout"),
    ("startpsn", "starting_psn"),
    ("localresptout", "local_response_timeout"),
    ("req.retrcount", "retry_count"),
    ("rnrretrcount", "rnr_retry_count"),
    ("pkey", "pkey"),
    ("maxcmretr", "max_cm_retries"),
    ("prim_locallid", "local_lid"),
    ("prim_remotelid", "remote_lid"),
    ("prim_tfcclass", "traffic_class"),
    ("prim_hoplim", "hop_limit"),
    ("prim_sl", "service_level"),
    ("prim_localacktout", "ack_timeout"),
    ("ip_cm.sport", "source_port"),
    ("ip_cm.sip4", "source"),
    ("ip_cm.dip4", "destination"),
    ("tgtackdelay", "target_ack_delay"),
    ("failoveracc", "failover"),
    ("rej.reason", "reason"),
    ("remoteqpneecn", "remote_qpn"),
    ("e2eflowctrl", "flow_control"),
    ("srq", "srq"),
];

/// Checks that `roce decode` prints the fields expected from tshark.
fn assert_said(
    said: &serde_json::Value,
    message: &CmMessage<'_>,
    expected: &[(&'static str, String)],
) {
    let mut compared = 0;
    for (name, value) in expected {
        let ours = OURS.iter().find(|(theirs, _)| name.ends_with(theirs));
        let Some((_, ours)) = ours else { continue };
        let text = match &said[ours] {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Bool(flag) => u8::from(*flag).to_string(),
            other => other.to_string(),
        };
        assert_eq!(&text, value, "{ours} of {message:?}: {said}");
        compared += 1;
    }
    assert!(compared > 1, "{message:?}: {said}");
}

// shows: 12.6.5-req, 12.6.5-path, 12.6.7-rej, 12.6.8-rep, 12.6.9-rtu, 12.6.10-dreq
// shows: 12.6.11-drep, 16.7-class, 16.7.3-attributes, A11-private-data, A11-service-id
#[test]
fn on_connection_management() {
    let private = IpService {
        source_port: 0x1234,
        source: IpAddr::from([10, 0, 0, 1]),
        destination: IpAddr::from([10, 0, 0, 2]),
    };
    let private = private.to_bytes();
    let mut messages = vec![req(&private), rep()];
    messages.extend(others());
    let frames: Vec<_> = messages
        .iter()
        .map(|(message, _)| {
            let mut repr = packet(Opcode::UD_SEND_ONLY, 1);
            repr.bth.dest_qpn = Qpn::QP1;
            let transaction = 0xa1a2_a3a4_a5a6_a7a8;
            let mad = CmMad {
                transaction,
                message: *message,
            };
            ENVELOPES[0].around(&[(repr, mad.to_bytes().to_vec())])
        })
        .collect();
    let capture = Capture::write("connection-management", &frames);
    assert_eq!(assert_decode_agrees(capture.path()), frames.len());
    for (packet, (message, expected)) in decode(capture.path()).iter().zip(&messages) {
        assert_said(&packet["cm"], message, expected);
    }
    if !programs::is_installed_or_skip("tshark") {
        return;
    }
    let header = [
        ("mad.mgmtclass", 7_u64),
        ("mad.classversion", 2),
        ("mad.method", 3),
        ("mad.transactionid", 0xa1a2_a3a4_a5a6_a7a8),
    ];
    let header = header.map(|(name, value)| number(name, value));
    let named = messages.iter().flat_map(|(_, fields)| fields);
    let names: Vec<_> = named.chain(&header).map(|(name, _)| *name).collect();
    let said = tshark(&capture, &names);
    assert_eq!(said.len(), messages.len());
    for (said, (message, expected)) in said.iter().zip(&messages) {
        for (name, value) in expected.iter().chain(&header) {
            let found = said.get(name);
            assert_eq!(found, Some(value), "{name} of {message:?}");
        }
    }
}
