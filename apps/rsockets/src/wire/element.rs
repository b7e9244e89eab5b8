//! Elements: descriptors of memory that one end offers to the other.

/// The length of an [`Element`] in bytes.
pub const ELEMENT_LEN: usize = 16;

/// The length of a [`Mapping`] in bytes.
pub const MAPPING_LEN: usize = 24;

/// A byte order. An end writes elements to its peer's memory in the peer's native order. Private data
/// are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The least significant byte comes first.
    Little,
    /// The most significant byte comes first.
    Big,
}

impl ByteOrder {
    /// The order of this host.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    pub(super) fn decode_u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn decode_u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    fn encode_u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    fn encode_u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }
}

/// A stretch of the sender's memory: address (8 bytes), rkey (4), length (4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element {
    /// The address.
    pub address: u64,
    /// The remote key.
    pub key: u32,
    /// The length in bytes, or in elements if the memory is a list of them.
    pub len: u32,
}

impl Element {
    /// Encodes the element.
    pub fn encode(&self, order: ByteOrder) -> [u8; ELEMENT_LEN] {
        let mut bytes = [0; ELEMENT_LEN];
        bytes[..8].copy_from_slice(&order.encode_u64(self.address));
        bytes[8..12].copy_from_slice(&order.encode_u32(self.key));
        bytes[12..].copy_from_slice(&order.encode_u32(self.len));
        bytes
    }

    /// Parses an element. Every value is valid.
    pub fn parse(bytes: &[u8; ELEMENT_LEN], order: ByteOrder) -> Self {
        let [a, b, c, d, e, f, g, h, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
        Self {
            address: order.decode_u64([a, b, c, d, e, f, g, h]),
            key: order.decode_u32([k0, k1, k2, k3]),
            len: order.decode_u32([l0, l1, l2, l3]),
        }
    }
}

/// Memory that the sender has mapped to an offset, for `riowrite`: the offset (8 bytes), and the
/// element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The offset of the first byte.
    pub offset: u64,
    /// The memory.
    pub element: Element,
}

impl Mapping {
    /// Encodes the mapping.
    pub fn encode(&self, order: ByteOrder) -> [u8; MAPPING_LEN] {
        let mut bytes = [0; MAPPING_LEN];
        bytes[..8].copy_from_slice(&order.encode_u64(self.offset));
        bytes[8..].copy_from_slice(&self.element.encode(order));
        bytes
    }

    /// Parses a mapping. Every value is valid.
    pub fn parse(bytes: &[u8; MAPPING_LEN], order: ByteOrder) -> Self {
        let mut offset = [0; 8];
        offset.copy_from_slice(&bytes[..8]);
        let mut element = [0; ELEMENT_LEN];
        element.copy_from_slice(&bytes[8..]);
        Self {
            offset: order.decode_u64(offset),
            element: Element::parse(&element, order),
        }
    }

    /// The address of `offset` and the number of bytes that follow in the mapping; `None` outside it.
    pub fn at(&self, offset: u64) -> Option<(u64, u32)> {
        let skipped = offset.checked_sub(self.offset)?;
        let left = u64::from(self.element.len).checked_sub(skipped)?;
        let left = u32::try_from(left).ok().filter(|left| *left > 0)?;
        Some((self.element.address.checked_add(skipped)?, left))
    }
}
