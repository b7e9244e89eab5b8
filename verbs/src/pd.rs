//! Protection domains.

use crate::completion::CompletionQueue;
use crate::context::Context;
use crate::error::{QpError, RegionError};
use crate::memory::MemoryRegion;
use crate::memory::MemoryWindow;
use crate::memory::Registration;
use crate::qp::{QpOptions, QueuePair};
use crate::qp::{SharedReceiveQueue, SrqOptions};
use roce_stack::{Access, AccessError, Buffer, Memory, PdId, Sge, SrqError, WindowType};
use std::sync::Arc;

/// What ties QPs to the memory that they may use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProtectionDomain {
    pub(crate) context: Context,
    pub(crate) id: PdId,
}

impl ProtectionDomain {
    pub(crate) fn new(context: Context) -> Self {
        let id = context.inner.shared.lock().nic.alloc_pd();
        Self { context, id }
    }

    /// Allocates `len` zero bytes, beginning at a page, and registers them.
    ///
    /// # Errors
    /// If the rights contradict each other.
    pub fn allocate(&self, len: usize, access: Access) -> Result<MemoryRegion, RegionError> {
        let buffer = Arc::new(Buffer::new(len)?);
        self.register(buffer, access)
    }

    /// Registers a buffer (once more, perhaps with other rights).
    ///
    /// # Errors
    /// If the rights contradict each other.
    pub fn register(
        &self,
        buffer: Arc<Buffer>,
        access: Access,
    ) -> Result<MemoryRegion, RegionError> {
        let memory = Memory::buffer(Arc::clone(&buffer));
        let registration = self.register_memory(memory, None, access)?;
        Ok(MemoryRegion::new(registration, buffer))
    }

    /// Registers memory of any kind, whose first byte work requests and peers are to
    /// call `iova`, or by its own address.
    ///
    /// - [`Memory::null`] reads as zeros and swallows what is written to it.
    /// - [`Memory::on_demand`] and [`Memory::whole_address_space`] need not be mapped;
    ///   their accessor is [`ProcessMemory`](crate::ProcessMemory).
    /// - [`Memory::foreign`] is the caller's, who promises to keep it.
    ///
    /// # Errors
    /// If the rights contradict each other, or the memory can't have them.
    pub fn register_memory(
        &self,
        memory: Memory,
        iova: Option<u64>,
        access: Access,
    ) -> Result<Registration, RegionError> {
        Registration::new(self.clone(), memory, iova, access)
    }

    /// Where the bytes of a request's element are in this process, if perhaps nothing is
    /// mapped there: of an on-demand region, whose pages can be fetched ahead. `None` if
    /// the region is of another kind.
    ///
    /// # Errors
    /// If requests of this domain may not use the element so.
    pub fn on_demand_address(
        &self,
        element: &Sge,
        rights: Access,
    ) -> Result<Option<u64>, AccessError> {
        let engine = self.context.inner.shared.lock();
        engine.nic.on_demand_address(self.id, element, rights)
    }

    /// A memory window, which shows nothing yet.
    ///
    /// # Errors
    /// None that a domain of an open device can cause.
    pub fn alloc_window(&self, kind: WindowType) -> Result<MemoryWindow, RegionError> {
        Ok(MemoryWindow::new(self.clone(), kind)?)
    }

    /// A shared receive queue: receives for many QPs in one place.
    ///
    /// # Errors
    /// If a size is out of range.
    pub fn create_srq(&self, options: &SrqOptions) -> Result<SharedReceiveQueue, SrqError> {
        SharedReceiveQueue::new(self.clone(), options)
    }

    /// A QP in state RESET that takes its receives from `srq`. Of the options, those of
    /// receives don't matter.
    ///
    /// # Errors
    /// If the SRQ is another device's, or as [`ProtectionDomain::create_qp`].
    pub fn create_qp_with_srq(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        srq: &SharedReceiveQueue,
        options: &QpOptions,
    ) -> Result<QueuePair, QpError> {
        QueuePair::with_srq(self.clone(), send_cq, recv_cq, srq, options)
    }

    /// A QP in state RESET.
    ///
    /// # Errors
    /// If all QP numbers are taken: an open device has 130,048. Its first QP claims them from
    /// those of the interface, which are enough for 127 open devices on the host.
    pub fn create_qp(
        &self,
        send_cq: &CompletionQueue,
        recv_cq: &CompletionQueue,
        options: &QpOptions,
    ) -> Result<QueuePair, QpError> {
        QueuePair::new(self.clone(), send_cq, recv_cq, options)
    }
}
