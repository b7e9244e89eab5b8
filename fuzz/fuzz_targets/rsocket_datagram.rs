//! Any bytes, as a message between the UDP sockets of rsockets, and as the payload of a packet between
//! their UD QPs.
//!
//! Invariants: nothing panics; what was parsed is encoded as bytes that parse to the same; a header and
//! the datagram after it are all of the message; errors can be printed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_rsockets::wire::{DatagramError, UdHeader, UdpHeader};

fuzz_target!(|data: &[u8]| {
    match UdpHeader::parse(data) {
        Ok((header, rest)) => {
            let bytes = header.encode();
            assert_eq!(bytes.len() + rest.len(), data.len());
            assert_eq!(bytes.len(), UdpHeader::len_for(header.address));
            let again = [&bytes[..], rest].concat();
            assert_eq!(UdpHeader::parse(&again), Ok((header, rest)));
        }
        Err(error) => print(error, data.len()),
    }
    match UdHeader::parse(data) {
        Ok((header, rest)) => {
            let bytes = header.encode();
            assert_eq!([&bytes[..], rest].concat(), data);
        }
        Err(error) => print(error, data.len()),
    }
});

fn print(error: DatagramError, whole: usize) {
    if let DatagramError::Short { len, needed } = error {
        assert!(len == whole && len < needed);
    }
    assert!(!error.to_string().is_empty());
}
