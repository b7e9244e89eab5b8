//! The options for creating and connecting QPs.

use crate::completion::CompletionQueue;
use crate::pd::ProtectionDomain;
use roce_stack::{Access, QpInit, QpKind, QueueLimits};
use roce_wire::{PathMtu, RnrTimer};

/// A QP's kind, the sizes of its queues, and which sends generate completions. A size above its
/// maximum is lowered to the maximum.
#[derive(Clone, Copy, Debug)]
pub struct QpOptions {
    /// The transport service.
    pub kind: QpKind,
    /// The maximum number of outstanding send requests, at most 65,536.
    pub send_depth: usize,
    /// The maximum number of outstanding receive requests, at most 65,536.
    pub recv_depth: usize,
    /// The maximum number of scatter/gather elements in a send request, at most 32.
    pub max_send_sge: usize,
    /// The maximum number of scatter/gather elements in a receive request, at most 32.
    pub max_recv_sge: usize,
    /// The maximum size of inline data in a send request, in bytes, at most 512.
    pub max_inline: usize,
    /// Whether every send request generates a completion, or only those that ask for it.
    pub signal_all: bool,
}

impl Default for QpOptions {
    /// RC, 128 requests of 4 elements each way; sends generate a completion if they ask for it.
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

/// The attributes of a connection that do not identify the peer. All have default values. Those for
/// retries and for outstanding READs and atomics are for RC and XRC; UC ignores them.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// The peer's rights through the QP.
    pub access: Access,
    /// The path MTU; `None` means the largest that fits in the interface's MTU.
    pub path_mtu: Option<PathMtu>,
    /// The maximum number of READs and atomics that this end has outstanding.
    pub max_rd_atomic: u8,
    /// The maximum number of READs and atomics that the peer may have outstanding.
    pub max_dest_rd_atomic: u8,
    /// The time that the peer waits before it retries a request for which this end has no receive
    /// posted.
    pub min_rnr_timer: RnrTimer,
    /// The local ACK timeout: 4.096 us x 2^timeout; 0 waits for ever.
    pub timeout: u8,
    /// Transport retries, at most 7.
    pub retry_cnt: u8,
    /// Retries when the peer has no receive posted, at most 7; 7 means no limit.
    pub rnr_retry: u8,
    /// DSCP in the upper six bits, ECN in the lower two. The device's settings
    /// ([`PrioritySettings`](crate::settings::PrioritySettings)) may replace the DSCP.
    pub traffic_class: u8,
    /// The service level, 0 to 7. If `traffic_class` has no DSCP, the device's settings map the
    /// service level to one.
    pub service_level: u8,
    /// Time to live, or hop limit; 0 means the default.
    pub hop_limit: u8,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            access: Access::REMOTE_READ
                | Access::REMOTE_WRITE
                | Access::REMOTE_ATOMIC
                | Access::FLUSH_GLOBAL
                | Access::FLUSH_PERSISTENT,
            path_mtu: None,
            max_rd_atomic: 16,
            max_dest_rd_atomic: 16,
            min_rnr_timer: RnrTimer::from_code(12).unwrap_or_default(),
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 7,
            // ECN-capable: switches may mark packets instead of dropping them.
            // rule: A17.3.1-ecn-capable
            traffic_class: 2,
            service_level: 0,
            hop_limit: 64,
        }
    }
}
