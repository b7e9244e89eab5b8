//! The queues and memory of a stream, created before it is connected.

use super::outbox::CONTROL_SLOTS;
use crate::error::{Error, OrErrno};
use crate::nic::Nic;
use crate::options::{MAX_QUEUE, Sizes};
use crate::wire::{ByteOrder, ConnectData, ELEMENT_LEN, Element, MAPPING_LEN};
use nix::errno::Errno;
use roce_verbs::completion::CompletionChannel;
use roce_verbs::{Access, CompletionQueue, MemoryRegion, QpOptions, QueuePair, RecvRequest};
use std::sync::Arc;

/// The number of elements that a peer may write: one in use while the other is filled.
pub(super) const ELEMENTS: usize = 2;

/// Receives beyond the peer's credits: for messages that need no credit, and because receives are
/// reposted in batches.
pub(super) const SPARE_RECEIVES: u16 = 32;

/// The `wr_id` of receives; sends have 0.
pub(super) const RECEIVE: u64 = 1;

/// Maximum number of inline bytes.
const MAX_INLINE: usize = 512;

/// Minimum number of requests in a queue, as in rdma-core.
const MIN_QUEUE: u16 = 16;

/// The memory and the queues of a stream.
pub(crate) struct Endpoint {
    pub(crate) nic: Arc<Nic>,
    pub(crate) queue: CompletionQueue,
    pub(crate) channel: CompletionChannel,
    /// The send buffer.
    pub(super) send: MemoryRegion,
    /// The receive buffer: two halves.
    pub(super) receive: MemoryRegion,
    /// Written by the peer: [`ELEMENTS`] elements, then the mappings.
    pub(super) offers: MemoryRegion,
    pub(super) sizes: Sizes,
}

impl Endpoint {
    /// Creates the QP and posts its receives.
    ///
    /// # Errors
    /// If memory or descriptors run out.
    pub(crate) fn new(nic: &Arc<Nic>, wanted: &Sizes) -> Result<(Self, QueuePair), Error> {
        let sizes = Sizes {
            send_queue: wanted.send_queue.clamp(MIN_QUEUE, MAX_QUEUE),
            receive_queue: wanted
                .receive_queue
                .clamp(MIN_QUEUE, MAX_QUEUE - SPARE_RECEIVES),
            receive_buffer: wanted.receive_buffer.max(2),
            inline: wanted.inline.min(MAX_INLINE as u16),
            ..*wanted
        };
        let sends = usize::from(sizes.send_queue);
        let receives = usize::from(sizes.receive_queue) + usize::from(SPARE_RECEIVES);
        let channel = nic.context.create_channel().or_errno(Errno::EMFILE)?;
        let queue = nic
            .context
            .create_cq_with_channel(sends + receives, &channel);
        let options = QpOptions {
            send_depth: sends,
            recv_depth: receives,
            max_send_sge: 2,
            max_recv_sge: 1,
            // Elements and mappings are always sent inline.
            max_inline: usize::from(sizes.inline).max(MAPPING_LEN),
            ..QpOptions::default()
        };
        let qp = nic
            .pd
            .create_qp(&queue, &queue, &options)
            .or_errno(Errno::ENOMEM)?;
        let written = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        qp.to_init(Access::REMOTE_WRITE).or_errno(Errno::ENODEV)?;
        for _ in 0..receives {
            post_receive(&qp)?;
        }
        let offers = ELEMENTS * ELEMENT_LEN + usize::from(sizes.mappings) * MAPPING_LEN;
        let half = sizes.receive_buffer / 2;
        let endpoint = Self {
            nic: Arc::clone(nic),
            queue,
            channel,
            send: nic
                .pd
                .allocate(sizes.send_buffer, Access::empty())
                .or_errno(Errno::ENOMEM)?,
            receive: nic.pd.allocate(2 * half, written).or_errno(Errno::ENOMEM)?,
            offers: nic.pd.allocate(offers, written).or_errno(Errno::ENOMEM)?,
            sizes,
        };
        Ok((endpoint, qp))
    }

    /// The length of each half of the receive buffer.
    pub(super) fn half(&self) -> usize {
        self.receive.len() / 2
    }

    /// The private data with credits and addresses for the peer.
    pub(crate) fn connect_data(&self) -> ConnectData {
        let element = |region: &MemoryRegion, len: usize| Element {
            address: region.remote(0).addr,
            key: region.rkey(),
            len: u32::try_from(len).unwrap_or(u32::MAX),
        };
        ConnectData {
            order: ByteOrder::NATIVE,
            credits: self.sizes.receive_queue,
            mappings: Some(self.sizes.mappings),
            elements: element(&self.offers, ELEMENTS),
            buffer: element(&self.receive, self.half()),
        }
    }

    /// Maximum number of messages in the send queue.
    pub(super) fn send_slots(&self) -> u16 {
        self.sizes.send_queue.max(CONTROL_SLOTS + 1)
    }
}

pub(super) fn post_receive(qp: &QueuePair) -> Result<(), Error> {
    let receive = RecvRequest {
        wr_id: RECEIVE,
        sges: &[],
    };
    qp.post_recv(&receive).or_errno(Errno::ENOMEM)
}
