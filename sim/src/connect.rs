//! QPs on a fabric: made, and brought to RTS.

use crate::fabric::{Fabric, HostId};
use roce_stack::port::TxMeta;
use roce_stack::{Access, ModifyError, QpAttributes, QpState};
use roce_wire::{PathMtu, Psn, Qpn, RnrTimer};

/// How both ends of a connection are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectSpec {
    /// Payload bytes of a packet.
    pub path_mtu: PathMtu,
    /// The first PSN that each end sends.
    pub psn: [u32; 2],
    /// What peers may do.
    pub access: Access,
    /// READs and atomics that may be outstanding in each direction.
    pub rd_atomic: u8,
    /// 4.096 us x 2^timeout.
    pub timeout: u8,
    /// Transport retries.
    pub retry_cnt: u8,
    /// Retries after RNR NAK; 7 for ever.
    pub rnr_retry: u8,
    /// The code of the RNR timer.
    pub rnr_timer: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
}

impl Default for ConnectSpec {
    fn default() -> Self {
        Self {
            path_mtu: PathMtu::Mtu1024,
            psn: [0x10, 0x80_0000],
            access: Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC,
            rd_atomic: 4,
            timeout: 10,
            retry_cnt: 7,
            rnr_retry: 7,
            rnr_timer: 1,
            traffic_class: 2,
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
    for side in [0, 1] {
        let (host, qpn) = ends[side];
        let (peer, dest_qpn) = ends[1 - side];
        let path = TxMeta {
            src: fabric.address(host),
            dst: fabric.address(peer),
            traffic_class: spec.traffic_class,
            hop_limit: 64,
        };
        let psn = |side: usize| Some(Psn::new(spec.psn[side]));
        let init = QpAttributes {
            state: Some(QpState::Init),
            access: Some(spec.access),
            ..QpAttributes::default()
        };
        let rtr = QpAttributes {
            state: Some(QpState::Rtr),
            dest_qpn: Some(dest_qpn),
            path: Some(path),
            path_mtu: Some(spec.path_mtu),
            rq_psn: psn(1 - side),
            max_dest_rd_atomic: Some(spec.rd_atomic),
            min_rnr_timer: RnrTimer::from_code(spec.rnr_timer),
            ..QpAttributes::default()
        };
        let rts = QpAttributes {
            state: Some(QpState::Rts),
            sq_psn: psn(side),
            timeout: Some(spec.timeout),
            retry_cnt: Some(spec.retry_cnt),
            rnr_retry: Some(spec.rnr_retry),
            max_rd_atomic: Some(spec.rd_atomic),
            ..QpAttributes::default()
        };
        let now = fabric.now();
        for step in [init, rtr, rts] {
            fabric.nic(host).modify_qp(now, qpn, &step)?;
        }
    }
    Ok(())
}
