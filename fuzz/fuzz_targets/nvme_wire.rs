//! Bytes of a peer, as each structure of NVMe over RDMA. The first byte chooses the structure.
//!
//! Invariants: nothing panics, and what was parsed is encoded as bytes that parse to the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_nvme::Address;
use roce_nvme::wire::discovery::{self, DiscoveryEntry};
use roce_nvme::wire::fabrics::{self, ConnectData};
use roce_nvme::wire::identify::{self, Controller, Namespace};
use roce_nvme::wire::{
    AcceptPrivate, Command, Property, RejectPrivate, RequestPrivate, Response, Sgl, admin, io,
};

fuzz_target!(|data: &[u8]| {
    let Some((which, bytes)) = data.split_first() else {
        return;
    };
    match which % 8 {
        0 => command(padded(bytes)),
        1 => {
            let response = Response::parse(&padded(bytes));
            assert_eq!(Response::parse(&response.encode()), response);
            let _ = response.status.to_string();
        }
        2 => private(bytes),
        3 => {
            if let Ok(connect) = ConnectData::parse(&padded(bytes)) {
                assert_eq!(ConnectData::parse(&connect.encode()), Ok(connect));
            }
        }
        4 => {
            let controller = Controller::parse(&padded(bytes));
            let _ = (controller.max_transfer(), controller.in_capsule_len());
            // Texts that are no UTF-8 become longer, and are cut.
            let again = Controller::parse(&controller.encode());
            assert_eq!(again.max_commands, controller.max_commands);
        }
        5 => {
            let namespace = Namespace::parse(&padded(bytes));
            assert_eq!(Namespace::parse(&namespace.encode()), namespace);
            let list = identify::parse_list(&padded(bytes));
            let again = identify::parse_list(&identify::encode_list(list.iter().copied()));
            assert_eq!(again, list);
        }
        6 => {
            let _ = discovery::parse_header(&padded(bytes));
            let entry = DiscoveryEntry::parse(&padded(bytes));
            let again = DiscoveryEntry::parse(&entry.encode());
            assert_eq!((again.kind, again.port_id), (entry.kind, entry.port_id));
        }
        _ => {
            if let Ok(text) = std::str::from_utf8(bytes) {
                match text.parse::<Address>() {
                    Ok(address) => assert_eq!(address.to_string().parse(), Ok(address)),
                    Err(error) => drop(error.to_string()),
                }
            }
        }
    }
});

/// The first `N` bytes. Missing ones are zero.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    let len = bytes.len().min(N);
    padded[..len].copy_from_slice(&bytes[..len]);
    padded
}

fn command(bytes: [u8; 64]) {
    let command = Command::from_bytes(bytes);
    match command.sgl() {
        Ok(sgl) => assert_eq!(Sgl::parse(&sgl.encode()), Ok(sgl)),
        Err(error) => drop(error.to_string()),
    }
    match fabrics::Request::parse(&command) {
        Some(Ok(fabrics::Request::Connect(connect))) => {
            let again = fabrics::Request::parse(&connect.command());
            assert_eq!(again, Some(Ok(fabrics::Request::Connect(connect))));
        }
        Some(Ok(
            fabrics::Request::PropertyGet(property) | fabrics::Request::PropertySet(property, _),
        )) => assert_eq!(Property::at(property.offset()), Some(property)),
        Some(Err(status)) => assert!(!status.is_success()),
        None => {}
    }
    if let Err(status) = admin::Request::parse(&command) {
        assert!(!status.is_success());
    }
    match io::Request::parse(&command) {
        Ok(io::Request::Read(blocks)) => {
            let again = io::Request::parse(&io::read(&blocks));
            assert_eq!(again, Ok(io::Request::Read(blocks)));
        }
        Ok(io::Request::Write { blocks, durable }) => {
            let again = io::Request::parse(&io::write(&blocks, durable));
            assert_eq!(again, Ok(io::Request::Write { blocks, durable }));
        }
        Ok(io::Request::Flush { .. }) => {}
        Err(status) => assert!(!status.is_success()),
    }
}

fn private(bytes: &[u8]) {
    if let Ok(request) = RequestPrivate::parse(bytes) {
        assert_eq!(RequestPrivate::parse(&request.encode()), Ok(request));
    }
    if let Some(accept) = AcceptPrivate::parse(bytes) {
        assert_eq!(AcceptPrivate::parse(&accept.encode()), Some(accept));
    }
    if let Some(reject) = RejectPrivate::parse(bytes) {
        assert_eq!(RejectPrivate::parse(&reject.encode()), Some(reject));
    }
}
