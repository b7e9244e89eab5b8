//! Why a connection was rejected (REJ), and the status of a datagram service lookup (SIDR_REP).

use core::fmt;

/// The reason of a REJ (IBTA 1.7, 12.6.7.2). A peer may send any value.
// rule: 12.6.7.2-reasons
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejectReason(pub u16);

// rule: CA17-35-reject-reasons
impl RejectReason {
    /// No QP is available.
    pub const NO_QP: RejectReason = RejectReason(1);
    /// Another resource is not available.
    pub const NO_RESOURCES: RejectReason = RejectReason(3);
    /// The sender's wait for an answer timed out.
    pub const TIMEOUT: RejectReason = RejectReason(4);
    /// The request is not supported.
    pub const UNSUPPORTED: RejectReason = RejectReason(5);
    /// The message named an unknown communication ID.
    pub const INVALID_COMMUNICATION_ID: RejectReason = RejectReason(6);
    /// The two communication IDs do not belong together.
    pub const INVALID_COMMUNICATION_INSTANCE: RejectReason = RejectReason(7);
    /// No service has this service ID.
    pub const INVALID_SERVICE_ID: RejectReason = RejectReason(8);
    /// The transport service type is not supported.
    pub const INVALID_TRANSPORT_SERVICE_TYPE: RejectReason = RejectReason(9);
    /// The sender still has a connection with this QP or communication ID.
    pub const STALE_CONNECTION: RejectReason = RejectReason(10);
    /// The primary path's remote GID is not a GID of the rejecting port.
    pub const INVALID_GID: RejectReason = RejectReason(12);
    /// The path MTU is not supported.
    pub const INVALID_MTU: RejectReason = RejectReason(26);
    /// Too few resources for RDMA READs and atomics.
    pub const INSUFFICIENT_RESPONDER_RESOURCES: RejectReason = RejectReason(27);
    /// The consumer refused; its reason is in the private data.
    pub const CONSUMER: RejectReason = RejectReason(28);
    /// The RNR retry count is not accepted.
    pub const INVALID_RNR_RETRY: RejectReason = RejectReason(29);
    /// The sender is already establishing a connection with this communication ID.
    pub const DUPLICATE_COMMUNICATION_ID: RejectReason = RejectReason(30);
    /// The class version is not supported.
    pub const INVALID_CLASS_VERSION: RejectReason = RejectReason(31);

    /// The meaning in words.
    pub const fn name(self) -> &'static str {
        match self {
            RejectReason::NO_QP => "no QP available",
            RejectReason::NO_RESOURCES => "no resources available",
            RejectReason::TIMEOUT => "timeout",
            RejectReason::UNSUPPORTED => "unsupported request",
            RejectReason::INVALID_COMMUNICATION_ID => "invalid communication ID",
            RejectReason::INVALID_COMMUNICATION_INSTANCE => "invalid communication instance",
            RejectReason::INVALID_SERVICE_ID => "invalid service ID",
            RejectReason::INVALID_TRANSPORT_SERVICE_TYPE => "invalid transport service type",
            RejectReason::STALE_CONNECTION => "stale connection",
            RejectReason::INVALID_GID => "primary remote port GID rejected",
            RejectReason::INVALID_MTU => "path MTU rejected",
            RejectReason::INSUFFICIENT_RESPONDER_RESOURCES => "insufficient responder resources",
            RejectReason::CONSUMER => "consumer reject",
            RejectReason::INVALID_RNR_RETRY => "RNR retry count rejected",
            RejectReason::DUPLICATE_COMMUNICATION_ID => "duplicate local communication ID",
            RejectReason::INVALID_CLASS_VERSION => "unsupported class version",
            _ => "another reason",
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}

/// The status of a SIDR_REP (IBTA 1.7, 12.11.2). A peer may send any value.
// rule: 12.11.2-status
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SidrStatus(pub u8);

impl SidrStatus {
    /// The QPN and the Q_Key are valid.
    pub const VALID: SidrStatus = SidrStatus(0);
    /// No service has this service ID.
    pub const SERVICE_ID_NOT_SUPPORTED: SidrStatus = SidrStatus(1);
    /// The service's provider refused.
    pub const REJECTED: SidrStatus = SidrStatus(2);
    /// No QP is available.
    pub const NO_QP: SidrStatus = SidrStatus(3);
    /// The requester should ask another node.
    pub const REDIRECT: SidrStatus = SidrStatus(4);
    /// The version is not supported.
    pub const VERSION_NOT_SUPPORTED: SidrStatus = SidrStatus(5);

    /// The meaning in words.
    pub const fn name(self) -> &'static str {
        match self {
            SidrStatus::VALID => "QPN and Q_Key are valid",
            SidrStatus::SERVICE_ID_NOT_SUPPORTED => "service ID not supported",
            SidrStatus::REJECTED => "rejected by the service's provider",
            SidrStatus::NO_QP => "no QP available",
            SidrStatus::REDIRECT => "redirected",
            SidrStatus::VERSION_NOT_SUPPORTED => "version not supported",
            _ => "another status",
        }
    }
}

impl fmt::Display for SidrStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.0)
    }
}
