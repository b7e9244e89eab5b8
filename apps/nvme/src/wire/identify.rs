//! Identify structures: what a controller and a namespace are.

use super::field;
use super::field::{put, put_padded, text, u16_at, u32_at, u64_at};
use super::nqn::FIELD_LEN;

/// The length of each identify structure in bytes.
pub const IDENTIFY_LEN: usize = 4096;

/// The version 1.4, in which the type of a controller was introduced.
pub const VERSION_1_4: u32 = 0x0001_0400;

/// SGLS: SGLs without alignment.
const SGL_SUPPORTED: u32 = 1;
/// SGLS: keyed descriptors.
const SGL_KEYED: u32 = 1 << 2;
/// SGLS: data in the capsule, by offset.
const SGL_IN_CAPSULE: u32 = 1 << 20;

/// The identify structure of a controller (Base, figure "Identify Controller Data Structure"), as
/// far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Serial number, at most 20 bytes.
    pub serial: String,
    /// Model, at most 40 bytes.
    pub model: String,
    /// Revision of the firmware, at most 8 bytes.
    pub firmware: String,
    /// The controller's number.
    pub id: u16,
    /// The version of the specification, for example 0x00010400 for 1.4.
    pub version: u32,
    /// Whether it is a discovery controller.
    pub is_discovery: bool,
    /// The most bytes that a command transfers, as a power of two of pages of 4096 bytes; 0: no
    /// limit.
    pub max_transfer_shift: u8,
    /// The unit of the keep-alive timeout in 100 ms.
    pub keep_alive_granularity: u16,
    /// The most commands of one queue that may be outstanding.
    pub max_commands: u16,
    /// The highest number of a namespace.
    pub namespaces: u32,
    /// Whether writes may be lost at a power cut until a flush.
    pub volatile_cache: bool,
    /// Whether it supports keyed SGLs. RDMA needs them.
    pub keyed_sgl: bool,
    /// Whether it takes data in the capsule.
    pub in_capsule_sgl: bool,
    /// The subsystem's name.
    pub subsystem: String,
    /// The length of a command capsule in units of 16 bytes.
    pub command_capsule_units: u32,
    /// The length of a response capsule in units of 16 bytes.
    pub response_capsule_units: u32,
    /// Where data in a capsule begin behind the command, in units of 16 bytes.
    pub in_capsule_offset_units: u16,
}

impl Controller {
    /// Parses the structure. Each pattern of bits is one.
    pub fn parse(bytes: &[u8; IDENTIFY_LEN]) -> Self {
        let sgls = u32_at(bytes, 536);
        Self {
            serial: text(&bytes[4..24]),
            model: text(&bytes[24..64]),
            firmware: text(&bytes[64..72]),
            max_transfer_shift: bytes[77],
            id: u16_at(bytes, 78),
            version: u32_at(bytes, 80),
            is_discovery: bytes[111] == 2,
            keep_alive_granularity: u16_at(bytes, 320),
            max_commands: u16_at(bytes, 514),
            namespaces: u32_at(bytes, 516),
            volatile_cache: bytes[525] & 1 != 0,
            keyed_sgl: sgls & SGL_KEYED != 0,
            in_capsule_sgl: sgls & SGL_IN_CAPSULE != 0,
            subsystem: text(&bytes[768..768 + FIELD_LEN]),
            command_capsule_units: u32_at(bytes, 1792),
            response_capsule_units: u32_at(bytes, 1796),
            in_capsule_offset_units: u16_at(bytes, 1800),
        }
    }

    /// The structure's bytes.
    pub fn encode(&self) -> [u8; IDENTIFY_LEN] {
        let mut bytes = [0; IDENTIFY_LEN];
        put_padded(&mut bytes[4..24], &self.serial);
        put_padded(&mut bytes[24..64], &self.model);
        put_padded(&mut bytes[64..72], &self.firmware);
        bytes[77] = self.max_transfer_shift;
        put(&mut bytes, 78, &self.id.to_le_bytes());
        put(&mut bytes, 80, &self.version.to_le_bytes());
        bytes[111] = if self.is_discovery { 2 } else { 1 };
        put(&mut bytes, 320, &self.keep_alive_granularity.to_le_bytes());
        // Commands of 64 bytes and responses of 16, neither more nor less.
        bytes[512] = 0x66;
        bytes[513] = 0x44;
        put(&mut bytes, 514, &self.max_commands.to_le_bytes());
        put(&mut bytes, 516, &self.namespaces.to_le_bytes());
        bytes[525] = u8::from(self.volatile_cache);
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let sgls = SGL_SUPPORTED
            | flag(self.keyed_sgl, SGL_KEYED)
            | flag(self.in_capsule_sgl, SGL_IN_CAPSULE);
        put(&mut bytes, 536, &sgls.to_le_bytes());
        let name = &self.subsystem.as_bytes()[..self.subsystem.len().min(FIELD_LEN - 1)];
        put(&mut bytes, 768, name);
        put(&mut bytes, 1792, &self.command_capsule_units.to_le_bytes());
        put(&mut bytes, 1796, &self.response_capsule_units.to_le_bytes());
        put(
            &mut bytes,
            1800,
            &self.in_capsule_offset_units.to_le_bytes(),
        );
        // One SGL descriptor for each command.
        bytes[1803] = 1;
        bytes
    }

    /// The most bytes that a command transfers; `None`: as many as it can name.
    pub fn max_transfer(&self) -> Option<u64> {
        let shift = u32::from(self.max_transfer_shift);
        (shift != 0).then(|| 4096_u64.checked_shl(shift).unwrap_or(u64::MAX))
    }

    /// The most bytes of data in a command capsule.
    pub fn in_capsule_len(&self) -> usize {
        let units = self.command_capsule_units.saturating_sub(4);
        // A controller of this world offers some KiB. More is not worth its memory.
        match self.in_capsule_sgl && self.in_capsule_offset_units == 0 {
            true => (units as usize).saturating_mul(16).min(1 << 20),
            false => 0,
        }
    }
}

/// The identify structure of a namespace (NVM, figure "Identify Namespace Data Structure"), as far
/// as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespace {
    /// Size in blocks; 0: there is no such namespace.
    pub blocks: u64,
    /// The length of a block in bytes, as a power of two. Valid: 9 to 63.
    pub block_shift: u8,
    /// Bytes of metadata for each block.
    pub metadata_len: u16,
    /// An identifier that no other namespace has (NGUID); zeros: none.
    pub guid: [u8; 16],
}

impl Namespace {
    /// Parses the structure. Each pattern of bits is one.
    pub fn parse(bytes: &[u8; IDENTIFY_LEN]) -> Self {
        let format = usize::from(bytes[26] & 0x0f) | usize::from(bytes[26] >> 5 & 3) << 4;
        let format = 128 + format * 4;
        let mut guid = [0; 16];
        guid.copy_from_slice(&bytes[104..120]);
        Self {
            blocks: u64_at(bytes, 0),
            metadata_len: u16_at(bytes, format),
            block_shift: bytes[format + 2],
            guid,
        }
    }

    /// The structure's bytes, with one format.
    pub fn encode(&self) -> [u8; IDENTIFY_LEN] {
        let mut bytes = [0; IDENTIFY_LEN];
        for at in [0, 8, 16] {
            put(&mut bytes, at, &self.blocks.to_le_bytes());
        }
        put(&mut bytes, 104, &self.guid);
        put(&mut bytes, 128, &self.metadata_len.to_le_bytes());
        bytes[130] = self.block_shift;
        bytes
    }

    /// The length of a block in bytes, if this stack can use such blocks.
    pub fn block_len(&self) -> Option<u32> {
        (9..=16)
            .contains(&self.block_shift)
            .then(|| 1 << self.block_shift)
    }

    /// The list of a namespace's identifiers (Base, "Namespace Identification Descriptor list").
    pub fn descriptors(&self) -> [u8; IDENTIFY_LEN] {
        const GUID: u8 = 2;
        let mut bytes = [0; IDENTIFY_LEN];
        field::put(&mut bytes, 0, &[GUID, 16]);
        field::put(&mut bytes, 4, &self.guid);
        bytes
    }
}

/// The numbers in a list of active namespaces, which 0 ends.
pub fn parse_list(bytes: &[u8; IDENTIFY_LEN]) -> Vec<u32> {
    let numbers = (0..IDENTIFY_LEN / 4).map(|index| u32_at(bytes, index * 4));
    numbers.take_while(|&number| number != 0).collect()
}

/// A list of the first 1024 of `numbers`.
pub fn encode_list(numbers: impl IntoIterator<Item = u32>) -> [u8; IDENTIFY_LEN] {
    let mut bytes = [0; IDENTIFY_LEN];
    for (index, number) in numbers.into_iter().take(IDENTIFY_LEN / 4).enumerate() {
        put(&mut bytes, index * 4, &number.to_le_bytes());
    }
    bytes
}
