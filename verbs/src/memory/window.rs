//! Memory windows.

use super::{MemoryRegion, Registration};
use crate::context::Context;
use crate::error::RegionError;
use crate::pd::ProtectionDomain;
use roce_stack::{Access, MwBind, MwId, MwType, RemoteAddr, SendOp};
use std::sync::Arc;

/// A memory window: a key to a part of a region. Requests in a send queue bind and unbind it, in
/// order with the queue's other requests (IBTA 1.7, 10.6.7). The region needs [`Access::MW_BIND`],
/// and need not give peers any right itself.
///
/// - [`QueuePair::bind_window`](crate::QueuePair::bind_window) binds a window of type 1 with a new
///   key. The window may be bound again at any time, and serves all QPs of its domain.
/// - Posting [`MemoryWindow::bind`], with a key of the caller's choice, binds a window of type 2,
///   which must be unbound. The window serves the QP that bound it, until
///   [`MemoryWindow::invalidate`] or the peer's SEND with invalidate unbinds it.
///
/// Dropping the window, or the region, ends the access at once.
#[derive(Debug)]
pub struct MemoryWindow {
    pd: ProtectionDomain,
    id: MwId,
    kind: MwType,
}

/// The bytes of a region that a window gives access to, and the rights. Created by
/// [`MemoryRegion::window`] and [`Registration::window`].
#[derive(Clone, Copy, Debug)]
pub struct MwView {
    lkey: u32,
    addr: u64,
    len: u64,
    access: Access,
    zero_based: bool,
}

impl MwView {
    const EMPTY: Self = Self {
        lkey: 0,
        addr: 0,
        len: 0,
        access: Access::empty(),
        zero_based: false,
    };

    /// The same, but peers address the first byte as 0. Type 2 only.
    #[must_use]
    pub fn zero_based(self) -> Self {
        let zero_based = true;
        Self { zero_based, ..self }
    }
}

impl MemoryRegion {
    /// `len` bytes from `offset` on, for a window.
    ///
    /// # Errors
    /// If they reach beyond the end.
    pub fn window(&self, offset: usize, len: usize, access: Access) -> Result<MwView, RegionError> {
        self.registration.window(offset as u64, len as u64, access)
    }
}

impl Registration {
    /// `len` bytes from `offset` on, for a window.
    ///
    /// # Errors
    /// If they reach beyond the end.
    pub fn window(&self, offset: u64, len: u64, access: Access) -> Result<MwView, RegionError> {
        self.check(offset, len)?;
        Ok(MwView {
            lkey: self.lkey(),
            addr: self.addr() + offset,
            len,
            access,
            zero_based: false,
        })
    }
}

impl ProtectionDomain {
    /// A memory window, not bound yet.
    ///
    /// # Errors
    /// None for a domain of an open device.
    pub fn alloc_mw(&self, kind: MwType) -> Result<MemoryWindow, RegionError> {
        let pd = self.clone();
        let id = pd.context.inner.shared.lock().nic.alloc_mw(pd.id, kind)?;
        Ok(MemoryWindow { pd, id, kind })
    }
}

impl MemoryWindow {
    /// The window's type.
    pub fn kind(&self) -> MwType {
        self.kind
    }

    /// The window's remote key while it is bound with `key` as the low 8 bits.
    pub fn rkey(&self, key: u8) -> u32 {
        self.id.rkey(key)
    }

    /// The operation that binds the window, with `key` as the low 8 bits of its remote key.
    pub fn bind(&self, key: u8, view: &MwView) -> SendOp {
        SendOp::BindMw(MwBind {
            window: self.id,
            key,
            lkey: view.lkey,
            addr: view.addr,
            len: view.len,
            access: view.access,
            zero_based: view.zero_based,
        })
    }

    /// The low 8 bits of a new key, for binding a window of type 1; `None` for a window of type 2,
    /// whose low bits the caller chooses.
    pub fn next_key(&self) -> Option<u8> {
        let mut engine = self.pd.context.inner.shared.lock();
        let is_type_1 = self.kind == MwType::Type1;
        is_type_1.then(|| engine.nic.next_mw_key(self.id)).flatten()
    }

    /// The operation that binds the window with a new key on a QP of `context`, and the low 8 bits
    /// of that key. If `view` is `None`, the operation unbinds the window.
    pub(crate) fn rebind(&self, context: &Context, view: Option<&MwView>) -> (u8, SendOp) {
        let is_same_device = Arc::ptr_eq(&self.pd.context.inner, &context.inner);
        let key = is_same_device.then(|| {
            let mut engine = self.pd.context.inner.shared.lock();
            engine.nic.next_mw_key(self.id)
        });
        // Another device's window fails like an unknown one.
        let key = key.flatten().unwrap_or_default();
        (key, self.bind(key, view.unwrap_or(&MwView::EMPTY)))
    }

    /// The operation that unbinds a window of type 1 and gives it another key.
    pub fn unbind(&self, key: u8) -> SendOp {
        self.bind(key, &MwView::EMPTY)
    }

    /// The operation that unbinds a window of type 2.
    pub fn invalidate(&self, key: u8) -> SendOp {
        SendOp::LocalInv(self.rkey(key))
    }

    /// The address and key with which a peer accesses byte `offset` of the window while it is bound
    /// with `key` and `view`.
    pub fn remote(&self, key: u8, view: &MwView, offset: u64) -> RemoteAddr {
        let from = if view.zero_based { 0 } else { view.addr };
        RemoteAddr {
            addr: from.wrapping_add(offset),
            rkey: self.rkey(key),
        }
    }
}

impl Drop for MemoryWindow {
    fn drop(&mut self) {
        let mut engine = self.pd.context.inner.shared.lock();
        engine.nic.dealloc_mw(self.id);
    }
}
