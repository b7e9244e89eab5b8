//! The BPF programs that steer packets to the sockets of a group.

use std::io;
use std::os::fd::BorrowedFd;

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_RSH,
    BPF_W, sock_filter,
};
use roce_stack::QpnRange;
use roce_wire::Qpn;

use super::addressee::{
    ATTRIBUTE, CLASS, COMMUNICATION, ID_SHIFT, QPN, REMOTE_ID, REQUEST_ID, SERVICE, attribute,
};
use super::names::SharedAddress;
use super::table::{MAX_READS, Table};
use crate::sys::options::attach_program;

#[cfg(any(test, fuzzing))]
pub(super) mod run;

const UDP_HEADER: u32 = 8;
/// `ret a`, which the libc crate lacks.
const BPF_RET_A: u32 = BPF_RET | 0x10;
/// The mask of the QPN in the 32-bit word whose last three bytes are the QPN.
const QPN_BITS: u32 = 0x00ff_ffff;
/// The high bits of a QPN are the number of its part.
const QPN_SHIFT: u32 = 16 + QpnRange::SHIFT;

/// A program's return value.
#[derive(Clone, Copy)]
enum ReturnValue {
    /// The value of the accumulator.
    Accumulator,
    Number(u32),
}

/// Attaches a program made from the current names to the group of this socket. Several processes
/// may do so at the same time. Each changes its own names first and reads all names afterwards, so
/// the last process to attach a program has seen all changes.
pub(super) fn update(shared: &SharedAddress, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut followed = None;
    for _ in 0..MAX_READS {
        let table = Table::read(shared)?;
        if followed.as_ref() == Some(&table) {
            break;
        }
        attach(socket, &table)?;
        followed = Some(table);
    }
    Ok(())
}

/// Attaches a program to the group of this socket that steers by the part of the destination QPN:
/// the part's number is the socket's number. `table` determines the recipients of management
/// datagrams. Packets that are too short to have the field go to the first socket.
pub(super) fn attach(socket: BorrowedFd<'_>, table: &Table) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &steering(table))
}

/// Makes the socket accept only packets for `part`, and management datagrams that identify no
/// process. The filter is needed because the kernel may deliver a packet for a part without a
/// socket to any socket of the group. The filter sees only the first packet of packets joined by
/// GRO.
pub(super) fn accept_only(socket: BorrowedFd<'_>, part: QpnRange) -> io::Result<()> {
    attach_program(socket, libc::SO_ATTACH_FILTER, &filter(part))
}

/// Closes the socket to all packets.
pub(super) fn accept_nothing(socket: BorrowedFd<'_>) -> io::Result<()> {
    attach_program(
        socket,
        libc::SO_ATTACH_FILTER,
        &[ret(ReturnValue::Number(0))],
    )
}

/// The program that picks a group's socket. Its input starts at the UDP payload.
pub(super) fn steering(table: &Table) -> Vec<sock_filter> {
    let others = [ret(ReturnValue::Number(
        table.default_agent().number().into(),
    ))];
    let mut requests = Vec::with_capacity(2 * table.services.len() + 2);
    requests.push(load(BPF_W, SERVICE, 0));
    for (service, part) in &table.services {
        requests.push(jump_unless_equal(*service, 1));
        requests.push(ret(ReturnValue::Number(part.number().into())));
    }
    requests.extend(others);
    by_addressee(0, &[ret(ReturnValue::Accumulator)], &others, &requests)
}

/// The program that filters a socket's packets. Its input starts at the UDP header.
pub(super) fn filter(part: QpnRange) -> Vec<sock_filter> {
    let everything = [ret(ReturnValue::Number(u32::MAX))];
    let own = [
        jump_unless_equal(part.number().into(), 1),
        ret(ReturnValue::Number(u32::MAX)),
        ret(ReturnValue::Number(0)),
    ];
    by_addressee(UDP_HEADER, &own, &everything, &everything)
}

/// A program that continues in one of three ways: in `own`, with a part's number in the
/// accumulator; in `requests`, if the packet is a request for a service; or in `others`, if it is
/// another management datagram that identifies no process. It decides as
/// [`Addressee::of`](super::addressee::Addressee::of) does. `from` is the offset of the BTH.
fn by_addressee(
    from: u32,
    own: &[sock_filter],
    others: &[sock_filter],
    requests: &[sock_filter],
) -> Vec<sock_filter> {
    let part_of = |shift| step(BPF_ALU | BPF_RSH | BPF_K, shift);
    let by = |load: sock_filter, shift| [&[load, part_of(shift)], own].concat();
    let to_qp = [&[part_of(QPN_SHIFT)], own].concat();
    let by_request_id = by(load(BPF_W, REQUEST_ID, from), ID_SHIFT);
    let by_remote_id = by(load(BPF_W, REMOTE_ID, from), ID_SHIFT);
    let mut program = vec![
        // The QPN and the byte before it.
        load(BPF_W, QPN - 1, from),
        step(BPF_ALU | BPF_AND | BPF_K, QPN_BITS),
        jump_if_equal(Qpn::QP1.get(), to_qp.len()),
    ];
    program.extend(to_qp);
    program.push(load(BPF_B, CLASS, from));
    program.push(jump_if_equal(COMMUNICATION.into(), others.len()));
    program.extend(others);
    program.push(load(BPF_H, ATTRIBUTE, from));
    // The code for requests comes last, because it may be long and a jump skips at most 255
    // instructions.
    let replies_len = 1 + by_request_id.len() + by_remote_id.len();
    program.push(jump_if_equal(attribute::REQ.into(), replies_len + 1));
    program.push(jump_if_equal(attribute::SIDR_REQ.into(), replies_len));
    program.push(jump_if_equal(
        attribute::SIDR_REP.into(),
        by_remote_id.len(),
    ));
    program.extend(by_remote_id);
    program.extend(by_request_id);
    program.extend(requests);
    program
}

fn load(size: u32, at: usize, from: u32) -> sock_filter {
    // An offset in a header fits in 32 bits.
    step(BPF_LD | size | BPF_ABS, from + at as u32)
}

fn ret(what: ReturnValue) -> sock_filter {
    match what {
        ReturnValue::Accumulator => step(BPF_RET_A, 0),
        ReturnValue::Number(number) => step(BPF_RET | BPF_K, number),
    }
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

/// Skips `over` instructions, at most 255, if the accumulator equals `k`.
fn jump_if_equal(k: u32, over: usize) -> sock_filter {
    sock_filter {
        jt: over as u8,
        ..step(BPF_JMP | BPF_JEQ | BPF_K, k)
    }
}

#[cfg(test)]
mod tests {
    use super::super::addressee::Addressee;
    use super::run::run;
    use super::*;

    fn part(number: u8) -> QpnRange {
        QpnRange::new(number).expect("a part")
    }

    fn table(services: u32) -> Table {
        Table {
            services: (0..services)
                .map(|number| (0x0106_0000 + number, part(number as u8 % 100 + 1)))
                .collect(),
            agents: vec![part(7), part(9)],
        }
    }

    /// Pseudo-random packets of all kinds. Most are nearly valid.
    fn packets() -> impl Iterator<Item = Vec<u8>> {
        let mut state = 5_u32;
        let mut draw = move |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        };
        (0..20_000).map(move |_| {
            let mut bytes: Vec<u8> = (0..280).map(|_| draw(256) as u8).collect();
            if draw(4) > 0 {
                bytes[5..8].copy_from_slice(&[0, 0, 1]);
            }
            bytes[21] = [7, 7, 7, 3][draw(4) as usize];
            bytes[36..38].copy_from_slice(&(0x10 + draw(11) as u16).to_be_bytes());
            bytes[56..58].copy_from_slice(&[1, 6]);
            bytes[58] = draw(5) as u8;
            if draw(8) == 0 {
                bytes.truncate(draw(280) as usize);
            }
            bytes
        })
    }

    #[test]
    fn the_program_decides_as_addressee_does() {
        let table = table(1000);
        let program = steering(&table);
        let served = |packet: &[u8]| {
            let service = packet.get(56..60)?;
            let service = u32::from_be_bytes(service.try_into().ok()?);
            let found = table.services.iter().find(|(of, _)| *of == service);
            Some(found.map_or(table.default_agent(), |(_, part)| *part))
        };
        let mut seen = [0; 3];
        for packet in packets() {
            let to = run(&program, &packet);
            match Addressee::of(&packet) {
                Addressee::Unknown => assert_eq!(to, 0),
                // A request that is cut off before the service ID goes to the first socket, too.
                Addressee::Server if packet[21] == 7 => {
                    let part = served(&packet).map_or(0, |part| part.number().into());
                    assert_eq!(to, part);
                    seen[0] += 1;
                }
                Addressee::Server => {
                    assert_eq!(to, 7);
                    seen[1] += 1;
                }
                Addressee::Part(part) => {
                    assert_eq!(to, part.number().into());
                    seen[2] += 1;
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
    }

    #[test]
    fn a_filter_accepts_only_packets_that_its_part_may_receive() {
        let program = filter(part(0x55));
        for mut packet in packets() {
            if packet.len() < 60 {
                continue;
            }
            // Most are for other parts.
            packet[48] = packet[48] & 1 | 0x54 << 1 | packet[48] & 2;
            let accepts = run(&program, &[&[0; 8], &packet[..]].concat()) > 0;
            let expected = match Addressee::of(&packet) {
                Addressee::Part(of) => of == part(0x55),
                Addressee::Server => true,
                Addressee::Unknown => false,
            };
            assert_eq!(accepts, expected, "{packet:02x?}");
        }
    }
}
