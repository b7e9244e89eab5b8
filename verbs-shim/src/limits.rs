//! The maximum number of objects of each kind in an open device. Only memory really limits them,
//! but some programs test that the maxima that `ibv_query_device` reports are enforced. QPs and
//! shared receive queues are not listed here: the range of their numbers limits them, in the NIC.

use crate::usage::Users;

/// Completion queues: as many as QPs.
pub(crate) const MAX_CQS: usize = 1 << 17;
pub(crate) const MAX_PDS: usize = 1 << 15;
pub(crate) const MAX_MRS: usize = 1 << 20;
pub(crate) const MAX_MWS: usize = 1 << 20;
pub(crate) const MAX_AHS: usize = 1 << 17;
pub(crate) const MAX_COMP_CNTRS: usize = 1 << 17;

/// The current numbers of objects.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) cqs: Users,
    pub(crate) pds: Users,
    pub(crate) mrs: Users,
    pub(crate) mws: Users,
    pub(crate) ahs: Users,
    pub(crate) comp_cntrs: Users,
}
