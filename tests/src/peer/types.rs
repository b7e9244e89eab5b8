//! The messages between a test and a peer in the guest.

use std::net::Ipv6Addr;
use std::ops::BitOr;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use crate::lab::LabError;

/// Index of the GID that a peer uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidIndex {
    /// The link-local IPv6 address.
    LinkLocal6 = 0,
    /// The IPv4 address, mapped into IPv6.
    Ip4 = 1,
}

/// Rights to a region or a window, or through a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Only local reading.
    pub const NONE: Self = Self(0);
    /// Local writing: receives, and results of READ and atomics.
    pub const LOCAL_WRITE: Self = Self(1);
    /// Remote writing.
    pub const REMOTE_WRITE: Self = Self(2);
    /// Remote reading.
    pub const REMOTE_READ: Self = Self(4);
    /// Remote atomics.
    pub const REMOTE_ATOMIC: Self = Self(8);
    /// Binding of memory windows.
    pub const MW_BIND: Self = Self(16);
    /// All remote rights, and local writing.
    pub const ALL_REMOTE: Self = Self(1 | 2 | 4 | 8);
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Serialize for Access {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names = [
            "local_write",
            "remote_write",
            "remote_read",
            "remote_atomic",
            "mw_bind",
        ];
        let mut list = serializer.serialize_seq(None)?;
        for (bit, name) in names.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                list.serialize_element(name)?;
            }
        }
        list.end()
    }
}

/// A memory region of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Region {
    pub(super) mr: u32,
    /// Its first byte's address in the peer, for remote operations.
    pub addr: u64,
    /// Its local key.
    pub lkey: u32,
    /// Its remote key.
    pub rkey: u32,
    /// Its length in bytes.
    #[serde(default)]
    pub length: u32,
}

impl Region {
    /// `length` bytes of it, from `offset` on. Not checked, because a test may go out of bounds on
    /// purpose.
    pub fn part(&self, offset: u32, length: u32) -> Sge {
        Sge {
            mr: self.mr,
            offset,
            length,
        }
    }

    /// All of it.
    pub fn all(&self) -> Sge {
        self.part(0, self.length)
    }

    /// Checks that the test's own access is within bounds.
    pub(super) fn check(&self, offset: u32, length: usize) -> Result<(), LabError> {
        let end = u64::from(offset).saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        if end <= u64::from(self.length) {
            return Ok(());
        }
        let what = format!("bytes {offset} to {end} of a region of {}", self.length);
        Err(LabError::new(what))
    }
}

/// A part of a region, for scatter/gather lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    pub(super) mr: u32,
    pub(super) offset: u32,
    pub(super) length: u32,
}

impl Serialize for Sge {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.mr, self.offset, self.length).serialize(serializer)
    }
}

/// A memory window of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Window {
    pub(super) mw: u32,
}

/// A queue pair of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Pair {
    pub(super) qp: u32,
    /// Its number, 24 bits.
    pub qpn: u32,
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairOptions {
    /// Depth of the send queue and of the receive queue, in work requests.
    pub depth: u32,
    /// Elements of a scatter/gather list.
    pub sges: u32,
}

impl Default for PairOptions {
    fn default() -> Self {
        Self { depth: 64, sges: 4 }
    }
}

/// The attributes that bring a queue pair to RTS (IBTA 1.7, 11.2.5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Connect {
    /// The other side's queue pair number.
    pub remote_qpn: u32,
    /// The PSN of the first request from the other side.
    pub remote_psn: u32,
    /// The other side's GID.
    pub remote_gid: Ipv6Addr,
    /// The PSN of the first request of this side.
    pub local_psn: u32,
    /// 256, 512, 1024, 2048 or 4096 bytes.
    pub path_mtu: u32,
    /// The other side's rights to this side's memory, if the region also allows them.
    pub access: Access,
    /// Local ACK timeout: 4.096 us × 2^timeout; 0 disables it.
    pub timeout: u8,
    /// Retries without an answer, at most 7.
    pub retry_count: u8,
    /// Retries after an RNR NAK; 7 means unlimited.
    pub rnr_retry: u8,
    /// Code of the delay in this side's RNR NAKs, 0 to 31.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding from this side.
    pub max_rd_atomic: u8,
    /// READs and atomics outstanding from the other side.
    pub max_dest_rd_atomic: u8,
    /// Traffic class, or IPv4 type of service, of this side's packets.
    pub traffic_class: u8,
}

impl Connect {
    /// A connection to that queue pair, with all remote rights, this side's PSNs
    /// starting at `0x00abcd`, a timeout of 67 ms, seven retries, unlimited RNR retries, and a
    /// delay of 0.64 ms in this side's RNR NAKs (code 12).
    pub fn new(remote_qpn: u32, remote_psn: u32, remote_gid: Ipv6Addr, path_mtu: u32) -> Self {
        Self {
            remote_qpn,
            remote_psn,
            remote_gid,
            local_psn: 0xabcd,
            path_mtu,
            access: Access::ALL_REMOTE,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            traffic_class: 0,
        }
    }
}

/// The operation of a send request. Addresses and keys are the other
/// side's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "opcode", rename_all = "snake_case")]
pub enum Operation {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImm {
        /// The immediate data; goes most significant byte first.
        imm: u32,
    },
    /// SEND with invalidate.
    SendInv {
        /// The other side's key to invalidate.
        key: u32,
    },
    /// RDMA WRITE.
    Write {
        /// Where to.
        addr: u64,
        /// The key of that memory.
        rkey: u32,
    },
    /// RDMA WRITE with immediate data.
    WriteImm {
        /// Where to.
        addr: u64,
        /// The key of that memory.
        rkey: u32,
        /// The immediate data; goes most significant byte first.
        imm: u32,
    },
    /// RDMA READ.
    Read {
        /// Where from.
        addr: u64,
        /// The key of that memory.
        rkey: u32,
    },
    /// Atomic compare-and-swap of 8 bytes. The old value is written to the local memory, in host
    /// order.
    CompareSwap {
        /// The address of the 8 bytes.
        addr: u64,
        /// The key of that memory.
        rkey: u32,
        /// The value to compare with.
        compare: u64,
        /// The value to store if the comparison succeeds.
        swap: u64,
    },
    /// Atomic fetch-and-add of 8 bytes. The old value is written to the local memory, in host
    /// order.
    FetchAdd {
        /// The address of the 8 bytes.
        addr: u64,
        /// The key of that memory.
        rkey: u32,
        /// The value to add.
        add: u64,
    },
    /// Invalidation of a key of this side.
    LocalInv {
        /// The key.
        key: u32,
    },
}

/// A work request for a send queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SendWork {
    /// The identifier that the completion returns.
    pub wr_id: u64,
    /// The operation.
    #[serde(flatten)]
    pub operation: Operation,
    /// The local memory.
    pub sges: Vec<Sge>,
    /// Whether success generates a completion. Failure always does.
    pub signaled: bool,
    /// Whether it waits for all READs and atomics before it.
    pub fence: bool,
    /// Whether it raises a solicited event on the other side.
    pub solicited: bool,
}

impl SendWork {
    /// A signaled request.
    pub fn new(wr_id: u64, operation: Operation, sges: &[Sge]) -> Self {
        let sges = sges.to_vec();
        Self {
            wr_id,
            operation,
            sges,
            signaled: true,
            fence: false,
            solicited: false,
        }
    }
}

/// A work completion.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Completion {
    /// The work request's.
    pub wr_id: u64,
    /// `IBV_WC_...` without its prefix, as in `SUCCESS` or `REM_ACCESS_ERR`.
    pub status: String,
    /// The opcode, without its prefix: `SEND`, `RDMA_WRITE`, `RECV` ...
    /// Valid only for successful work.
    #[serde(default)]
    pub opcode: Option<String>,
    /// The number of bytes that arrived, if the operation defines it.
    #[serde(default)]
    pub byte_len: u32,
    /// Immediate data, in host order.
    #[serde(default)]
    pub imm: Option<u32>,
    /// The key that the other side has invalidated.
    #[serde(default)]
    pub invalidated: Option<u32>,
    /// The driver's own error code.
    pub vendor_err: u32,
}

impl Completion {
    /// Whether the work succeeded.
    pub fn is_success(&self) -> bool {
        self.status == "SUCCESS"
    }
}

/// State of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PairState {
    /// `RESET`, `INIT`, `RTR`, `RTS`, `SQD`, `SQE` or `ERR`.
    pub state: String,
    /// PSN of the next request to be sent.
    pub sq_psn: u32,
    /// PSN of the next request expected.
    pub rq_psn: u32,
}
