//! The receiving half of a UD QP (IBTA 1.7, 9.8.3.2 and 9.9.3).

use super::grh::{network_header, network_kind};
use crate::counters::DropReason;
use crate::encapsulation::RxMeta;
use crate::mismatch::{Difference, Mismatch};
use crate::qp::arrivals::{self, Arrival};
use crate::qp::{Core, Cx, QpFailure, Receives, sgl};
use crate::wr::{DatagramSource, WcStatus};
use roce_wire::{Grh, Packet};

// rule: 9.8.3-no-order
/// Receives datagrams from any sender that knows the Q_Key.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) rq: Receives,
}

impl Receiver {
    pub(crate) fn new(rq: Receives) -> Self {
        Self { rq }
    }

    /// Handles a packet. A packet that can't be taken is dropped, and consumes no receive.
    // rule: 9.8.3-any-peer
    pub(crate) fn receive(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        meta: &RxMeta,
        packet: &Packet<'_>,
    ) -> Result<(), QpFailure> {
        match self.place(cx, core, meta, packet) {
            Ok(result) => result,
            // rule: 9.8.3-errors-stay
            Err(reason) => {
                cx.drop(reason);
                self.note(cx, core, meta, packet, reason);
                Ok(())
            }
        }
    }

    /// Notes a datagram that was dropped, if its sender and this QP do not fit.
    #[cold]
    fn note(
        &self,
        cx: &mut Cx<'_>,
        core: &Core,
        meta: &RxMeta,
        packet: &Packet<'_>,
        reason: DropReason,
    ) {
        let len = packet.payload.len();
        let difference = match (reason, packet.ext.deth) {
            (DropReason::WrongQKey, Some(deth)) => Difference::QKey {
                src_qpn: deth.src_qpn,
                sent: deth.qkey,
                own: core.config.qkey,
            },
            (DropReason::BadLength, _) => Difference::Length {
                len,
                mtu: core.config.mtu(),
            },
            (DropReason::NoReceive, _) => Difference::NoReceive,
            (DropReason::ReceiveTooSmall, _) => Difference::ReceiveTooShort {
                message: (Grh::LEN + len) as u64,
                header: Grh::LEN as u64,
                receive: self.rq.front().map_or(0, |wqe| wqe.len),
            },
            _ => return,
        };
        let found = Mismatch::new(core.qpn, meta, packet, (reason, difference));
        cx.observe.mismatch(found);
    }

    fn place(
        &mut self,
        cx: &mut Cx<'_>,
        core: &Core,
        meta: &RxMeta,
        packet: &Packet<'_>,
    ) -> Result<Result<(), QpFailure>, DropReason> {
        // Every UD packet has a DETH.
        let deth = packet.ext.deth.ok_or(DropReason::Malformed)?;
        // rule: 9.8.3-qkey-check
        if deth.qkey != core.config.qkey {
            return Err(DropReason::WrongQKey);
        }
        let len = packet.payload.len();
        if len > core.config.mtu() {
            // rule: 9.8.3-longer-than-mtu
            return Err(DropReason::BadLength);
        }
        self.rq.ensure_receive(cx);
        // rule: 9.8.3-no-receive-drops
        let wqe = self.rq.front().ok_or(DropReason::NoReceive)?;
        let bytes = Grh::LEN + len;
        if wqe.len < bytes as u64 {
            // rule: 9.8.3-too-small-receive
            return Err(DropReason::ReceiveTooSmall);
        }
        let header = network_header(meta, packet.repr().buffer_len(len));
        let (pd, sges) = (self.rq.pd(core), self.rq.sges());
        let placed = sgl::scatter(&cx.nic.memory, pd, sges, 0, &header)
            .and_then(|()| sgl::scatter(&cx.nic.memory, pd, sges, Grh::LEN as u64, packet.payload));
        let (status, arrival) = match placed {
            Ok(()) => (
                WcStatus::Success,
                Arrival {
                    // The length of a packet always fits.
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    by_write: false,
                    solicited: packet.bth.solicited,
                    imm: packet.ext.imm.map(|imm| imm.0),
                    invalidated: None,
                    // rule: 9.8.3-source-told
                    source: Some(DatagramSource {
                        qpn: deth.src_qpn,
                        pkey_index: 0,
                        grh: true,
                        network: network_kind(meta),
                    }),
                },
            ),
            // The receive itself is at fault (IBTA 1.7, 9.9.3.1.1).
            // rule: 9.8.3-bad-receive
            Err(_) => {
                cx.observe
                    .failed(arrivals::memory_cause(&cx.nic.memory, pd, sges, (0, bytes)));
                (WcStatus::LocalProtectionError, Arrival::default())
            }
        };
        let completed = arrivals::complete(&mut self.rq, cx, core, status, arrival);
        Ok(match (completed, placed) {
            (Err(failure), _) => Err(failure),
            (Ok(_), Err(_)) => Err(QpFailure::Receive),
            (Ok(_), Ok(())) => Ok(()),
        })
    }
}
