//! Arbitrary bytes, parsed as a transport packet or as one of its headers, which the first byte
//! selects.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, ExtHeaders, Feth, Grh, Ieth, ImmDt, Opcode, Packet,
    ParseError, Reth, XrcEth,
};

fuzz_target!(|data: &[u8]| {
    let Some((&selector, bytes)) = data.split_first() else {
        return;
    };
    match selector {
        0 => packet(bytes),
        1 => header(bytes, Bth::parse, Bth::emit, Bth::LEN),
        2 => header(bytes, Reth::parse, Reth::emit, Reth::LEN),
        3 => header(bytes, Aeth::parse, Aeth::emit, Aeth::LEN),
        4 => header(bytes, AtomicEth::parse, AtomicEth::emit, AtomicEth::LEN),
        5 => header(
            bytes,
            AtomicAckEth::parse,
            AtomicAckEth::emit,
            AtomicAckEth::LEN,
        ),
        6 => header(bytes, Deth::parse, Deth::emit, Deth::LEN),
        7 => header(bytes, XrcEth::parse, XrcEth::emit, XrcEth::LEN),
        8 => header(bytes, ImmDt::parse, ImmDt::emit, ImmDt::LEN),
        9 => header(bytes, Ieth::parse, Ieth::emit, Ieth::LEN),
        10 => header(bytes, Feth::parse, Feth::emit, Feth::LEN),
        11 => header(bytes, Grh::parse, Grh::emit, Grh::LEN),
        12 => ext_headers(bytes),
        _ => packet(data),
    }
});

/// A packet is no longer than its bytes, and is emitted as a packet that parses to the same value.
fn packet(bytes: &[u8]) {
    let packet = match Packet::parse(bytes) {
        Ok(packet) => packet,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let info = packet.bth.opcode.info();
    assert!(info.payload.admits(packet.payload.len()));
    let len = Bth::LEN
        + usize::from(info.headers_len)
        + packet.payload.len()
        + usize::from(packet.bth.pad)
        + 4;
    assert_eq!(len, bytes.len());

    let repr = packet.repr();
    let mut emitted = vec![0xaa; repr.buffer_len(packet.payload.len())];
    let at = repr.emit_headers(&mut emitted, packet.payload.len());
    emitted[at..][..packet.payload.len()].copy_from_slice(packet.payload);
    let icrc_at = emitted.len() - 4;
    emitted[icrc_at..].copy_from_slice(&packet.icrc.to_le_bytes());
    let mut again = Packet::parse(&emitted).expect("what was emitted parses");
    // The pad count of the input may differ from the one that the length requires.
    assert_eq!((packet.payload.len() + usize::from(again.bth.pad)) % 4, 0);
    again.bth.pad = packet.bth.pad;
    assert_eq!(again, packet);
}

/// A header parses from exactly its length, and the emitted header parses to the same value.
fn header<H: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    parse: fn(&[u8]) -> Result<H, ParseError>,
    emit: fn(&H, &mut [u8]),
    len: usize,
) {
    match parse(bytes) {
        Ok(header) => {
            assert!(bytes.len() >= len);
            let mut emitted = vec![0xaa; len];
            emit(&header, &mut emitted);
            assert_eq!(parse(&emitted), Ok(header));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The extended headers of an opcode, which the first byte selects.
fn ext_headers(bytes: &[u8]) {
    let Some((&byte, bytes)) = bytes.split_first() else {
        return;
    };
    let Some(opcode) = Opcode::from_byte(byte) else {
        return;
    };
    let headers = opcode.info().headers;
    match ExtHeaders::parse(headers, bytes) {
        Ok((ext, rest)) => {
            assert_eq!(rest.len() + headers.byte_len(), bytes.len());
            let mut emitted = vec![0xaa; headers.byte_len()];
            assert_eq!(ext.emit(headers, &mut emitted), emitted.len());
            assert_eq!(ExtHeaders::parse(headers, &emitted), Ok((ext, &[][..])));
        }
        Err(error) => {
            assert!(bytes.len() < headers.byte_len());
            assert!(!error.to_string().is_empty());
        }
    }
}
