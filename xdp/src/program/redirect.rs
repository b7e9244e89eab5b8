//! The redirect program, instruction by instruction.

use std::os::fd::BorrowedFd;

use roce_stack::QpnRange;
use roce_wire::Qpn;

use super::asm::Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R10};
use super::asm::Size::{Byte, Double, Half, Word};
use super::asm::When::{Above, AnyBit, Equal, NotEqual};
use super::asm::{Assembler, Label};
use crate::sys::bpf::XDP_PASS;

/// Which RoCE frames the program redirects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectConfig {
    /// Whether to redirect RoCE v1, which has its own EtherType and a GRH in place of the IPv6
    /// header (InfiniBand Architecture Specification, Annex A16).
    pub roce_v1: bool,
    /// The part of the QPN space whose packets to redirect; all packets if `None`. Packets to other
    /// QPNs go to the kernel, for other processes that share the address. Multicast packets are
    /// always redirected. Packets to QP1 are redirected unless they reply to a request of another
    /// part.
    pub part: Option<QpnRange>,
}

/// Offsets in `struct xdp_md`.
mod context {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
    pub(super) const RX_QUEUE_INDEX: i16 = 16;
}

/// Helper functions of the kernel.
mod helper {
    pub(super) const MAP_LOOKUP_ELEM: i32 = 1;
    pub(super) const REDIRECT_MAP: i32 = 51;
}

const ETHERNET: i16 = 14;
const TAG: i16 = 4;
const IPV4: i16 = 20;
const IPV6: i16 = 40;
const UDP: i16 = 8;
const PROTOCOL_UDP: i32 = 17;
/// Stack offset of the address to look up: the last 16 bytes of the stack.
const KEY: i16 = -16;

/// A 16-bit field in network order, as a load on this machine returns it.
const fn field(value: u16) -> i32 {
    value.to_be() as i32
}

const BTH: i16 = 12;
/// Offset of the destination QPN's first byte in the BTH.
const QPN: i16 = 5;
/// The first byte of the QPN of multicast packets. No process owns the part that contains it.
const MULTICAST: i32 = 0xff;

/// Fields of management datagrams: their offsets from the start of the BTH, which include the BTH,
/// the DETH and, for IDs, the MAD header; and their values (IBTA 1.7, 13.4.3 and 16.7.3).
mod mad {
    pub(super) const CLASS: i16 = 21;
    pub(super) const COMMUNICATION: i32 = 7;
    pub(super) const ATTRIBUTE: i16 = 36;
    pub(super) const REQ: u16 = 0x10;
    pub(super) const SIDR_REQ: u16 = 0x17;
    pub(super) const SIDR_REP: u16 = 0x18;
    pub(super) const REQUEST_ID: i16 = 44;
    pub(super) const REMOTE_ID: i16 = 48;
}

/// Jump targets between the parts of the program.
#[derive(Clone, Copy)]
struct Targets {
    pass: Label,
    look_up: Label,
}

/// Assembles the program. R6 is the context. R3 points to the network header, and later to the
/// transport header. R8 is the end of the frame.
pub(super) fn assemble(
    sockets: BorrowedFd<'_>,
    addresses: BorrowedFd<'_>,
    config: &RedirectConfig,
) -> Vec<u64> {
    let mut asm = Assembler::default();
    let (pass, look_up) = (asm.label(), asm.label());
    let (network, ipv4, ipv6, v1) = (asm.label(), asm.label(), asm.label(), asm.label());
    let targets = Targets { pass, look_up };

    asm.copy(R6, R1);
    asm.load(Word, R7, R6, context::DATA);
    asm.load(Word, R8, R6, context::DATA_END);
    asm.copy(R3, R7);
    require_bytes(&mut asm, ETHERNET, pass);
    asm.load(Half, R2, R3, ETHERNET - 2);
    asm.jump_if(NotEqual, R2, field(0x8100), network);
    require_bytes(&mut asm, ETHERNET + TAG, pass);
    asm.load(Half, R2, R3, ETHERNET + TAG - 2);
    asm.add(R3, TAG.into());

    asm.place(network);
    asm.add(R3, ETHERNET.into());
    asm.jump_if(Equal, R2, field(0x0800), ipv4);
    asm.jump_if(Equal, R2, field(0x86dd), ipv6);
    if config.roce_v1 {
        asm.jump_if(Equal, R2, field(0x8915), v1);
    }
    asm.place(pass);
    asm.set(R0, XDP_PASS as i32);
    asm.exit();

    asm.place(ipv4);
    parse_ipv4(&mut asm, targets);
    asm.place(ipv6);
    parse_ipv6(&mut asm, targets);
    asm.place(v1);
    if config.roce_v1 {
        parse_grh(&mut asm, pass);
    }

    asm.place(look_up);
    if let Some(part) = config.part {
        require_part(&mut asm, part, pass);
    }
    asm.map(R1, addresses);
    asm.copy(R2, R10);
    asm.add(R2, KEY.into());
    asm.call(helper::MAP_LOOKUP_ELEM);
    asm.jump_if(Equal, R0, 0, pass);
    asm.map(R1, sockets);
    asm.load(Word, R2, R6, context::RX_QUEUE_INDEX);
    // The return value if the queue has no socket.
    asm.set(R3, XDP_PASS as i32);
    asm.call(helper::REDIRECT_MAP);
    asm.exit();
    asm.finish()
}

/// R3 points to the BTH of a packet. Jumps to `otherwise` unless the packet is for a QP in `part`,
/// for a multicast group, or for QP1. Also jumps for a packet to QP1 that replies to a request of
/// another part.
fn require_part(asm: &mut Assembler, part: QpnRange, otherwise: Label) {
    let (ours, to_qp, compare) = (asm.label(), asm.label(), asm.label());
    require_bytes(asm, BTH, otherwise);
    asm.load(Word, R4, R3, QPN - 1);
    asm.and(R4, 0x00ff_ffff_u32.to_be() as i32);
    asm.jump_if(NotEqual, R4, Qpn::QP1.get().to_be() as i32, to_qp);
    load_reply_id(asm, ours);
    asm.jump(compare);

    asm.place(to_qp);
    asm.load(Byte, R4, R3, QPN);
    asm.jump_if(Equal, R4, MULTICAST, ours);
    asm.place(compare);
    // Mask out the bits below the part's number.
    asm.and(R4, 0xff << QpnRange::SHIFT & 0xff);
    let number = i32::from(part.number()) << QpnRange::SHIFT;
    asm.jump_if(NotEqual, R4, number, otherwise);
    asm.place(ours);
}

/// Loads the first byte of the communication or request ID, which identifies the part that a reply
/// is for. The byte has the same layout as the first byte of a QPN. Jumps to `ours` if the datagram
/// is not a reply.
fn load_reply_id(asm: &mut Assembler, ours: Label) {
    let (lookup, end) = (asm.label(), asm.label());
    require_bytes(asm, mad::REMOTE_ID + 1, ours);
    asm.load(Byte, R4, R3, mad::CLASS);
    asm.jump_if(NotEqual, R4, mad::COMMUNICATION, ours);
    asm.load(Half, R4, R3, mad::ATTRIBUTE);
    asm.jump_if(Equal, R4, field(mad::REQ), ours);
    asm.jump_if(Equal, R4, field(mad::SIDR_REQ), ours);
    asm.jump_if(Equal, R4, field(mad::SIDR_REP), lookup);
    asm.load(Byte, R4, R3, mad::REMOTE_ID);
    asm.jump(end);
    asm.place(lookup);
    asm.load(Byte, R4, R3, mad::REQUEST_ID);
    asm.place(end);
}

/// Jumps to `otherwise` unless at least `bytes` bytes follow R3.
fn require_bytes(asm: &mut Assembler, bytes: i16, otherwise: Label) {
    asm.copy(R4, R3);
    asm.add(R4, bytes.into());
    asm.jump_if_reg(Above, R4, R8, otherwise);
}

fn parse_ipv4(asm: &mut Assembler, targets: Targets) {
    let Targets { pass, look_up } = targets;
    require_bytes(asm, IPV4 + UDP, pass);
    // Version 4, no options.
    asm.load(Byte, R4, R3, 0);
    asm.jump_if(NotEqual, R4, 0x45, pass);
    // "More fragments", or an offset.
    asm.load(Half, R4, R3, 6);
    asm.jump_if(AnyBit, R4, field(0x3fff), pass);
    asm.load(Byte, R4, R3, 9);
    asm.jump_if(NotEqual, R4, PROTOCOL_UDP, pass);
    asm.load(Half, R4, R3, IPV4 + 2);
    asm.jump_if(NotEqual, R4, field(roce_wire::UDP_PORT), pass);
    // The address mapped into IPv6: ::ffff:a.b.c.d
    asm.store_value(Double, R10, KEY, 0);
    asm.store_value(Word, R10, KEY + 8, 0x0000_ffff_u32.to_be() as i32);
    asm.load(Word, R4, R3, 16);
    asm.store(Word, R10, KEY + 12, R4);
    asm.add(R3, (IPV4 + UDP).into());
    asm.jump(look_up);
}

fn parse_ipv6(asm: &mut Assembler, targets: Targets) {
    let Targets { pass, look_up } = targets;
    require_bytes(asm, IPV6 + UDP, pass);
    asm.load(Byte, R4, R3, 0);
    asm.and(R4, 0xf0);
    asm.jump_if(NotEqual, R4, 0x60, pass);
    // No extension header, so no fragment.
    asm.load(Byte, R4, R3, 6);
    asm.jump_if(NotEqual, R4, PROTOCOL_UDP, pass);
    asm.load(Half, R4, R3, IPV6 + 2);
    asm.jump_if(NotEqual, R4, field(roce_wire::UDP_PORT), pass);
    store_ipv6_key(asm);
    asm.add(R3, (IPV6 + UDP).into());
    asm.jump(look_up);
}

/// A GRH has the layout of an IPv6 header, and the BTH follows it directly.
fn parse_grh(asm: &mut Assembler, pass: Label) {
    require_bytes(asm, IPV6, pass);
    asm.load(Byte, R4, R3, 0);
    asm.and(R4, 0xf0);
    asm.jump_if(NotEqual, R4, 0x60, pass);
    asm.load(Byte, R4, R3, 6);
    asm.jump_if(NotEqual, R4, roce_wire::Grh::NEXT_HEADER_BTH.into(), pass);
    store_ipv6_key(asm);
    asm.add(R3, IPV6.into());
}

/// Copies the destination address of an IPv6 header or GRH to the key.
fn store_ipv6_key(asm: &mut Assembler) {
    for word in 0..4 {
        asm.load(Word, R4, R3, 24 + word * 4);
        asm.store(Word, R10, KEY + word * 4, R4);
    }
}
