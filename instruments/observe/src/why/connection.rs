//! One connection that was not made, as people read it.

use super::evidence::{self, Evidence, Finding};
use super::explanation::write_lines;
use core::fmt;
use roce_cm::{PortSpace, RejectReason, SidrStatus};
use serde::Serialize;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

/// The ends of a connection, and which of them this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ends {
    /// This end; `None` if the program named no address, and none was found.
    pub local: Option<SocketAddr>,
    /// The peer; `None` if it is not known.
    pub remote: Option<SocketAddr>,
    /// The port space of both ports.
    #[serde(serialize_with = "space_name")]
    pub space: PortSpace,
    /// Whether the peer has requested the connection.
    pub is_passive: bool,
}

fn space_name<S: serde::Serializer>(space: &PortSpace, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(c_space(*space))
}

fn c_space(space: PortSpace) -> &'static str {
    match space {
        PortSpace::Ipoib => "RDMA_PS_IPOIB",
        PortSpace::Tcp => "RDMA_PS_TCP",
        PortSpace::Udp => "RDMA_PS_UDP",
        PortSpace::Ib => "RDMA_PS_IB",
    }
}

impl Ends {
    /// The ends of a connection that this process requests.
    pub const fn new(
        local: Option<SocketAddr>,
        remote: Option<SocketAddr>,
        space: PortSpace,
    ) -> Self {
        Self {
            local,
            remote,
            space,
            is_passive: false,
        }
    }

    /// The same ends, of a connection that the peer has requested.
    #[must_use]
    pub const fn passive(self) -> Self {
        Self {
            is_passive: true,
            ..self
        }
    }

    /// Where the peer is, in words.
    fn peer(&self) -> String {
        match self.remote {
            Some(remote) => format!("{} of {}", port(self.space, remote), remote.ip()),
            None => "the peer".to_owned(),
        }
    }
}

fn port(space: PortSpace, address: SocketAddr) -> String {
    format!("port {} ({})", address.port(), c_space(space))
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = match self.is_passive {
            true => (self.remote, self.local),
            false => (self.local, self.remote),
        };
        f.write_str("connection")?;
        if let Some(from) = from {
            write!(f, " from {from}")?;
        }
        if let Some(to) = to {
            write!(f, " to {to}")?;
        }
        Ok(())
    }
}

/// Why a connection was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionFault {
    /// The peer rejected it.
    Rejected {
        /// The peer's reason.
        reason: RejectReason,
        /// The peer's private data. The message has no length, so zeros may follow.
        private: Vec<u8>,
    },
    /// The peer did not name the QP of a datagram service.
    NoService(SidrStatus),
    /// The peer did not answer.
    NoAnswer,
    /// This end could not go on.
    Own {
        /// The step that failed.
        step: &'static str,
        /// Why not.
        reason: String,
        /// The usual remedy.
        advice: &'static str,
    },
}

/// A connection that was not made: what the program sees, why, and what to do.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct FailedConnection {
    /// The process.
    pub process_id: u32,
    /// The ends.
    pub connection: Ends,
    /// The event that reports it, in C.
    pub event: &'static str,
    /// The `status` of that event.
    pub event_status: i32,
    /// Why.
    pub why: String,
    /// The likely cause of lost packets, if the evidence points to one.
    pub likely: Option<&'static str>,
    /// The evidence, in words.
    pub evidence: Vec<String>,
    /// The advice, the most likely help first.
    pub advice: Vec<&'static str>,
}

impl FailedConnection {
    /// Explains a failure of this process that an event reports.
    /// [`FailedConnection::add_evidence`] adds what became of packets that
    /// nobody has answered.
    #[cold]
    pub fn new(
        ends: Ends,
        (event, event_status): (&'static str, i32),
        fault: &ConnectionFault,
    ) -> Self {
        Self {
            process_id: std::process::id(),
            connection: ends,
            event,
            event_status,
            why: fault.why(&ends),
            likely: None,
            evidence: Vec::new(),
            advice: fault.advice(&ends),
        }
    }

    /// Adds what shows why the packets to a silent peer got lost, if its address is known. The
    /// caller holds no lock that packets need.
    #[cold]
    pub fn add_evidence(&mut self, gathered: &mut GatheredEvidence) {
        let Some((local, remote)) = self.connection.local.zip(self.connection.remote) else {
            return;
        };
        let findings = gathered.between((local.ip(), remote.ip()));
        if let Some(meaning) = findings.iter().find_map(|found| found.meaning) {
            self.likely = Some(meaning.likely);
            self.advice = vec![meaning.advice];
        }
        self.evidence
            .extend(findings.iter().map(|found| found.fact.clone()));
    }
}

/// The evidence of why management datagrams get lost, gathered once for each path.
#[derive(Debug)]
pub struct GatheredEvidence {
    evidence: Evidence,
    port_counters: Vec<(&'static str, u64)>,
    paths: HashMap<(IpAddr, IpAddr), Vec<Finding>>,
}

impl GatheredEvidence {
    /// Has gathered nothing yet but the counters of the device's port.
    pub fn new(evidence: &Evidence, port_counters: Vec<(&'static str, u64)>) -> Self {
        Self {
            evidence: evidence.clone(),
            port_counters,
            paths: HashMap::new(),
        }
    }

    fn between(&mut self, path: (IpAddr, IpAddr)) -> &[Finding] {
        let gather =
            || evidence::between(path, REQUESTS.into(), &self.port_counters, &self.evidence);
        self.paths.entry(path).or_insert_with(gather)
    }
}

impl fmt::Display for FailedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process_id,
            connection,
            event,
            event_status,
            why,
            ..
        } = self;
        write!(
            f,
            "{connection} in process {process_id} failed: {event}, status {event_status}\n  why       {why}"
        )?;
        if let Some(likely) = self.likely {
            write!(f, "\n  likely    {likely}")?;
        }
        write_lines(f, "evidence", &self.evidence)?;
        write_lines(f, "do", &self.advice)
    }
}

/// The number of times that a request to a silent peer is sent: once, and its retries.
const REQUESTS: u32 = 1 + 15;

impl ConnectionFault {
    fn why(&self, ends: &Ends) -> String {
        let peer = ends.peer();
        match self {
            Self::Rejected { reason, private } => why_rejected(*reason, private, ends),
            Self::NoService(status) => match *status {
                SidrStatus::SERVICE_ID_NOT_SUPPORTED => nobody_listens(ends),
                SidrStatus::REJECTED => {
                    format!("the program at {peer} refused to name its QP (rdma_reject)")
                }
                status => format!("{peer} named no QP: {status}"),
            },
            Self::NoAnswer if ends.is_passive => format!(
                "this end has accepted, and {peer} has not confirmed that the connection is ready"
            ),
            Self::NoAnswer => {
                format!("{peer} has not answered the request")
            }
            Self::Own { step, reason, .. } => format!("{step}: {reason}"),
        }
    }

    fn advice(&self, ends: &Ends) -> Vec<&'static str> {
        match self {
            Self::Rejected { reason, .. } => advice_for_rejection(*reason, ends).to_vec(),
            Self::NoService(SidrStatus::SERVICE_ID_NOT_SUPPORTED) => LISTENER.to_vec(),
            Self::NoService(_) => vec![PEERS_OUTPUT],
            Self::NoAnswer => vec![
                "is the peer's host up, and does its RDMA program run?",
                "does UDP port 4791 pass in both directions? A firewall that drops it gives no other sign",
                "is the address that of the peer's RDMA interface? There must be a RoCE device on it",
            ],
            Self::Own { advice, .. } => vec![advice],
        }
    }
}

fn nobody_listens(ends: &Ends) -> String {
    format!("no program listens at {}", ends.peer())
}

/// Private data in words: its text, or its first bytes.
fn private_data(bytes: &[u8]) -> String {
    const SHOWN: usize = 16;
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else {
        return "without private data".to_owned();
    };
    let data = &bytes[..=last];
    match std::str::from_utf8(data) {
        Ok(text) if !text.contains(char::is_control) => {
            format!("with the private data \"{text}\"")
        }
        _ => {
            let more = if data.len() > SHOWN { " ..." } else { "" };
            let digits: Vec<_> = data
                .iter()
                .take(SHOWN)
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!("with the private data {}{more}", digits.join(" "))
        }
    }
}

fn why_rejected(reason: RejectReason, private: &[u8], ends: &Ends) -> String {
    let peer = ends.peer();
    let RejectReason(number) = reason;
    match reason {
        // No message of the peer's agent has ended the connection.
        RejectReason::INVALID_SERVICE_ID if private.is_empty() => format!(
            "{}: its host refuses packets to UDP port 4791, so no RDMA program runs there",
            nobody_listens(ends)
        ),
        RejectReason::INVALID_SERVICE_ID => nobody_listens(ends),
        RejectReason::CONSUMER => {
            let data = private_data(private);
            format!(
                "the program at {peer} refused the connection (rdma_reject) {data}, or destroyed its ID"
            )
        }
        RejectReason::TIMEOUT if ends.is_passive => {
            format!("{peer} gave up before this end had accepted, or its program has ended")
        }
        RejectReason::TIMEOUT => format!("{peer} gave up, or its program has ended"),
        RejectReason::NO_RESOURCES if ends.is_passive => {
            format!("{peer} could not use the connection that this end had accepted")
        }
        RejectReason::NO_RESOURCES => format!("{peer} could not take the connection"),
        RejectReason::INVALID_TRANSPORT_SERVICE_TYPE => {
            format!(
                "{peer} takes no connections of this kind of QP: one end has an XRC QP and the other has none"
            )
        }
        RejectReason::STALE_CONNECTION => {
            format!("to {peer}, this QP belongs to an earlier connection, which has not ended")
        }
        reason => format!("{peer} rejected it: {} (reason {number})", reason.name()),
    }
}

const LISTENER: &[&str] = &[
    "start the server before its client: a request waits for a listener for one second",
    "compare address, port and port space (RDMA_PS_TCP, RDMA_PS_UDP) with those of the server's rdma_bind_addr and rdma_listen",
];

const PEERS_OUTPUT: &str = "the peer's own output, or its private data, tells why";

fn advice_for_rejection(reason: RejectReason, ends: &Ends) -> &'static [&'static str] {
    match reason {
        RejectReason::INVALID_SERVICE_ID => LISTENER,
        RejectReason::TIMEOUT if ends.is_passive => &[
            "call rdma_accept sooner after RDMA_CM_EVENT_CONNECT_REQUEST",
            PEERS_OUTPUT,
        ],
        RejectReason::NO_RESOURCES => {
            &["the peer's own report names the call that failed: run it with ROCE_WHY=stderr, too"]
        }
        RejectReason::INVALID_TRANSPORT_SERVICE_TYPE => &[
            "create both QPs with the same qp_type, or with IBV_QPT_XRC_SEND at the client and IBV_QPT_XRC_RECV at the server",
        ],
        RejectReason::STALE_CONNECTION => &["connect with a new QP"],
        _ => &[PEERS_OUTPUT],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(fault: &ConnectionFault, ends: Ends) -> FailedConnection {
        FailedConnection::new(ends, ("RDMA_CM_EVENT_REJECTED", 8), fault)
    }

    fn ends() -> Ends {
        let address = |text: &str| Some(text.parse().expect("an address"));
        Ends::new(
            address("10.0.0.1:4000"),
            address("10.0.0.2:7471"),
            PortSpace::Tcp,
        )
    }

    fn rejected(reason: RejectReason) -> ConnectionFault {
        ConnectionFault::Rejected {
            reason,
            private: b"no room\0\0".to_vec(),
        }
    }

    #[test]
    fn the_text_has_both_ends_the_event_and_what_to_do() {
        let fault = rejected(RejectReason::INVALID_SERVICE_ID);
        let text = explained(&fault, ends()).to_string();
        let first = format!(
            "connection from 10.0.0.1:4000 to 10.0.0.2:7471 in process {} failed: RDMA_CM_EVENT_REJECTED, status 8\n  \
             why       no program listens at port 7471 (RDMA_PS_TCP) of 10.0.0.2\n  \
             do        start the server before its client",
            std::process::id()
        );
        assert!(text.starts_with(&first), "{text}");
    }

    /// The host has answered for the agent that it does not have.
    #[test]
    fn a_refusal_without_an_agent_is_named() {
        let fault = ConnectionFault::Rejected {
            reason: RejectReason::INVALID_SERVICE_ID,
            private: Vec::new(),
        };
        let why = explained(&fault, ends()).why;
        let expected = "no program listens at port 7471 (RDMA_PS_TCP) of 10.0.0.2: its host \
                        refuses packets to UDP port 4791, so no RDMA program runs there";
        assert_eq!(why, expected);
    }

    /// A connection is from the end that has requested it.
    #[test]
    fn the_passive_end_is_the_one_connected_to() {
        let text = ends().passive().to_string();
        assert_eq!(text, "connection from 10.0.0.2:7471 to 10.0.0.1:4000");
    }

    #[test]
    fn each_reason_has_words_and_advice() {
        for number in 0..40 {
            for ends in [ends(), ends().passive()] {
                let found = explained(&rejected(RejectReason(number)), ends);
                assert!(
                    !found.why.is_empty() && !found.advice.is_empty(),
                    "{number}"
                );
            }
        }
        let unknown = explained(&rejected(RejectReason(39)), ends());
        assert!(
            unknown.why.ends_with("another reason (reason 39)"),
            "{}",
            unknown.why
        );
        for number in 0..9 {
            let found = explained(&ConnectionFault::NoService(SidrStatus(number)), ends());
            assert!(
                !found.why.is_empty() && !found.advice.is_empty(),
                "{number}"
            );
        }
    }

    #[test]
    fn private_data_is_text_or_bytes() {
        assert_eq!(private_data(&[0; 148]), "without private data");
        assert_eq!(private_data(b"full\0\0"), "with the private data \"full\"");
        assert_eq!(private_data(&[1, 0xff, 0]), "with the private data 01 ff");
        let long = private_data(&[7; 17]);
        assert!(long.ends_with("07 07 ..."), "{long}");
    }

    #[test]
    fn json_has_the_ends_in_an_object() {
        let found = explained(&rejected(RejectReason::CONSUMER), ends());
        let json = serde_json::to_value(found).expect("JSON");
        assert_eq!(json["connection"]["remote"], "10.0.0.2:7471");
        assert_eq!(json["connection"]["space"], "RDMA_PS_TCP");
        assert_eq!(json["event_status"], 8);
        let why = "the program at port 7471 (RDMA_PS_TCP) of 10.0.0.2 refused the connection (rdma_reject) with the private data \"no room\", or destroyed its ID";
        assert_eq!(json["why"], why);
        assert!(json["likely"].is_null());
    }
}
