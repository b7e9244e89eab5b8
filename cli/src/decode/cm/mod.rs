//! Communication management (CM) messages, which are datagrams to QP1 (IBTA 1.7, 12.6 and 12.11).

use std::fmt::Write as _;

use super::kinds::named_kinds;
use crate::object::{Member, Object, hex64};
use roce_wire::cm::IpService;
use roce_wire::cm::{
    CmMad, CmMessage, Mraed, PathRecord, Rej, Rejected, Rep, Req, ServiceId, ServiceType, SidrRep,
    SidrReq,
};
use roce_wire::{Bth, MadHeader, Opcode, Qpn};

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
    json: Object,
    /// The text for a line of output.
    brief: String,
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
            json: Object::default()
                .with("type", kind.name())
                .with("transaction", hex64(header.transaction)),
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
                    message.add("error", error.to_string());
                }
            }
        }
        Some(message)
    }

    /// The fields, in the order on the wire.
    pub(super) fn json(&self) -> &Object {
        &self.json
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
                self.add("message", mraed);
                self.add("service_timeout", mra.service_timeout);
                self.say(format_args!(" of {mraed} timeout {}", mra.service_timeout));
                self.private(mra.private.bytes());
            }
            CmMessage::Rtu(rtu) => {
                self.ids(rtu.local_id, rtu.remote_id);
                self.private(rtu.private.bytes());
            }
            CmMessage::Dreq(dreq) => {
                self.ids(dreq.local_id, dreq.remote_id);
                self.add("remote_qpn", dreq.remote_qpn.get());
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
        self.add("local_comm_id", req.local_id);
        let transport = match req.service_type {
            ServiceType::Rc => "RC",
            ServiceType::Uc => "UC",
            ServiceType::Xrc => "XRC",
        };
        self.say(format_args!("id {:#010x} {transport}", req.local_id));
        let has_addresses = self.service(req.service);
        self.add("ca_guid", hex64(req.ca_guid));
        self.add("local_qpn", req.qpn.get());
        self.add("responder_resources", req.responder_resources);
        self.add("initiator_depth", req.initiator_depth);
        self.add("remote_response_timeout", req.remote_response_timeout);
        self.add("transport", transport);
        self.add("flow_control", req.flow_control);
        self.add("starting_psn", req.psn.get());
        self.add("local_response_timeout", req.local_response_timeout);
        self.add("retry_count", req.retry_count);
        self.add("pkey", req.pkey.0);
        let mtu = u32::try_from(req.path_mtu.bytes()).unwrap_or_default();
        self.add("path_mtu", mtu);
        self.add("rnr_retry_count", req.rnr_retry_count);
        self.add("max_cm_retries", req.max_cm_retries);
        self.add("srq", req.srq);
        self.path(&req.path);
        self.say(format_args!(" QP {} PSN {} mtu {mtu}", req.qpn, req.psn));
        self.private_of_service(req.private.bytes(), has_addresses);
    }

    fn path(&mut self, path: &PathRecord) {
        self.add("local_lid", path.local_lid);
        self.add("remote_lid", path.remote_lid);
        self.add("local_gid", path.local_gid.to_string());
        self.add("remote_gid", path.remote_gid.to_string());
        self.add("flow_label", path.flow_label);
        self.add("packet_rate", path.packet_rate);
        self.add("traffic_class", path.traffic_class);
        self.add("hop_limit", path.hop_limit);
        self.add("service_level", path.service_level);
        self.add("subnet_local", path.subnet_local);
        self.add("ack_timeout", path.ack_timeout);
    }

    fn rep(&mut self, rep: &Rep<'_>) {
        self.ids(rep.local_id, rep.remote_id);
        self.add("qkey", rep.qkey.0);
        self.add("local_qpn", rep.qpn.get());
        self.add("local_eecn", rep.eecn.get());
        self.add("starting_psn", rep.psn.get());
        self.add("responder_resources", rep.responder_resources);
        self.add("initiator_depth", rep.initiator_depth);
        self.add("target_ack_delay", rep.target_ack_delay);
        self.add("failover", rep.failover);
        self.add("flow_control", rep.flow_control);
        self.add("rnr_retry_count", rep.rnr_retry_count);
        self.add("srq", rep.srq);
        self.add("ca_guid", hex64(rep.ca_guid));
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
        self.add("message", rejected);
        self.add("reason", rej.reason.0);
        self.add("reason_name", rej.reason.name());
        self.say(format_args!(" of {rejected}: {}", rej.reason));
        self.bytes("additional_info", rej.info.bytes());
        self.private(rej.private.bytes());
    }

    fn sidr_req(&mut self, req: &SidrReq<'_>) {
        self.add("request_id", req.request_id);
        self.say(format_args!("id {:#010x}", req.request_id));
        self.add("pkey", req.pkey.0);
        let has_addresses = self.service(req.service);
        self.private_of_service(req.private.bytes(), has_addresses);
    }

    fn sidr_rep(&mut self, rep: &SidrRep<'_>) {
        self.add("request_id", rep.request_id);
        self.add("status", rep.status.0);
        self.add("status_name", rep.status.name());
        self.add("qpn", rep.qpn.get());
        self.add("qkey", rep.qkey.0);
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
        self.add("service_id", hex64(service.0));
        let Some((space, port)) = service.port() else {
            self.say(format_args!(" service {service}"));
            return false;
        };
        let space = format!("{space:?}").to_lowercase();
        self.say(format_args!(" {space} port {port}"));
        self.add("port_space", space);
        self.add("port", port);
        true
    }

    fn private_of_service(&mut self, private: &[u8], has_addresses: bool) {
        let mut rest = private;
        if has_addresses && let Ok(ip) = IpService::parse(private) {
            let (source, port) = (ip.source, ip.source_port);
            self.add("source", source.to_string());
            self.add("source_port", port);
            self.add("destination", ip.destination.to_string());
            let source = std::net::SocketAddr::new(source, port);
            self.say(format_args!(" from {source} to {}", ip.destination));
            rest = private.get(IpService::LEN..).unwrap_or_default();
        }
        self.private(rest);
    }

    fn ids(&mut self, local: u32, remote: u32) {
        self.add("local_comm_id", local);
        self.add("remote_comm_id", remote);
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
            self.add(name, digits);
        }
    }

    fn add(&mut self, name: &'static str, value: impl Into<Member>) {
        self.json.add(name, value);
    }

    fn say(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = self.brief.write_fmt(what);
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(<[u8]>::first_chunk);
    four.map_or(0, |four| u32::from_be_bytes(*four))
}
