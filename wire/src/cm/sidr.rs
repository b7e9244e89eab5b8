//! The messages that look up the QP of a datagram service (IBTA 1.7, 12.11).

use super::{Data, PrivateData, ServiceId, SidrStatus, put, put24};
use crate::header::{be16, be24, be32, be64};
use crate::{PKey, QKey, Qpn};

/// Request for the QP of a datagram service (IBTA 1.7, 12.11.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidrReq<'a> {
    /// The ID of the request, chosen by the sender.
    pub request_id: u32,
    /// The partition.
    pub pkey: PKey,
    /// The service that the request is for.
    pub service: ServiceId,
    /// Private data, preceded by that of Annex A11 if the service requires it.
    pub private: PrivateData<'a, 216>,
}

impl<'a> SidrReq<'a> {
    // rule: 12.11.1-sidr-req
    pub(super) fn read(d: &'a Data) -> Self {
        Self {
            request_id: be32(d, 0),
            pkey: PKey(be16(d, 4)),
            service: ServiceId(be64(d, 8)),
            private: PrivateData::read(d, 16),
        }
    }

    pub(super) fn write(&self, d: &mut Data) {
        put(d, 0, self.request_id.to_be_bytes());
        put(d, 4, self.pkey.0.to_be_bytes());
        put(d, 8, self.service.0.to_be_bytes());
        self.private.write(d, 16);
    }
}

/// Reply to a [`SidrReq`] (IBTA 1.7, 12.11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SidrRep<'a> {
    /// The ID of the request.
    pub request_id: u32,
    /// Whether the QPN and the Q_Key are valid.
    pub status: SidrStatus,
    /// The QP of the service.
    pub qpn: Qpn,
    /// The service.
    pub service: ServiceId,
    /// The Q_Key that datagrams to it must carry.
    pub qkey: QKey,
    /// Private data.
    pub private: PrivateData<'a, 136>,
}

impl<'a> SidrRep<'a> {
    // rule: 12.11.2-sidr-rep
    pub(super) fn read(d: &'a Data) -> Self {
        Self {
            request_id: be32(d, 0),
            status: SidrStatus(d[4]),
            qpn: Qpn::from_bits(be24(d, 8)),
            service: ServiceId(be64(d, 12)),
            qkey: QKey(be32(d, 20)),
            private: PrivateData::read(d, 96),
        }
    }

    pub(super) fn write(&self, d: &mut Data) {
        put(d, 0, self.request_id.to_be_bytes());
        d[4] = self.status.0;
        put24(d, 8, self.qpn.get());
        put(d, 12, self.service.0.to_be_bytes());
        put(d, 20, self.qkey.0.to_be_bytes());
        self.private.write(d, 96);
    }
}
