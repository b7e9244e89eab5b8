//! Splits super-packets into the packets that are on the wire.

use roce_wire::{Frame, NetworkHeader};

use super::gso::{self, Gso};
use super::link;

/// Splits super-packets, one at a time.
#[derive(Debug, Default)]
pub(crate) struct Splitter {
    gso: Gso,
    buffer: Vec<u8>,
}

impl Splitter {
    /// Passes `bytes`, of type `link_type`, to `each`: unchanged or, if they are a super-packet, as
    /// segments with headers of their own.
    pub(crate) fn split(&mut self, link_type: u16, bytes: &[u8], mut each: impl FnMut(&[u8])) {
        let Ok(linked) = link::parse(link_type, bytes, &[]) else {
            return each(bytes);
        };
        let frame = linked.frame;
        // Only Ethernet's link header can be rewritten.
        let is_whole = linked.link_len == 0;
        let is_valid = frame.icrc_verdict() == roce_wire::IcrcVerdict::Valid;
        let len = match is_whole && !is_valid {
            true => self.gso.segment_len(&frame),
            false => None,
        };
        let Some(len) = len else { return each(bytes) };
        for (index, transport) in frame.transport.chunks(len).enumerate() {
            self.emit(&frame, index, transport);
            each(&self.buffer);
        }
    }

    /// Writes segment number `index`, counted from 0.
    fn emit(&mut self, frame: &Frame<'_>, index: usize, transport: &[u8]) {
        let mut repr = frame.repr();
        if let NetworkHeader::V4 { id, .. } = &mut repr.network {
            *id = gso::identification(frame, index, transport, *id);
        }
        if let Some(udp) = &mut repr.udp {
            // The checksum of the whole is wrong for a part. IPv4 does without one.
            udp.checksum = 0;
        }
        if let NetworkHeader::V6 { .. } = repr.network {
            let sum = repr.udp_checksum(transport).unwrap_or(0);
            if let Some(udp) = &mut repr.udp {
                udp.checksum = sum;
            }
        }
        self.buffer.clear();
        self.buffer.resize(repr.buffer_len(transport.len()), 0);
        repr.emit(&mut self.buffer, transport);
    }
}
