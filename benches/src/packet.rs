//! The cost of parsing a packet and checking its ICRC, compared with a bare CRC of the same number
//! of bytes.

use roce_wire::icrc::{self, IpHeader};
use roce_wire::{Bth, ExtHeaders, Opcode, Packet, PacketRepr, Psn, Qpn, UDP_PORT};
use std::hint::black_box;
use std::time::Instant;

/// Nanoseconds per packet, for each method.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Parsing, and checking the ICRC.
    pub checked_ns: f64,
    /// The same if a socket hides a nonzero IPv4 identification.
    pub hidden_ns: f64,
    /// Only the CRC, of the bytes that the ICRC covers.
    pub bare_ns: f64,
}

/// Packets of a measurement: few, so that the compared methods run under the same conditions.
const BATCH: u32 = 20_000;

const IP: IpHeader = IpHeader::V4 {
    src: [10, 0, 0, 1],
    dst: [10, 0, 0, 2],
    id: 7,
    flags_fragment: 0x4000,
};

/// A WRITE MIDDLE with `payload` bytes.
fn packet(payload: usize) -> Vec<u8> {
    let bth = Bth::new(
        Opcode::RC_WRITE_MIDDLE,
        Qpn::from_bits(0x1234),
        Psn::new(0x5678),
    );
    let repr = PacketRepr {
        bth,
        ext: ExtHeaders::default(),
    };
    let mut bytes = vec![0; repr.buffer_len(payload)];
    let at = repr.emit_headers(&mut bytes, payload);
    for (i, byte) in bytes[at..at + payload].iter_mut().enumerate() {
        *byte = (i * 31 % 251) as u8;
    }
    icrc::seal(&IP, UDP_PORT, UDP_PORT, &mut bytes);
    bytes
}

fn time(mut f: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..BATCH {
        f();
    }
    start.elapsed().as_nanos() as f64 / f64::from(BATCH)
}

/// Measures once, with `payload` bytes of payload.
///
/// # Errors
/// If the packet is not parsed correctly.
pub fn measure(payload: usize) -> Result<Figures, String> {
    let bytes = packet(payload);
    // 8 bytes of ones, and the IPv4 and UDP headers, come before the transport packet. The ICRC
    // itself is not covered.
    let covered = vec![0x5a_u8; 8 + 20 + 8 + bytes.len() - 4];
    let mut wrong = 0;
    let checked_ns = time(|| {
        let transport = black_box(&bytes[..]);
        let right = Packet::parse(transport).is_ok_and(|packet| {
            black_box((packet.bth.dest_qpn, packet.bth.psn, packet.payload));
            icrc::verify(&IP, UDP_PORT, UDP_PORT, transport).is_ok()
        });
        wrong += u32::from(!right);
    });
    let hidden_ns = time(|| {
        let transport = black_box(&bytes[..]);
        let right = Packet::parse(transport).is_ok_and(|packet| {
            black_box((packet.bth.dest_qpn, packet.bth.psn, packet.payload));
            let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
            icrc::verify_hidden_v4(src, dst, UDP_PORT, UDP_PORT, transport).is_ok()
        });
        wrong += u32::from(!right);
    });
    let bare_ns = time(|| {
        black_box(crc32fast::hash(black_box(&covered)));
    });
    if wrong > 0 {
        return Err(format!("{wrong} packets were found wrong"));
    }
    Ok(Figures {
        checked_ns,
        hidden_ns,
        bare_ns,
    })
}
