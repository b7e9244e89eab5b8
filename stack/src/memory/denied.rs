//! An access that was denied, and why.

use super::{Access, AccessError};

/// An access to memory that was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeniedAccess {
    /// Why.
    pub error: AccessError,
    /// The key that was used.
    pub key: u32,
    /// The address of the first byte.
    pub addr: u64,
    /// The length in bytes.
    pub len: u64,
    /// The rights that were needed.
    pub rights: Access,
    /// The region or window that has the key; `None` if none has.
    pub region: Option<Extent>,
}

/// What a region or window grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The address of the first byte.
    pub addr: u64,
    /// The length in bytes.
    pub len: u64,
    /// The rights.
    pub access: Access,
}
