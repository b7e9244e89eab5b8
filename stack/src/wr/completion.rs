//! The result of a work request.

use crate::labelled::labelled;
use roce_wire::Qpn;

labelled! {
    /// How a work request ended (IBTA 1.7, 11.6.2).
    WcStatus {
        /// Success.
        Success = "success",
        /// The receive buffer was too small, or a request's length was illegal.
        LocalLengthError = "local length",
        /// The QP was not able to execute the request.
        LocalQpOperationError = "local QP operation",
        /// A local key, address or right was wrong.
        LocalProtectionError = "local protection",
        /// The receive of a WRITE with immediate: the WRITE was denied access to the local memory
        /// that it names.
        LocalAccessError = "local access",
        /// The QP had failed before this request's turn came.
        WorkRequestFlushed = "flushed",
        /// Binding a memory window or invalidating a key failed: window, key, region, bounds or
        /// rights were wrong. (IBTA: memory management operation error.)
        MemoryWindowBindError = "memory window bind",
        /// The peer sent a response that fits no request.
        BadResponse = "bad response",
        /// The peer rejected the request as invalid.
        RemoteInvalidRequest = "remote invalid request",
        /// The peer denied access: remote key, address or right.
        RemoteAccessError = "remote access",
        /// The peer failed to execute the request.
        RemoteOperationError = "remote operation",
        /// The peer did not answer before the transport retries were used up.
        RetryExceeded = "retries exceeded",
        /// The peer posted no receive request before the RNR retries were used up.
        RnrRetryExceeded = "RNR retries exceeded",
    }
}

impl WcStatus {
    /// Its name in C.
    pub fn c_name(self) -> &'static str {
        match self {
            Self::Success => "IBV_WC_SUCCESS",
            Self::LocalLengthError => "IBV_WC_LOC_LEN_ERR",
            Self::LocalProtectionError => "IBV_WC_LOC_PROT_ERR",
            Self::WorkRequestFlushed => "IBV_WC_WR_FLUSH_ERR",
            Self::MemoryWindowBindError => "IBV_WC_MW_BIND_ERR",
            Self::BadResponse => "IBV_WC_BAD_RESP_ERR",
            Self::LocalAccessError => "IBV_WC_LOC_ACCESS_ERR",
            Self::RemoteInvalidRequest => "IBV_WC_REM_INV_REQ_ERR",
            Self::RemoteAccessError => "IBV_WC_REM_ACCESS_ERR",
            Self::RemoteOperationError => "IBV_WC_REM_OP_ERR",
            Self::RetryExceeded => "IBV_WC_RETRY_EXC_ERR",
            Self::RnrRetryExceeded => "IBV_WC_RNR_RETRY_EXC_ERR",
            other => other.label(),
        }
    }

    /// What it means and what to check, in a phrase.
    pub fn explain(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalLengthError => "local length error: the receive buffer is too small",
            Self::LocalQpOperationError => "local QP operation error",
            Self::LocalProtectionError => {
                "local protection error: check lkey, address, length and rights of the local region"
            }
            Self::LocalAccessError => {
                "local access error: the peer's WRITE with immediate was denied access to memory"
            }
            Self::WorkRequestFlushed => "flushed: an earlier request had failed",
            Self::MemoryWindowBindError => {
                "memory window bind error: check that window, region and QP are of one \
                 protection domain, the region has MW_BIND, a window of type 2 is not bound \
                 already, and the key may be invalidated"
            }
            Self::BadResponse => "the peer's response fits no request",
            Self::RemoteInvalidRequest => {
                "the peer refused the request: operation not enabled, too long for its receive \
                 buffer, or malformed"
            }
            Self::RemoteAccessError => {
                "the peer denied access: check rkey, remote address, length and remote rights"
            }
            Self::RemoteOperationError => "the peer failed to complete the request",
            Self::RetryExceeded => "the peer does not answer: transport retries used up",
            Self::RnrRetryExceeded => "the peer posted no receive request in time",
        }
    }
}

impl core::fmt::Display for WcStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.explain())
    }
}

labelled! {
    /// The operation that completed.
    WcOpcode {
        /// A SEND of any kind.
        Send = "send",
        /// A WRITE, with immediate or without.
        RdmaWrite = "rdma_write",
        /// A READ.
        RdmaRead = "rdma_read",
        /// A compare-and-swap.
        CompareSwap = "compare_swap",
        /// A fetch-and-add.
        FetchAdd = "fetch_add",
        /// A FLUSH.
        Flush = "flush",
        /// An ATOMIC WRITE.
        AtomicWrite = "atomic_write",
        /// A memory window was bound.
        BindMw = "bind_mw",
        /// A key was invalidated.
        LocalInv = "local_inv",
        /// A SEND arrived.
        Recv = "recv",
        /// A WRITE with immediate arrived.
        RecvRdmaWithImm = "recv_rdma_with_imm",
    }
}

/// The completion of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The `wr_id` of the work request.
    pub wr_id: u64,
    /// The result.
    pub status: WcStatus,
    /// The operation. It is valid for every status, but flushed receives always have
    /// [`WcOpcode::Recv`].
    pub opcode: WcOpcode,
    /// Bytes received or fetched, for receives, READs and atomics; otherwise the length of the
    /// payload.
    pub byte_len: u32,
    /// The local QP.
    pub qpn: Qpn,
    /// The immediate data of the message.
    pub imm: Option<u32>,
    /// The remote key that the peer's SEND invalidated.
    pub invalidated_rkey: Option<u32>,
    /// The source of a datagram. (UD only.)
    pub source: Option<DatagramSource>,
}

impl Completion {
    /// The completion, if the request succeeded.
    ///
    /// # Errors
    /// If the status is not [`WcStatus::Success`].
    #[inline]
    pub fn ok(self) -> Result<Self, CompletionError> {
        match self.status {
            WcStatus::Success => Ok(self),
            _ => Err(CompletionError(self)),
        }
    }
}

/// A work request that failed, as an error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CompletionError(Completion);

impl CompletionError {
    /// The completion, whose status is not [`WcStatus::Success`].
    pub fn completion(&self) -> &Completion {
        &self.0
    }

    /// The status of the request.
    pub fn status(&self) -> WcStatus {
        self.0.status
    }
}

impl core::fmt::Display for CompletionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Completion {
            wr_id,
            status,
            opcode,
            qpn,
            ..
        } = self.0;
        write!(
            f,
            "{opcode:?} request {wr_id} of QP {:#x}: {status}",
            qpn.get()
        )
    }
}

impl core::fmt::Debug for CompletionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::error::Error for CompletionError {}

/// The source of a received datagram (IBTA 1.7, 11.4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramSource {
    /// The sender's QP.
    pub qpn: Qpn,
    /// The index of the packet's partition key in the port's table.
    pub pkey_index: u16,
    /// Whether the first 40 bytes of the buffer hold a network header: always on RoCE.
    pub grh: bool,
    /// The kind of that header.
    pub network: NetworkHeader,
}

/// The network header that a datagram came with (RoCEv2 Annex A17.4.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkHeader {
    /// A global route header: RoCE v1.
    Grh,
    /// RoCEv2 over IPv6.
    Ipv6,
    /// RoCEv2 over IPv4.
    Ipv4,
}
