//! Identifiers of the parts of a fabric.

/// Identifies a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// Identifies a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub usize);

/// Identifies a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CableId(pub usize);

/// One direction of a cable: 2 n is from its first end, 2 n + 1 from its second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct EgressId(pub(super) usize);

impl EgressId {
    /// The other direction of the same cable.
    pub(super) fn reverse(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// The node at an end of a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

impl From<HostId> for NodeId {
    fn from(id: HostId) -> Self {
        Self::Host(id)
    }
}

impl From<SwitchId> for NodeId {
    fn from(id: SwitchId) -> Self {
        Self::Switch(id)
    }
}
