//! Admission: a QP accepts packets of its service, from its peer and in its partition, if its state
//! allows them (IBTA 1.7, 9.6.1).

use super::{Cx, Qp};
use crate::counters::DropReason;
use crate::encapsulation::RxMeta;
use crate::kind::QpState;
use core::hint::cold_path;
use roce_wire::Packet;

impl Qp {
    /// Drops a packet that the QP does not admit. After a failure such packets are not reported,
    /// because they would replace those before it.
    #[cold]
    pub(super) fn drop_unadmitted(&self, cx: &mut Cx<'_>, packet: &Packet<'_>, reason: DropReason) {
        if self.core.state == QpState::Err {
            cx.nic.counters.drop(reason);
            return;
        }
        cx.observe.received(packet);
        cx.observe.syndrome_of(packet);
        cx.drop(reason);
    }

    // rule: 9.2.3-migreq-taken
    /// Checks that the packet comes from the peer, and that the QP's state allows it.
    // rule: 9.8.2-source
    pub(super) fn admit(&self, meta: &RxMeta, packet: &Packet<'_>) -> Result<(), DropReason> {
        let opcode = packet.bth.opcode;
        // rule: CA17-39-transport-errors
        if opcode.transport() != self.core.kind.transport() {
            // rule: 9.6.1-service
            cold_path();
            return Err(DropReason::WrongTransport);
        }
        if !self.core.kind.accepts(opcode) {
            cold_path();
            return Err(DropReason::WrongDirection);
        }
        self.admit_address(meta)?;
        self.admit_partition(packet)?;
        // rule: 9.6.1-state
        let takes = match self.core.state {
            // rule: 10.3.1-sqd-receives
            QpState::Rts | QpState::Sqd | QpState::Sqe => true,
            // rule: 10.3.1-rtr-receives
            QpState::Rtr => opcode.is_request(),
            // rule: 10.3.1-err-silent
            QpState::Reset | QpState::Init | QpState::Err => false,
        };
        if takes {
            Ok(())
        } else {
            cold_path();
            Err(DropReason::WrongState)
        }
    }

    /// Checks that the packet comes from the peer. Datagrams have no peer, and may be of either
    /// version of RoCE.
    // rule: CA17-43-datagrams-of-both
    pub(super) fn admit_address(&self, meta: &RxMeta) -> Result<(), DropReason> {
        if self.core.kind.is_connected() {
            let Some(path) = &self.core.config.path else {
                cold_path();
                return Err(DropReason::WrongState);
            };
            // rule: 9.6.1-destination
            // A QP accepts packets from its peer only, because of the packet injection in ReDMArk
            // (USENIX Security 2021).
            // rule: 9.6.1-source
            if path.dst != meta.src || path.src != meta.dst {
                cold_path();
                return Err(DropReason::WrongPeer);
            }
            // rule: A16-versions-apart, CA17-41-gid-type-checked
            if path.version != meta.version() {
                cold_path();
                return Err(DropReason::WrongVersion);
            }
        }
        Ok(())
    }

    /// Checks that the packet is for the QP's partition.
    pub(super) fn admit_partition(&self, packet: &Packet<'_>) -> Result<(), DropReason> {
        // rule: 9.6.1-pkey
        if !self.core.config.pkey.matches(packet.bth.pkey) {
            cold_path();
            return Err(DropReason::WrongPKey);
        }
        Ok(())
    }
}
