//! The directions of cables, for callers.

use super::link::LinkSpec;
use super::names::{CableId, NodeId};

/// One direction of a cable: the port of the node that sends in this direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The cable.
    pub cable: CableId,
    /// The node that sends.
    pub from: NodeId,
    /// The node that receives.
    pub to: NodeId,
    /// The parameters of the link.
    pub link: LinkSpec,
}
