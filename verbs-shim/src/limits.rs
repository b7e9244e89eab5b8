//! The most objects of each kind in an open device. For most kinds, memory is the only real limit.
//! The maxima that `ibv_query_device` reports are enforced all the same, for programs that test
//! them. QPs and shared receive queues are not listed: the NIC limits them, by the range of their
//! numbers.

use crate::usage::Users;

/// CQs: one for each possible QP.
pub(crate) const MAX_CQS: usize = 1 << 17;
/// Protection domains.
pub(crate) const MAX_PDS: usize = 1 << 15;
/// Memory regions.
pub(crate) const MAX_MRS: usize = 1 << 20;
/// Memory windows.
pub(crate) const MAX_MWS: usize = 1 << 20;
/// Address handles.
pub(crate) const MAX_AHS: usize = 1 << 17;

/// The current numbers of objects.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) cqs: Users,
    pub(crate) pds: Users,
    pub(crate) mrs: Users,
    pub(crate) mws: Users,
    pub(crate) ahs: Users,
}
