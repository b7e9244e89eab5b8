//! The devices of IDs as C sees them.

use crate::context;
use crate::device::Device;
use crate::errors::created;
use crate::log;
use crate::pd;
use crate::prelude::*;
use crate::xrc;
use roce_verbs::rdma_cm::IdError;

pub(super) struct CmDevice {
    device: Handle<IbvDevice>,
    pub(super) context: Handle<IbvContext>,
    /// The default protection domain.
    pub(super) pd: Handle<IbvPd>,
    /// The default XRC domain, opened on first use.
    xrcd: Mutex<Handle<IbvXrcd>>,
}

impl CmDevice {
    pub(super) fn open(device: &roce_verbs::Device) -> Result<Self, Errno> {
        let device = Handle::of(Device::find_or_create(device));
        let context = created(context::open_device(device))?;
        let pd = created(pd::alloc_pd(context)).inspect_err(|_| {
            context::close_device(context);
        })?;
        Ok(Self {
            device,
            context,
            pd,
            xrcd: Mutex::new(Handle::NULL),
        })
    }

    /// Whether it is this device.
    pub(super) fn is(&self, device: &roce_verbs::Device) -> bool {
        let wanted: Handle<IbvDevice> = Handle::of(Device::find_or_create(device));
        self.device.as_ptr() == wanted.as_ptr()
    }

    /// The default XRC domain. It stays open.
    ///
    /// # Errors
    /// `ENODEV` in a child process.
    pub(super) fn xrcd(&self) -> Result<Handle<IbvXrcd>, Errno> {
        let mut xrcd = self.xrcd.lock();
        if xrcd.as_ptr().is_null() {
            let attr = IbvXrcdInitAttr {
                comp_mask: XRCD_INIT_ATTR_FD | XRCD_INIT_ATTR_OFLAGS,
                fd: -1,
                oflags: libc::O_CREAT,
            };
            *xrcd = created(xrc::open_xrcd(self.context, In::at(&raw const attr as u64)))?;
        }
        Ok(*xrcd)
    }
}

/// An error of a function of this library that an ID calls.
pub(super) fn refused(errno: Errno) -> IdError {
    let reason = log::take_reason();
    IdError::Program {
        errno: errno as i32,
        reason: reason.unwrap_or_else(|| errno.desc().to_owned()),
    }
}
