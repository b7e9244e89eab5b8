//! How many objects of a kind an open device has at most. Nothing but memory limits most of them;
//! what `ibv_query_device` says holds all the same, as programs that try the limits find it.
//! QPs and shared receive queues are not here: the NIC bounds them by the numbers that it has.

use crate::usage::Users;

/// CQs: one for each QP that there can be.
pub(crate) const MAX_CQS: usize = 1 << 17;
/// Protection domains.
pub(crate) const MAX_PDS: usize = 1 << 15;
/// Memory regions.
pub(crate) const MAX_MRS: usize = 1 << 20;
/// Memory windows.
pub(crate) const MAX_MWS: usize = 1 << 20;
/// Address handles.
pub(crate) const MAX_AHS: usize = 1 << 17;

/// The objects that there are.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) cqs: Users,
    pub(crate) pds: Users,
    pub(crate) mrs: Users,
    pub(crate) mws: Users,
    pub(crate) ahs: Users,
}
