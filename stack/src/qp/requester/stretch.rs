//! The middle of a long message: packets that differ only in PSN and payload, and in the address if
//! each is a message of its own.
//!
//! The decisions and lookups that [`transmit`](super::transmit) makes for each packet have the same
//! result up to the next packet that has to ask for an acknowledgement, as long as nothing arrives
//! in between. So they are made only once.

use super::packets::{AckReq, Sent, bth, data_headers, data_opcode};
use super::{Requester, SendWqe};
use crate::qp::emit::{EmitError, Run, Written, count_packets, write_run};
use crate::qp::{Core, Cx, sgl};
use crate::transmit::Transmit;
use roce_wire::PacketRepr;
use roce_wire::icrc::Unsealed;

impl Requester {
    /// Sends up to `max` packets from `nxt` on that are in the middle of a SEND or WRITE, are sent
    /// for the first time, and need not ask for an acknowledgement. The packet before `nxt` has
    /// just been sent. Returns the number of packets: 0 if there are none, or if the payload is not
    /// contiguous in one scatter/gather element.
    #[inline(never)]
    pub(super) fn send_middle(
        &mut self,
        cx: &mut Cx<'_>,
        port: &mut dyn Transmit,
        core: &Core,
        wqe: &SendWqe,
        max: u64,
    ) -> Result<u64, EmitError> {
        let wanted = (wqe.last() - self.nxt).min(self.until_ack_req()).min(max);
        let (begun, first_time) = (self.nxt > wqe.first, self.nxt >= self.max);
        if wanted == 0 || !begun || !first_time {
            return Ok(0);
        }
        let path = core.config.path.as_ref().ok_or(EmitError::Full)?;
        let mtu = core.config.mtu();
        let len = wanted * mtu as u64;
        let offset = (self.nxt - wqe.first) * mtu as u64;
        let source = self.sq.source(self.cursor);
        let Some(mut rest) = sgl::contiguous(&cx.nic.memory, core.pd, source, offset, len) else {
            return Ok(0);
        };
        let mut repr = PacketRepr {
            bth: bth(core, data_opcode(wqe, false, false), self.nxt),
            ext: data_headers(wqe, offset, mtu),
        };
        let advance = |repr: &mut PacketRepr| {
            // rule: 9.7.3.1-psn-each
            repr.bth.psn = repr.bth.psn.next();
            if let Some(reth) = &mut repr.ext.reth {
                reth.va = reth.va.wrapping_add(mtu as u64);
            }
        };
        let (mut sent, mut result) = (0, Ok(()));
        while sent < wanted {
            let run = Run {
                path,
                from_qp: core.qpn,
                sequenced: self.sequenced(self.nxt + sent),
                payload_len: mtu,
                count: usize::try_from(wanted - sent).unwrap_or(usize::MAX),
            };
            let fill = |packet: &mut Unsealed<'_>| rest.take_front(mtu).read_into(packet);
            match write_run(port, &run, &mut repr, fill, advance) {
                Ok((packets, written)) => {
                    count_packets(&mut cx.nic.counters, written, packets, mtu);
                    sent += packets as u64;
                    let last = self.nxt + (sent - 1);
                    self.kept_packets.note(written == Written::Kept, last);
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if sent > 0 {
            let (opcode, first) = (repr.bth.opcode, self.nxt.wire());
            cx.observe.sent_middle(opcode, first, sent);
            let sent = Sent {
                packets: sent,
                ack_req: AckReq::No,
                timed: false,
                // Noted above, run by run.
                kept: false,
            };
            self.move_past(cx, sent);
        }
        result.map(|()| sent)
    }

    /// The number of packets in mid-message, from `nxt` on, that need not ask for an
    /// acknowledgement. The limit makes sure that a packet that asks is in flight before the window
    /// closes, and before `shared_end`, the limit shared by all QPs to this peer.
    #[inline]
    pub(super) fn until_ack_req(&self) -> u64 {
        let window = self.send_window.packets();
        let often = (window / 4).max(1).saturating_sub(self.since_ack_req + 1);
        let closes = window.saturating_sub(self.nxt.next() - self.una);
        let ends = self.shared_end - self.nxt.next();
        often.min(closes).min(ends)
    }
}
