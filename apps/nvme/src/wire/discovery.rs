//! The discovery log page: the subsystems that hosts may connect to (Base, 5.16.1.23).

use super::field::{put, put_padded, text, u16_at, u64_at};
use super::nqn::FIELD_LEN;

/// The name of every discovery subsystem.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The length of the page's header in bytes.
pub const HEADER_LEN: usize = 1024;
/// The length of an entry in bytes.
pub const ENTRY_LEN: usize = 1024;
/// The most entries that a page may have here.
const MAX_ENTRIES: u64 = 1024;

/// Transport type: RDMA.
const RDMA: u8 = 1;

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Another one, by its number.
    Other(u8),
}

/// The kind of subsystem that an entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubsystemType {
    /// Another discovery service.
    Referral,
    /// A subsystem with namespaces.
    Nvm,
    /// This discovery service.
    Itself,
    /// Something else, by its number.
    Other(u8),
}

/// An entry of the page: a subsystem at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// Whether the transport is RDMA.
    pub is_rdma: bool,
    /// The kind of its address.
    pub family: Family,
    /// The kind of subsystem that it leads to.
    pub kind: SubsystemType,
    /// The number of the subsystem's port.
    pub port_id: u16,
    /// The longest admin queue.
    pub admin_queue_len: u16,
    /// The service: for RDMA the number of the port, as text.
    pub service: String,
    /// The subsystem's name.
    pub subsystem: String,
    /// The address, as text.
    pub address: String,
}

impl DiscoveryEntry {
    /// Parses an entry. Each pattern of bits is one.
    pub fn parse(bytes: &[u8; ENTRY_LEN]) -> Self {
        Self {
            is_rdma: bytes[0] == RDMA,
            family: match bytes[1] {
                1 => Family::V4,
                2 => Family::V6,
                other => Family::Other(other),
            },
            kind: match bytes[2] {
                1 => SubsystemType::Referral,
                2 => SubsystemType::Nvm,
                3 => SubsystemType::Itself,
                other => SubsystemType::Other(other),
            },
            port_id: u16_at(bytes, 4),
            admin_queue_len: u16_at(bytes, 8),
            service: text(&bytes[32..64]),
            subsystem: text(&bytes[256..256 + FIELD_LEN]),
            address: text(&bytes[512..768]),
        }
    }

    /// The entry's bytes, for a connected service over RoCE with the RDMA connection manager.
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[0] = u8::from(self.is_rdma);
        bytes[1] = match self.family {
            Family::V4 => 1,
            Family::V6 => 2,
            Family::Other(other) => other,
        };
        bytes[2] = match self.kind {
            SubsystemType::Referral => 1,
            SubsystemType::Nvm => 2,
            SubsystemType::Itself => 3,
            SubsystemType::Other(other) => other,
        };
        put(&mut bytes, 4, &self.port_id.to_le_bytes());
        // The controller is chosen when a host connects.
        put(&mut bytes, 6, &0xffff_u16.to_le_bytes());
        put(&mut bytes, 8, &self.admin_queue_len.to_le_bytes());
        put_padded(&mut bytes[32..64], &self.service);
        let name = &self.subsystem.as_bytes()[..self.subsystem.len().min(FIELD_LEN - 1)];
        put(&mut bytes, 256, name);
        put_padded(&mut bytes[512..768], &self.address);
        // Reliable connection; RoCE with IP; RDMA_CM.
        put(&mut bytes, 768, &[1, 4, 1]);
        bytes
    }
}

/// The whole page with these entries, of generation `generation`.
pub fn encode(generation: u64, entries: &[DiscoveryEntry]) -> Vec<u8> {
    let mut page = vec![0; HEADER_LEN];
    put(&mut page, 0, &generation.to_le_bytes());
    put(&mut page, 8, &(entries.len() as u64).to_le_bytes());
    for entry in entries {
        page.extend_from_slice(&entry.encode());
    }
    page
}

/// The page's generation and the number of its entries, at most 1024, from its header.
pub fn parse_header(header: &[u8; HEADER_LEN]) -> (u64, usize) {
    let entries = u64_at(header, 8).min(MAX_ENTRIES);
    (u64_at(header, 0), entries as usize)
}
