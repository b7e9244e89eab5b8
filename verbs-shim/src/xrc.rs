//! XRC domains.

use crate::abi::{IbvXrcd, IbvXrcdInitAttr, XRCD_INIT_ATTR_FD, XRCD_INIT_ATTR_OFLAGS};
use crate::context::Context;
use crate::guard;
use crate::pointer::{CPart, Handle, In, Object};
use crate::usage::Users;
use nix::errno::Errno;
use roce_verbs::XrcDomain;
use std::ffi::c_int;

/// An XRC domain.
#[repr(C)]
pub(crate) struct Xrcd {
    _c: CPart<IbvXrcd>,
    pub(crate) domain: XrcDomain,
    pub(crate) users: Users,
}

// SAFETY: `_c` is the first field.
unsafe impl Object for Xrcd {
    type C = IbvXrcd;
}

/// `ibv_open_xrcd`. A domain is this process's alone: one that others share, by the
/// inode of a file, is not supported.
pub(crate) extern "C" fn open_xrcd(
    context: Handle<Context>,
    attr: In<IbvXrcdInitAttr>,
) -> *mut IbvXrcd {
    guard::pointer(|| {
        let state = &context.get()?.state;
        let attr = attr.get()?;
        let needed = XRCD_INIT_ATTR_FD | XRCD_INIT_ATTR_OFLAGS;
        if attr.comp_mask != needed {
            return Err(Errno::EINVAL);
        }
        if attr.fd != -1 {
            return Err(Errno::EOPNOTSUPP);
        }
        Ok(Handle::give(Xrcd {
            _c: CPart::new(IbvXrcd { context }),
            domain: state.roce.create_xrcd(),
            users: Users::default(),
        }))
    })
}

/// `ibv_close_xrcd`.
pub(crate) extern "C" fn close_xrcd(xrcd: Handle<Xrcd>) -> c_int {
    guard::errno(|| {
        xrcd.get()?.users.check_none()?;
        xrcd.take().map(drop)
    })
}
