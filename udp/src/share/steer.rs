//! The programs by which the kernel steers packets.

use std::io;
use std::os::fd::BorrowedFd;

use libc::{
    BPF_ABS, BPF_ALU, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_RSH, sock_filter,
};
use roce_stack::QpnPart;

use crate::sys::options::attach_program;

/// Where the first byte of the destination QPN is in the BTH.
const QPN: u32 = 5;
const UDP_HEADER: u32 = 8;
/// `ret a`, which the libc crate lacks.
const BPF_RET_A: u32 = BPF_RET | 0x10;

/// Makes the group of this socket steer by the part of the destination QPN: the number of
/// the part is the number of the socket. What is too short for a QPN goes to the first.
pub(super) fn by_part(socket: BorrowedFd<'_>) -> io::Result<()> {
    // It sees the UDP payload.
    let program = [
        step(BPF_LD | BPF_B | BPF_ABS, QPN),
        step(BPF_ALU | BPF_RSH | BPF_K, QpnPart::SHIFT),
        step(BPF_RET_A, 0),
    ];
    attach_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Lets nothing into the socket but what is for QPs in `part`: what the group has no socket
/// for goes anywhere. Of a bundle, only the first packet is looked at.
pub(super) fn only_part(socket: BorrowedFd<'_>, part: QpnPart) -> io::Result<()> {
    // It sees the UDP header, too.
    let program = [
        step(BPF_LD | BPF_B | BPF_ABS, UDP_HEADER + QPN),
        step(BPF_ALU | BPF_RSH | BPF_K, QpnPart::SHIFT),
        jump_unless_equal(part.number().into(), 1),
        step(BPF_RET | BPF_K, u32::MAX),
        step(BPF_RET | BPF_K, 0),
    ];
    attach_program(socket, libc::SO_ATTACH_FILTER, &program)
}

/// Lets nothing into the socket.
pub(super) fn nothing(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_FILTER, &[step(BPF_RET | BPF_K, 0)])
}

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter {
        // All codes are below 256.
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn jump_unless_equal(k: u32, over: u8) -> sock_filter {
    sock_filter {
        jf: over,
        ..step(BPF_JMP | BPF_JEQ | BPF_K, k)
    }
}
