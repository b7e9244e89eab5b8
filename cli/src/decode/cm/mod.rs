//! Communication management (CM) messages, which are datagrams to QP1 (IBTA 1.7, 12.6 and 12.11).

use std::fmt::Write as _;

use super::kinds::named_kinds;
use roce_wire::cm::IpService;
use roce_wire::cm::{
    CmMad, CmMessage, Mraed, PathRecord, Rej, Rejected, Rep, Req, ServiceId, ServiceType, SidrRep,
    SidrReq,
};
use roce_wire::{Bth, MadHeader, Opcode, Qpn};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

#[cfg(test)]
mod tests;

named_kinds! {
    /// The types of CM message, in the order of their attributes.
    Kind:
    Req "REQ" "REQ";
    Mra "MRA" "MRA";
    Rej "REJ" "REJ";
    Rep "REP" "REP";
    Rtu "RTU" "RTU";
    Dreq "DREQ" "DREQ";
    Drep "DREP" "DREP";
    SidrReq "SIDR_REQ" "SIDR_REQ";
    SidrRep "SIDR_REP" "SIDR_REP";
    Lap "LAP" "LAP";
    Apr "APR" "APR";
}

impl Kind {
    /// The first attribute ID (IBTA 1.7, 16.7.3).
    const FIRST: u16 = 0x10;

    fn of(attribute: u16) -> Option<Kind> {
        let index = attribute.checked_sub(Self::FIRST)?;
        Self::ALL.get(usize::from(index)).copied()
    }
}

/// A CM message, with its fields in the order on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodedCm {
    pub(super) kind: Kind,
    fields: Vec<Field>,
    /// The text for a line of output.
    brief: String,
}

/// A field by its name.
type Field = (&'static str, Value);

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Value {
    Number(u32),
    Flag(bool),
    Text(String),
}

impl DecodedCm {
    /// Decodes the CM message in a datagram's payload; `None` if the datagram carries none.
    pub(super) fn parse(bth: &Bth, payload: &[u8]) -> Option<Self> {
        if bth.opcode != Opcode::UD_SEND_ONLY || bth.dest_qpn != Qpn::QP1 {
            return None;
        }
        let header = MadHeader::parse(payload).ok()?;
        header.expect_cm().ok()?;
        let kind = Kind::of(header.attribute)?;
        let mut message = Self {
            kind,
            fields: vec![("transaction", hex(header.transaction))],
            brief: String::new(),
        };
        match CmMad::parse(payload) {
            Ok(mad) => message.read(&mad.message),
            Err(error) => {
                // Only the IDs of LAP and APR are read, since RoCE has no alternate paths. Any
                // other message that can't be parsed is truncated, or has a field with a reserved
                // value.
                let ids = payload.get(MadHeader::LEN..).unwrap_or_default();
                message.ids(be32(ids, 0), be32(ids, 4));
                if !matches!(kind, Kind::Lap | Kind::Apr) {
                    message.say(format_args!(" malformed: {error}"));
                    message.add("error", Value::Text(error.to_string()));
                }
            }
        }
        Some(message)
    }

    /// The text for a line of output: the fields that a reader looks for first.
    pub(super) fn brief(&self) -> &str {
        self.brief.trim_start()
    }

    fn read(&mut self, message: &CmMessage<'_>) {
        match message {
            CmMessage::Req(req) => self.req(req),
            CmMessage::Rep(rep) => self.rep(rep),
            CmMessage::Rej(rej) => self.rej(rej),
            CmMessage::SidrReq(req) => self.sidr_req(req),
            CmMessage::SidrRep(rep) => self.sidr_rep(rep),
            CmMessage::Mra(mra) => {
                self.ids(mra.local_id, mra.remote_id);
                let mraed = match mra.mraed {
                    Mraed::Req => "REQ",
                    Mraed::Rep => "REP",
                    Mraed::Lap => "LAP",
                };
                self.add("message", text(mraed));
                self.add("service_timeout", mra.service_timeout.into());
                self.say(format_args!(" of {mraed} timeout {}", mra.service_timeout));
                self.private(mra.private.bytes());
            }
            CmMessage::Rtu(rtu) => {
                self.ids(rtu.local_id, rtu.remote_id);
                self.private(rtu.private.bytes());
            }
            CmMessage::Dreq(dreq) => {
                self.ids(dreq.local_id, dreq.remote_id);
                self.add("remote_qpn", dreq.remote_qpn.get().into());
                self.say(format_args!(" to end QP {}", dreq.remote_qpn));
                self.private(dreq.private.bytes());
            }
            CmMessage::Drep(drep) => {
                self.ids(drep.local_id, drep.remote_id);
                self.private(drep.private.bytes());
            }
        }
    }

    fn req(&mut self, req: &Req<'_>) {
        self.add("local_comm_id", req.local_id.into());
        let transport = match req.service_type {
            ServiceType::Rc => "RC",
            ServiceType::Uc => "UC",
            ServiceType::Xrc => "XRC",
        };
        self.say(format_args!("id {:#010x} {transport}", req.local_id));
        let has_addresses = self.service(req.service);
        self.add("ca_guid", hex(req.ca_guid));
        self.add("local_qpn", req.qpn.get().into());
        self.add("responder_resources", req.responder_resources.into());
        self.add("initiator_depth", req.initiator_depth.into());
        self.add(
            "remote_response_timeout",
            req.remote_response_timeout.into(),
        );
        self.add("transport", text(transport));
        self.add("flow_control", Value::Flag(req.flow_control));
        self.add("starting_psn", req.psn.get().into());
        self.add("local_response_timeout", req.local_response_timeout.into());
        self.add("retry_count", req.retry_count.into());
        self.add("pkey", u32::from(req.pkey.0).into());
        let mtu = u32::try_from(req.path_mtu.bytes()).unwrap_or_default();
        self.add("path_mtu", mtu.into());
        self.add("rnr_retry_count", req.rnr_retry_count.into());
        self.add("max_cm_retries", req.max_cm_retries.into());
        self.add("srq", Value::Flag(req.srq));
        self.path(&req.path);
        self.say(format_args!(" QP {} PSN {} mtu {mtu}", req.qpn, req.psn));
        self.private_of_service(req.private.bytes(), has_addresses);
    }

    fn path(&mut self, path: &PathRecord) {
        self.add("local_lid", u32::from(path.local_lid).into());
        self.add("remote_lid", u32::from(path.remote_lid).into());
        self.add("local_gid", Value::Text(path.local_gid.to_string()));
        self.add("remote_gid", Value::Text(path.remote_gid.to_string()));
        self.add("flow_label", path.flow_label.into());
        self.add("packet_rate", path.packet_rate.into());
        self.add("traffic_class", path.traffic_class.into());
        self.add("hop_limit", path.hop_limit.into());
        self.add("service_level", path.service_level.into());
        self.add("subnet_local", Value::Flag(path.subnet_local));
        self.add("ack_timeout", path.ack_timeout.into());
    }

    fn rep(&mut self, rep: &Rep<'_>) {
        self.ids(rep.local_id, rep.remote_id);
        self.add("qkey", rep.qkey.0.into());
        self.add("local_qpn", rep.qpn.get().into());
        self.add("local_eecn", rep.eecn.get().into());
        self.add("starting_psn", rep.psn.get().into());
        self.add("responder_resources", rep.responder_resources.into());
        self.add("initiator_depth", rep.initiator_depth.into());
        self.add("target_ack_delay", rep.target_ack_delay.into());
        self.add("failover", rep.failover.into());
        self.add("flow_control", Value::Flag(rep.flow_control));
        self.add("rnr_retry_count", rep.rnr_retry_count.into());
        self.add("srq", Value::Flag(rep.srq));
        self.add("ca_guid", hex(rep.ca_guid));
        self.say(format_args!(" QP {} PSN {}", rep.qpn, rep.psn));
        self.private(rep.private.bytes());
    }

    fn rej(&mut self, rej: &Rej<'_>) {
        self.ids(rej.local_id, rej.remote_id);
        let rejected = match rej.rejected {
            Rejected::Req => "REQ",
            Rejected::Rep => "REP",
            Rejected::NoMessage => "none",
        };
        self.add("message", text(rejected));
        self.add("reason", u32::from(rej.reason.0).into());
        self.add("reason_name", text(rej.reason.name()));
        self.say(format_args!(" of {rejected}: {}", rej.reason));
        self.bytes("additional_info", rej.info.bytes());
        self.private(rej.private.bytes());
    }

    fn sidr_req(&mut self, req: &SidrReq<'_>) {
        self.add("request_id", req.request_id.into());
        self.say(format_args!("id {:#010x}", req.request_id));
        self.add("pkey", u32::from(req.pkey.0).into());
        let has_addresses = self.service(req.service);
        self.private_of_service(req.private.bytes(), has_addresses);
    }

    fn sidr_rep(&mut self, rep: &SidrRep<'_>) {
        self.add("request_id", rep.request_id.into());
        self.add("status", rep.status.0.into());
        self.add("status_name", text(rep.status.name()));
        self.add("qpn", rep.qpn.get().into());
        self.add("qkey", rep.qkey.0.into());
        let (id, name) = (rep.request_id, rep.status.name());
        self.say(format_args!(
            "id {id:#010x} QP {} qkey {}: {name}",
            rep.qpn, rep.qkey
        ));
        self.service(rep.service);
        self.private(rep.private.bytes());
    }

    /// Adds the service of a message. Returns whether its private data begins with the addresses of
    /// Annex A11.
    fn service(&mut self, service: ServiceId) -> bool {
        self.add("service_id", hex(service.0));
        let Some((space, port)) = service.port() else {
            self.say(format_args!(" service {service}"));
            return false;
        };
        let space = format!("{space:?}").to_lowercase();
        self.say(format_args!(" {space} port {port}"));
        self.add("port_space", Value::Text(space));
        self.add("port", u32::from(port).into());
        true
    }

    fn private_of_service(&mut self, private: &[u8], has_addresses: bool) {
        let mut rest = private;
        if has_addresses && let Ok(ip) = IpService::parse(private) {
            let (source, port) = (ip.source, ip.source_port);
            self.add("source", Value::Text(source.to_string()));
            self.add("source_port", u32::from(port).into());
            self.add("destination", Value::Text(ip.destination.to_string()));
            let source = std::net::SocketAddr::new(source, port);
            self.say(format_args!(" from {source} to {}", ip.destination));
            rest = private.get(IpService::LEN..).unwrap_or_default();
        }
        self.private(rest);
    }

    fn ids(&mut self, local: u32, remote: u32) {
        self.add("local_comm_id", local.into());
        self.add("remote_comm_id", remote.into());
        self.say(format_args!("id {local:#010x} peer's {remote:#010x}"));
    }

    fn private(&mut self, bytes: &[u8]) {
        self.bytes("private_data", bytes);
    }

    /// Adds bytes as hexadecimal digits, without padding zeros. Adds nothing if only zeros remain.
    fn bytes(&mut self, name: &'static str, bytes: &[u8]) {
        let len = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |at| at + 1);
        let mut digits = String::new();
        for byte in bytes.iter().take(len) {
            let _ = write!(digits, "{byte:02x}");
        }
        if len > 0 {
            self.add(name, Value::Text(digits));
        }
    }

    fn add(&mut self, name: &'static str, value: Value) {
        self.fields.push((name, value));
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = self.brief.write_fmt(what);
    }
}

impl Serialize for DecodedCm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len() + 1))?;
        map.serialize_entry("type", self.kind.name())?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}

impl From<u8> for Value {
    fn from(number: u8) -> Self {
        Self::Number(number.into())
    }
}

/// Many readers of JSON keep fewer than 64 bits.
fn hex(number: u64) -> Value {
    Value::Text(format!("{number:#018x}"))
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk);
    four.map_or(0, |four| u32::from_be_bytes(*four))
}
