//! The messages that release a connection (IBTA 1.7, 12.6.10 and 12.6.11).

use super::{Data, PrivateData, put_ids, put24};
use crate::Qpn;
use crate::header::{be24, be32};

/// Request to release a connection (IBTA 1.7, 12.6.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dreq<'a> {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The recipient's communication ID.
    pub remote_id: u32,
    /// The recipient's QP.
    pub remote_qpn: Qpn,
    /// Private data.
    pub private: PrivateData<'a, 220>,
}

impl<'a> Dreq<'a> {
    // rule: 12.6.10-dreq
    pub(super) fn read(d: &'a Data) -> Self {
        Self {
            local_id: be32(d, 0),
            remote_id: be32(d, 4),
            remote_qpn: Qpn::from_bits(be24(d, 8)),
            private: PrivateData::read(d, 12),
        }
    }

    pub(super) fn write(&self, d: &mut Data) {
        put_ids(d, self.local_id, self.remote_id);
        put24(d, 8, self.remote_qpn.get());
        self.private.write(d, 12);
    }
}

/// Reply to a request to release a connection (IBTA 1.7, 12.6.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drep<'a> {
    /// The sender's communication ID.
    pub local_id: u32,
    /// The recipient's communication ID.
    pub remote_id: u32,
    /// Private data.
    pub private: PrivateData<'a, 224>,
}

impl<'a> Drep<'a> {
    // rule: 12.6.11-drep
    pub(super) fn read(d: &'a Data) -> Self {
        Self {
            local_id: be32(d, 0),
            remote_id: be32(d, 4),
            private: PrivateData::read(d, 8),
        }
    }

    pub(super) fn write(&self, d: &mut Data) {
        put_ids(d, self.local_id, self.remote_id);
        self.private.write(d, 8);
    }
}
