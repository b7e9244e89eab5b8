//! What QPs are made with, and connected with.

use crate::completion::CompletionQueue;
use crate::pd::ProtectionDomain;
use roce_stack::{Access, QpInit, QpKind, QueueLimits};
use roce_wire::{PathMtu, RnrTimer};

/// How large a QP's queues are, and what completes.
#[derive(Clone, Copy, Debug)]
pub struct QpOptions {
    /// The transport service.
    pub kind: QpKind,
    /// Send requests that fit, at most 65,536.
    pub send_depth: usize,
    /// Receive requests that fit, at most 65,536.
    pub recv_depth: usize,
    /// Elements of a send request, at most 32.
    pub max_send_sge: usize,
    /// Elements of a receive request, at most 32.
    pub max_recv_sge: usize,
    /// Bytes of inline data of a send request, at most 512.
    pub max_inline: usize,
    /// Whether every send completes, or only those that ask for it.
    pub signal_all: bool,
}

impl Default for QpOptions {
    /// RC, 128 requests of 4 elements each way; sends complete if they ask for it.
    fn default() -> Self {
        Self {
            kind: QpKind::Rc,
            send_depth: 128,
            recv_depth: 128,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline: 128,
            signal_all: false,
        }
    }
}

impl QpOptions {
    pub(super) fn init(
        &self,
        pd: &ProtectionDomain,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
    ) -> QpInit {
        QpInit {
            kind: self.kind,
            pd: pd.id,
            send_cq: send_cq.queue().clone(),
            recv_cq: recv_cq.queue().clone(),
            send: QueueLimits {
                depth: self.send_depth,
                max_sge: self.max_send_sge,
            },
            recv: QueueLimits {
                depth: self.recv_depth,
                max_sge: self.max_recv_sge,
            },
            max_inline: self.max_inline,
            signal_all: self.signal_all,
        }
    }
}

/// Everything about a connection that has a usual value. What says how to retry and
/// how much may be outstanding is for RC; UC leaves it aside.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// What the peer may do through the QP.
    pub access: Access,
    /// The path MTU; `None` takes the largest that fits in the interface's MTU.
    pub path_mtu: Option<PathMtu>,
    /// READs and atomics that we may have outstanding.
    pub max_rd_atomic: u8,
    /// READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// How long the peer is to wait when we have no receive posted.
    pub min_rnr_timer: RnrTimer,
    /// Local ACK timeout: 4.096 us x 2^timeout; 0 waits for ever.
    pub timeout: u8,
    /// Transport retries, at most 7.
    pub retry_cnt: u8,
    /// Retries when the peer has no receive posted, at most 7; 7 is for ever.
    pub rnr_retry: u8,
    /// DSCP in the upper six bits, ECN in the lower two. The device's settings
    /// ([`PrioritySettings`](crate::settings::PrioritySettings)) may say another DSCP.
    pub traffic_class: u8,
    /// The service level, 0 to 7, from which the device's settings make the DSCP if none is
    /// said here.
    pub service_level: u8,
    /// Time to live, or hop limit; 0 takes the usual one.
    pub hop_limit: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            access: Access::REMOTE_READ
                | Access::REMOTE_WRITE
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL,
            path_mtu: None,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: RnrTimer::from_code(12).unwrap_or_default(),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            // ECN-capable: switches may mark instead of drop.
            traffic_class: 2,
            service_level: 0,
            hop_limit: 64,
        }
    }
}
