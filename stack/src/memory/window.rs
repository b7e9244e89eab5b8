//! Memory windows: separate keys for parts of regions (IBTA 1.7, 10.6.7).
//!
//! A window is allocated once and bound many times, by requests in a send queue, so that a peer's
//! access begins and ends in order with the other requests of the queue. The upper 24 bits of a
//! window's key are drawn at random and stay; the low 8 change with each binding.
//!
//! | | type 1 | type 2 |
//! |---|---|---|
//! | low 8 bits are chosen by | the NIC | the consumer |
//! | can be bound again while bound | yes | no, it must be invalidated first |
//! | is unbound by | binding no bytes | invalidation, local or by the peer's SEND |
//! | may be used through | any QP of its protection domain | the QP that bound it |
//!
//! Type 2 windows are of type 2B: both protection domain and QP are checked.

use super::{Access, AccessError, Extent, MemoryTable, PdId, RegisterError, Span};
use rand_core::Rng;
use roce_wire::Qpn;

/// The ID of a memory window of a NIC: the upper 24 bits of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MwId(pub(super) u32);

impl MwId {
    /// The remote key of the window while it is bound with these low 8 bits.
    pub fn rkey(self, key: u8) -> u32 {
        self.0 << 8 | u32::from(key)
    }
}

/// The two kinds of windows (IBTA 1.7, 10.6.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MwType {
    /// Open to all QPs of its protection domain.
    Type1,
    /// Open to the QP that bound it.
    Type2,
}

/// The parameters of a window's binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MwBind {
    /// The window.
    pub window: MwId,
    /// The low 8 bits of its new key.
    pub key: u8,
    /// The region, by its local key. Ignored if `len` is 0.
    pub lkey: u32,
    /// The address of the first byte in the region.
    pub addr: u64,
    /// The length in bytes. Binding a window of type 1 to 0 bytes unbinds it.
    pub len: u64,
    /// The rights of peers: `REMOTE_*` only.
    pub access: Access,
    /// Peers use 0 as the address of the window's first byte, instead of `addr`. Type 2 only.
    pub zero_based: bool,
}

/// Why a window was not bound. It is unchanged. The completion reports only
/// [`WcStatus::MemoryWindowBindError`](crate::WcStatus::MemoryWindowBindError).
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// No window has this ID.
    UnknownWindow,
    /// No region has this key, or its remote rights were invalidated.
    UnknownRegion,
    /// QP, window and region are not of one protection domain (C10-72).
    WrongPd,
    /// A window of type 2 is bound already (o10-37.2.30).
    AlreadyBound,
    /// A window of type 2 can't be bound to 0 bytes (o10-37.2.40).
    Empty,
    /// A window of type 1 can't be zero-based (o10-36.2.2).
    ZeroBased,
    /// The requested rights are not remote rights.
    NotRemote,
    /// The region does not allow windows to be bound to it (C10-73).
    NoBindRight,
    /// Writing and atomics need a region with local write access (C10-74).
    NeedsLocalWrite,
    /// The bytes don't lie in the region (C10-75).
    OutOfBounds,
    /// `FLUSH_PERSISTENT` needs a region whose bytes can be made durable.
    NotDurable,
}

impl core::fmt::Display for BindError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::UnknownWindow => "there is no such window",
            Self::UnknownRegion => "no region has this key, or its key was invalidated",
            Self::WrongPd => "QP, window and region are not of one protection domain",
            Self::AlreadyBound => "a window of type 2 that is bound must be invalidated first",
            Self::Empty => "a window of type 2 can't be bound to 0 bytes",
            Self::ZeroBased => "a window of type 1 can't be zero-based",
            Self::NotRemote => "a window can have remote rights only",
            Self::NoBindRight => "the region was registered without IBV_ACCESS_MW_BIND",
            Self::NeedsLocalWrite => {
                "the rights to write and for atomics need a region with IBV_ACCESS_LOCAL_WRITE"
            }
            Self::OutOfBounds => "the bytes don't lie in the region",
            Self::NotDurable => {
                "the right to flush to persistence needs a region of a file's memory"
            }
        })
    }
}

impl core::fmt::Debug for BindError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for BindError {}

/// Why a region was not deregistered.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeregisterError {
    /// No region has this key.
    UnknownKey,
    /// Windows are bound to it (IBTA 1.7, 10.6.7.2.6).
    WindowsBound {
        /// The number of windows.
        windows: u32,
    },
}

impl core::fmt::Display for DeregisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UnknownKey => f.write_str("no region has this key"),
            Self::WindowsBound { windows } => write!(
                f,
                "{windows} memory windows are bound to the region: unbind, invalidate or free \
                 them first"
            ),
        }
    }
}

impl core::fmt::Debug for DeregisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DeregisterError {}

/// The state of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryWindow {
    pd: PdId,
    kind: MwType,
    /// The low 8 bits of its last key, or of its next key if [`MemoryTable::next_mw_key`] has drawn
    /// it.
    key: u8,
    bound: Option<Bound>,
}

/// The binding of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    rkey: u32,
    lkey: u32,
    /// The address of the first byte in the region.
    addr: u64,
    len: u64,
    /// The address of the first byte for peers.
    from: u64,
    access: Access,
    /// The only QP that may use it, if it is of type 2.
    qpn: Option<Qpn>,
}

impl MemoryTable {
    /// Allocates a window, which is not bound. None of the 256 keys of its ID is, or will become,
    /// the key of a region or of another window.
    ///
    /// # Errors
    /// If the protection domain is unknown.
    // rule: 10.6.7-window-alloc
    pub fn alloc_mw(
        &mut self,
        rng: &mut impl Rng,
        pd: PdId,
        kind: MwType,
    ) -> Result<MwId, RegisterError> {
        if !self.knows(pd) {
            return Err(RegisterError::UnknownPd);
        }
        let id = loop {
            let id = MwId(rng.next_u32() >> 8);
            let mut keys = (0..=u8::MAX).map(|key| id.rkey(key));
            let taken = self.windows.contains_key(&id.0)
                || keys.any(|rkey| self.regions.contains_key(&rkey));
            if id.0 != 0 && !taken {
                break id;
            }
        };
        let window = MemoryWindow {
            pd,
            kind,
            key: 0,
            bound: None,
        };
        self.windows.insert(id.0, window);
        Ok(id)
    }

    /// Deallocates a window, and unbinds it if it is bound (IBTA 1.7, 11.2.8.9). Returns whether
    /// the window existed.
    pub fn dealloc_mw(&mut self, id: MwId) -> bool {
        self.unbind(id.0);
        self.windows.remove(&id.0).is_some()
    }

    /// The low 8 bits for the next binding of a window of type 1, different from those of its last;
    /// `None` if there is no such window.
    // rule: 10.6.7-window-bind-1
    pub fn next_mw_key(&mut self, rng: &mut impl Rng, id: MwId) -> Option<u8> {
        let window = self.windows.get_mut(&id.0)?;
        let step = rng.next_u32() % 255 + 1;
        window.key = window.key.wrapping_add(step as u8);
        Some(window.key)
    }

    /// Binds a window on behalf of a QP (IBTA 1.7, 11.3.5 and 10.6.7.2).
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn bind(&mut self, pd: PdId, qpn: Qpn, bind: &MwBind) -> Result<(), BindError> {
        let id = bind.window.0;
        let window = *self.windows.get(&id).ok_or(BindError::UnknownWindow)?;
        // rule: 10.6.7-window-pd
        if window.pd != pd {
            return Err(BindError::WrongPd);
        }
        match window.kind {
            MwType::Type1 if bind.zero_based => return Err(BindError::ZeroBased),
            // rule: 10.6.7-window-unbind
            MwType::Type1 if bind.len == 0 => {
                self.unbind(id);
                return Ok(());
            }
            MwType::Type1 => {}
            // rule: 10.6.7-window-rebind
            MwType::Type2 if window.bound.is_some() => return Err(BindError::AlreadyBound),
            MwType::Type2 if bind.len == 0 => return Err(BindError::Empty),
            MwType::Type2 => {}
        }
        self.check_bind(pd, bind)?;
        self.unbind(id);
        if let Some(region) = self.regions.get_mut(&bind.lkey) {
            region.windows += 1;
        }
        let bound = Bound {
            // rule: 10.6.7-window-bind-2
            rkey: bind.window.rkey(bind.key),
            lkey: bind.lkey,
            addr: bind.addr,
            len: bind.len,
            // rule: 10.6.7-window-zero-based
            from: if bind.zero_based { 0 } else { bind.addr },
            access: bind.access,
            qpn: (window.kind == MwType::Type2).then_some(qpn),
        };
        let bound = Some(bound);
        let key = bind.key;
        self.windows.insert(
            id,
            MemoryWindow {
                key,
                bound,
                ..window
            },
        );
        Ok(())
    }

    /// Checks the region of a binding.
    fn check_bind(&self, pd: PdId, bind: &MwBind) -> Result<(), BindError> {
        let region = self.regions.get(&bind.lkey);
        let region = region
            .filter(|region| !region.invalidated)
            .ok_or(BindError::UnknownRegion)?;
        if region.pd != pd {
            return Err(BindError::WrongPd);
        }
        if !Access::REMOTE.contains(bind.access) {
            return Err(BindError::NotRemote);
        }
        // rule: 10.6.7-window-allowed
        if !region.access.contains(Access::MW_BIND) {
            return Err(BindError::NoBindRight);
        }
        // rule: 10.6.7-window-rights
        if bind.access.intersects(Access::NEED_LOCAL_WRITE)
            && !region.access.contains(Access::LOCAL_WRITE)
        {
            return Err(BindError::NeedsLocalWrite);
        }
        // rule: A19-flush-persistent-memory
        if bind.access.contains(Access::FLUSH_PERSISTENT) && region.durable().is_none() {
            return Err(BindError::NotDurable);
        }
        match region.check(pd, bind.addr, bind.len, Access::empty()) {
            Ok(_) => Ok(()),
            // rule: 10.6.7-window-range
            Err(_) => Err(BindError::OutOfBounds),
        }
    }

    /// The bytes `va .. va + len` of a window, if a peer may use them for this access through the
    /// QP `qpn`.
    pub(super) fn through_window(
        &self,
        (pd, qpn): (PdId, Qpn),
        rkey: u32,
        va: u64,
        len: u64,
        rights: Access,
    ) -> Result<Span<'_>, AccessError> {
        let bound = self.may_use_window((pd, qpn), rkey, rights)?;
        let offset = va.checked_sub(bound.from).ok_or(AccessError::OutOfBounds)?;
        if offset > bound.len || len > bound.len - offset {
            return Err(AccessError::OutOfBounds);
        }
        let region = self.regions.get(&bound.lkey).ok_or(AccessError::BadKey)?;
        // `bind` has checked that the window lies within the region, so the sum does not wrap.
        region.check(pd, bound.addr + offset, len, Access::empty())
    }

    /// The window that is bound with this key, if a peer may use it for this access through the QP.
    pub(super) fn may_use_window(
        &self,
        (pd, qpn): (PdId, Qpn),
        rkey: u32,
        rights: Access,
    ) -> Result<&Bound, AccessError> {
        let (window, bound) = self.bound_window(rkey).ok_or(AccessError::BadKey)?;
        if window.pd != pd {
            return Err(AccessError::WrongPd);
        }
        // rule: 10.6.7-window-qp
        if bound.qpn.is_some_and(|only| only != qpn) {
            return Err(AccessError::WrongQp);
        }
        if !bound.access.contains(rights) {
            return Err(AccessError::Denied);
        }
        Ok(bound)
    }

    /// Whether the window may be invalidated. Only one of type 2 may, which can then be bound again
    /// (IBTA 1.7, 10.6.7.2.5).
    // rule: 10.6.7-window-invalidate
    pub(super) fn check_window_invalidation(
        &self,
        pd: PdId,
        qpn: Qpn,
        rkey: u32,
    ) -> Result<(), AccessError> {
        let (window, bound) = self.bound_window(rkey).ok_or(AccessError::BadKey)?;
        if window.pd != pd {
            return Err(AccessError::WrongPd);
        }
        match bound.qpn {
            // A window of type 1 (o10-37.2.26).
            None => Err(AccessError::Denied),
            Some(only) if only != qpn => Err(AccessError::WrongQp),
            Some(_) => Ok(()),
        }
    }

    /// Unbinds the type 2 windows that a destroyed QP bound: nothing can use them any more.
    // rule: 10.6.7-window-qp-goes
    pub(crate) fn forget_qp(&mut self, qpn: Qpn) {
        self.unbind_all(|bound| bound.qpn == Some(qpn));
    }

    /// Unbinds all windows of a region.
    pub(super) fn unbind_from(&mut self, lkey: u32) {
        self.unbind_all(|bound| bound.lkey == lkey);
    }

    fn unbind_all(&mut self, which: impl Fn(&Bound) -> bool) {
        let Self {
            windows, regions, ..
        } = self;
        for window in windows.values_mut() {
            if let Some(bound) = window.bound.take_if(|bound| which(bound))
                && let Some(region) = regions.get_mut(&bound.lkey)
            {
                region.windows -= 1;
            }
        }
    }

    pub(super) fn unbind(&mut self, id: u32) {
        let window = self.windows.get_mut(&id);
        if let Some(bound) = window.and_then(|window| window.bound.take())
            && let Some(region) = self.regions.get_mut(&bound.lkey)
        {
            region.windows -= 1;
        }
    }

    /// The key of the region of the window that is bound with this key, and the address there of the
    /// window's address `va`.
    pub(super) fn behind_window(&self, rkey: u32, va: u64) -> Option<(u32, u64)> {
        let (_, bound) = self.bound_window(rkey)?;
        let in_region = bound.addr.wrapping_add(va.wrapping_sub(bound.from));
        Some((bound.lkey, in_region))
    }

    /// What the window that is bound with this key grants.
    pub(super) fn window_extent(&self, rkey: u32) -> Option<Extent> {
        let (_, bound) = self.bound_window(rkey)?;
        Some(Extent {
            addr: bound.from,
            len: bound.len,
            access: bound.access,
        })
    }

    /// The window that is bound with this key.
    fn bound_window(&self, rkey: u32) -> Option<(&MemoryWindow, &Bound)> {
        let window = self.windows.get(&(rkey >> 8))?;
        let bound = window.bound.as_ref().filter(|bound| bound.rkey == rkey)?;
        Some((window, bound))
    }
}
