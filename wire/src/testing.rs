//! The code that tests share.

use std::vec;
use std::vec::Vec;

use crate::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, FlushPlacement, FlushSelectivity,
    Headers, Ieth, ImmDt, Opcode, PKey, PacketRepr, PayloadRule, Psn, QKey, Qpn, Reth, Syndrome,
    XrcEth,
};

/// Pseudo-random numbers that are the same in every run (splitmix64).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.next() as u32
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.next() & 1 != 0
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.next() as u8)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Headers of a packet with this opcode, with random fields.
    pub(crate) fn repr(&mut self, opcode: Opcode) -> PacketRepr {
        let bth = Bth {
            opcode,
            solicited: self.flag(),
            mig_req: self.flag(),
            pad: 0,
            version: 0,
            pkey: PKey(self.word() as u16),
            fecn: self.flag(),
            becn: self.flag(),
            dest_qpn: Qpn::from_bits(self.word()),
            ack_req: self.flag(),
            psn: Psn::new(self.word()),
        };
        PacketRepr {
            bth,
            ext: self.ext(opcode.info().headers),
        }
    }

    fn ext(&mut self, headers: Headers) -> ExtHeaders {
        let has = |header| headers.contains(header);
        ExtHeaders {
            xrceth: has(Headers::XRCETH).then(|| XrcEth {
                srqn: Qpn::from_bits(self.word()),
            }),
            deth: has(Headers::DETH).then(|| Deth {
                qkey: QKey(self.word()),
                src_qpn: Qpn::from_bits(self.word()),
            }),
            flush: has(Headers::FETH).then(|| Feth {
                placement: FlushPlacement::from_bits(self.word() as u8),
                selectivity: FlushSelectivity::from_bits(self.word() as u8),
            }),
            reth: has(Headers::RETH).then(|| Reth {
                va: self.next(),
                rkey: self.word(),
                dma_len: self.word(),
            }),
            atomic: has(Headers::ATOMIC).then(|| AtomicEth {
                va: self.next(),
                rkey: self.word(),
                swap_or_add: self.next(),
                compare: self.next(),
            }),
            aeth: has(Headers::AETH).then(|| Aeth {
                syndrome: Syndrome::from_byte(self.word() as u8),
                msn: self.word() & 0x00ff_ffff,
            }),
            atomic_ack: has(Headers::ATOMIC_ACK).then(|| AtomicAckEth {
                original: self.next(),
            }),
            imm: has(Headers::IMM).then(|| ImmDt(self.word())),
            ieth: has(Headers::IETH).then(|| Ieth(self.word())),
        }
    }
}

/// The packet's bytes, with zeros for the ICRC.
pub(crate) fn emit(repr: &PacketRepr, payload: &[u8]) -> Vec<u8> {
    let mut transport = vec![0xaa; repr.buffer_len(payload.len())];
    let at = repr.emit_headers(&mut transport, payload.len());
    transport[at..][..payload.len()].copy_from_slice(payload);
    let icrc_at = transport.len() - 4;
    transport[icrc_at..].fill(0);
    transport
}

/// Some payload lengths that the rule allows.
pub(crate) fn legal_lengths(rule: PayloadRule) -> &'static [usize] {
    match rule {
        PayloadRule::None => &[0],
        PayloadRule::ExactlyMtu => &[256, 512, 1024, 2048, 4096],
        PayloadRule::OneToMtu => &[1, 2, 3, 4, 5, 255, 1023, 4096],
        PayloadRule::UpToMtu => &[0, 1, 2, 3, 4, 5, 255, 1023, 4096],
        PayloadRule::Eight => &[8],
    }
}
