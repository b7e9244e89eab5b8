//! What the peer of an rsocket says: private data, elements, mappings and immediate data.
//!
//! Invariants: nothing panics, what was parsed is encoded as bytes that parse to the same, and
//! neither end of the stream leaves its bounds, whatever credits, offers and lengths the peer names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_rsockets::fuzzing::peer_says;
use roce_rsockets::wire::{ByteOrder, ConnectData, Element, Mapping, Message};

fuzz_target!(|data: &[u8]| {
    elements(data);
    let parsed = ConnectData::parse(data);
    let connect = match parsed {
        Ok(connect) => connect,
        Err(error) => return drop(error.to_string()),
    };
    let again = ConnectData::parse(&connect.encode()).expect("what was encoded can be parsed");
    assert_eq!(again, connect);
    peer_says(&connect, &data[40..]);
});

fn elements(data: &[u8]) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        if let Some((bytes, rest)) = data.split_first_chunk() {
            let element = Element::parse(bytes, order);
            assert_eq!(element.encode(order), *bytes);
            if let Some((bytes, rest)) = rest.split_first_chunk() {
                let mapping = Mapping::parse(bytes, order);
                assert_eq!(mapping.encode(order), *bytes);
                if let Some((offset, _)) = rest.split_first_chunk() {
                    within(&mapping, u64::from_le_bytes(*offset));
                }
            }
        }
    }
    if let Some((imm, _)) = data.split_first_chunk() {
        let imm = u32::from_be_bytes(*imm);
        match Message::parse(imm) {
            Ok(message) => assert_eq!(Message::parse(message.encode()), Ok(message)),
            Err(unknown) => assert!(!unknown.to_string().is_empty()),
        }
    }
}

/// The part of a mapping from an offset on lies within it.
fn within(mapping: &Mapping, offset: u64) {
    if let Some((address, len)) = mapping.at(offset) {
        let skipped = offset - mapping.offset;
        assert_eq!(address, mapping.element.address + skipped);
        assert!(u64::from(len) + skipped == u64::from(mapping.element.len));
    }
}
