//! The part of a plan about regions that change.

use roce_stack::Access;

/// A change of a region that is registered again with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It has these rights.
    Access(Access),
    /// It is asked for rights that no region can have, and stays as it is.
    Invalid,
    /// It moves to another protection domain than the QP's.
    OtherPd,
    /// It moves back to the protection domain of the QP.
    OwnPd,
    /// It consists of other memory.
    Memory {
        /// Whether it has another address, too. Only the first such change has an effect.
        shift: bool,
    },
}
