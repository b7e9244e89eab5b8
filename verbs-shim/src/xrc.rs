//! XRC domains.

use crate::prelude::*;
use crate::state::State;
use roce_verbs::qp::{XrcDomain, XrcFileOptions};
use std::os::fd::BorrowedFd;

#[repr(C)]
pub(crate) struct Xrcd {
    _c: CPart<IbvXrcd>,
    pub(crate) domain: XrcDomain,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
}

first_part!(IbvXrcd => Xrcd._c);

/// The program's file; `None` for -1.
fn file<'a>(fd: c_int) -> Result<Option<BorrowedFd<'a>>, Errno> {
    match fd {
        -1 => Ok(None),
        ..-1 => Err(Errno::EBADF),
        // SAFETY: the program's descriptor, open for the call.
        _ => Ok(Some(unsafe { BorrowedFd::borrow_raw(fd) })),
    }
}

pub(crate) extern "C" fn open_xrcd(
    context: Handle<IbvContext>,
    attr: In<IbvXrcdInitAttr>,
) -> *mut IbvXrcd {
    guard::pointer("ibv_open_xrcd", || {
        let state = &context.get()?.state;
        let IbvXrcdInitAttr {
            comp_mask,
            fd,
            oflags,
        } = attr.read()?;
        let both = XRCD_INIT_ATTR_FD | XRCD_INIT_ATTR_OFLAGS;
        check_bits("comp_mask", comp_mask, both, Errno::EOPNOTSUPP)?;
        if comp_mask != both {
            return Err(Errno::EINVAL);
        }
        let options = XrcFileOptions {
            creates: oflags & libc::O_CREAT != 0,
            is_exclusive: oflags & libc::O_EXCL != 0,
        };
        let domain = state.xrc_files.open(file(fd)?, options).or_errno()?;
        Ok(Handle::into_raw(Xrcd {
            _c: CPart::new(IbvXrcd { context }),
            domain,
            state: Arc::clone(state),
            users: Users::default(),
        }))
    })
}

pub(crate) extern "C" fn close_xrcd(xrcd: Handle<IbvXrcd>) -> c_int {
    guard::errno("ibv_close_xrcd", || {
        xrcd.get()?.users.check_none()?;
        xrcd.take().map(drop)
    })
}
