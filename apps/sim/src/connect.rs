//! Connects QPs on a fabric: brings both ends from RESET to RTS.

use crate::fabric::{Fabric, HostId};
use roce_stack::{
    Access, ModifyError, QpAttributes, QpKind, QpState, RateLimit, RoceVersion, TxMeta,
};
use roce_wire::{PathMtu, Psn, QKey, Qpn, RnrTimer};

/// The Q_Key of all UD QPs.
pub const QKEY: QKey = QKey(0x1234_5678);

/// The parameters of both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectSpec {
    /// The transport service. With XRC the first end is the initiator.
    pub kind: QpKind,
    /// The path MTU.
    pub path_mtu: PathMtu,
    /// The first PSN that each end sends.
    pub psn: [u32; 2],
    /// The access rights of peers.
    pub access: Access,
    /// READs and atomics that may be outstanding in each direction.
    pub rd_atomic: u8,
    /// The local ACK timeout: 4.096 µs × 2^timeout.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// Retries after RNR NAK; 7 for no limit.
    pub rnr_retry: u8,
    /// The code of the RNR timer.
    pub rnr_timer: u8,
    /// The traffic class of packets: DSCP and ECN.
    pub traffic_class: u8,
    /// The version of RoCE that carries the packets.
    pub version: RoceVersion,
    /// The highest rate of each end's path, in units of 1,000 bits a second; 0 for no limit. UD has
    /// none.
    pub static_rate: [u32; 2],
    /// The highest send rate that the application of each end sets.
    pub rate_limit: [RateLimit; 2],
}

impl Default for ConnectSpec {
    fn default() -> Self {
        Self {
            kind: QpKind::Rc,
            path_mtu: PathMtu::Mtu1024,
            psn: [0x10, 0x80_0000],
            access: Access::REMOTE_READ
                | Access::REMOTE_WRITE
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL
                | Access::FLUSH_PERSISTENT,
            rd_atomic: 4,
            timeout: 10,
            retry_cnt: 7,
            rnr_retry: 7,
            rnr_timer: 1,
            traffic_class: 2,
            version: RoceVersion::V2,
            static_rate: [0; 2],
            rate_limit: [RateLimit::NONE; 2],
        }
    }
}

/// Brings the QPs of both ends from RESET to RTS.
///
/// # Errors
/// If the NIC refuses an attribute.
pub fn connect(
    fabric: &mut Fabric,
    ends: [(HostId, Qpn); 2],
    spec: &ConnectSpec,
) -> Result<(), ModifyError> {
    move_on(fabric, ends, spec, 3)
}

/// Takes the first `steps` of those to INIT, RTR and RTS. RTR needs the peer's answer.
pub(crate) fn move_on(
    fabric: &mut Fabric,
    ends: [(HostId, Qpn); 2],
    spec: &ConnectSpec,
    steps: usize,
) -> Result<(), ModifyError> {
    for side in [0, 1] {
        let (host, qpn) = ends[side];
        let (peer, dest_qpn) = ends[1 - side];
        let path = spec.path(fabric, host, peer);
        let now = fabric.now();
        let transitions = spec.transitions(side, path, dest_qpn);
        for attributes in &transitions[..steps] {
            fabric.nic(host).modify_qp(now, qpn, attributes)?;
        }
    }
    Ok(())
}

/// The length in bytes of the header in front of each received message: the network header of UD.
pub fn header_bytes(kind: QpKind) -> usize {
    match kind {
        QpKind::Ud => 40,
        _ => 0,
    }
}

/// The kind of one end of a connection.
pub fn kind_of(kind: QpKind, side: usize) -> QpKind {
    match (kind.is_xrc(), side) {
        (false, _) => kind,
        (true, 0) => QpKind::XrcInitiator,
        (true, _) => QpKind::XrcTarget,
    }
}

impl ConnectSpec {
    /// The path from one host to another.
    pub(crate) fn path(&self, fabric: &Fabric, from: HostId, to: HostId) -> TxMeta {
        TxMeta {
            src: fabric.address(from),
            dst: fabric.address(to),
            traffic_class: self.traffic_class,
            hop_limit: 64,
            version: self.version,
        }
    }

    /// The attributes for INIT, RTR and RTS, as the service requires them.
    pub(crate) fn transitions(
        &self,
        side: usize,
        path: TxMeta,
        dest_qpn: Qpn,
    ) -> [QpAttributes; 3] {
        let kind = kind_of(self.kind, side);
        let connected = kind.is_connected();
        let sends = matches!(kind, QpKind::Rc | QpKind::XrcInitiator);
        let receives = matches!(kind, QpKind::Rc | QpKind::XrcTarget);
        let psn = |side: usize| Psn::new(self.psn[side]);
        let state = |state| QpAttributes {
            state: Some(state),
            ..QpAttributes::default()
        };
        let timer = RnrTimer::from_code(self.rnr_timer);
        let init = QpAttributes {
            access: connected.then_some(self.access),
            qkey: (!connected).then_some(QKEY),
            ..state(QpState::Init)
        };
        let rtr = QpAttributes {
            dest_qpn: connected.then_some(dest_qpn),
            path: connected.then_some(path),
            path_mtu: connected.then_some(self.path_mtu),
            static_rate: Some(self.static_rate[side]).filter(|rate| connected && *rate != 0),
            rq_psn: connected.then_some(psn(1 - side)),
            max_dest_rd_atomic: receives.then_some(self.rd_atomic),
            min_rnr_timer: timer.filter(|_| receives),
            ..state(QpState::Rtr)
        };
        let rts = QpAttributes {
            sq_psn: Some(psn(side)),
            timeout: (sends || receives).then_some(self.timeout),
            retry_cnt: sends.then_some(self.retry_cnt),
            rnr_retry: sends.then_some(self.rnr_retry),
            max_rd_atomic: sends.then_some(self.rd_atomic),
            rate_limit: Some(self.rate_limit[side]).filter(|limit| *limit != RateLimit::NONE),
            ..state(QpState::Rts)
        };
        [init, rtr, rts]
    }
}
