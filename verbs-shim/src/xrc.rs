//! XRC domains.

use crate::prelude::*;
use crate::state::State;
use roce_verbs::qp::XrcDomain;
use std::os::fd::BorrowedFd;

#[repr(C)]
pub(crate) struct Xrcd {
    _c: CPart<IbvXrcd>,
    pub(crate) domain: XrcDomain,
    pub(crate) state: Arc<State>,
    pub(crate) users: Users,
}

first_part!(IbvXrcd => Xrcd._c);

/// The domain that a file identifies.
fn open_file(state: &State, fd: c_int, oflags: c_int) -> Result<XrcDomain, Errno> {
    if fd < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: the program's descriptor, open for the call.
    let file = nix::sys::stat::fstat(unsafe { BorrowedFd::borrow_raw(fd) })?;
    let mut files = state.xrc_files.lock();
    match files.get(&(file.st_dev, file.st_ino)) {
        Some(_) if oflags & libc::O_EXCL != 0 => Err(Errno::EINVAL),
        Some(domain) => Ok(domain.clone()),
        None if oflags & libc::O_CREAT == 0 => Err(Errno::EAGAIN),
        None => {
            let domain = state.roce.create_xrcd();
            files.insert((file.st_dev, file.st_ino), domain.clone());
            Ok(domain)
        }
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
        let domain = match fd {
            -1 if oflags & libc::O_CREAT == 0 => return Err(Errno::EINVAL),
            -1 => state.roce.create_xrcd(),
            _ => open_file(state, fd, oflags)?,
        };
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
