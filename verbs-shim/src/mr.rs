//! Memory regions.

use crate::abi::*;
use crate::context::State;
use crate::convert::access;
use crate::dmabuf::Mapping;
use crate::errors::OrErrno;
use crate::limits::MAX_MRS;
use crate::pd::Pd;
use crate::pointer::{CPart, Handle, Part};
use crate::usage::Use;
use crate::{guard, mappings};
use nix::errno::Errno;
use parking_lot::Mutex;
use roce_verbs::Access;
use roce_verbs::memory::{Memory, ProcessMemory, Registration};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A memory region, which C may have several pointers to.
#[repr(C)]
pub(crate) struct Mr {
    c: CPart<IbvMr>,
    pub(crate) region: Arc<Region>,
    state: Arc<State>,
}

// SAFETY: `c` is the first field.
unsafe impl Part for IbvMr {
    type Object = Mr;
}

/// A registration. `ibv_dereg_mr` ends it, and so does closing the context.
pub(crate) struct Region {
    held: Mutex<Option<Held>>,
    handle: u32,
}

/// The parts of a region until it is deregistered.
struct Held {
    // Dropped first: the memory must exist as long as the NIC may use it.
    registration: Registration,
    _shown: Shown,
    pd: Use,
    _one: Use,
}

/// The memory behind a region that does not belong to the program.
pub(crate) enum Shown {
    /// None: the memory is the program's own.
    Nothing,
    /// Memory of the device.
    Device { _memory: Use },
    /// A dma-buf.
    DmaBuf { _mapping: Mapping },
}

impl Region {
    /// Deregisters the region even if windows are bound to it.
    pub(crate) fn close(&self) {
        self.held.lock().take();
    }

    /// # Errors
    /// `EBUSY` while windows are bound to it.
    fn deregister(&self) -> Result<(), Errno> {
        let mut held = self.held.lock();
        let Some(Held {
            registration,
            _shown,
            pd,
            _one,
        }) = held.take()
        else {
            return Ok(());
        };
        match registration.deregister() {
            Ok(()) => Ok(()),
            Err((registration, error)) => {
                *held = Some(Held {
                    registration,
                    _shown,
                    pd,
                    _one,
                });
                Err(error).or_errno()
            }
        }
    }

    /// Runs a closure on the registration unless another thread uses it right now. It never waits,
    /// so it may be called with the device locked.
    ///
    /// # Errors
    /// `EINVAL` if the context was closed, `EBUSY` if the region is being changed.
    pub(crate) fn look<R>(
        &self,
        work: impl FnOnce(&Registration) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let held = self.held.try_lock().ok_or(Errno::EBUSY)?;
        work(&held.as_ref().ok_or(Errno::EINVAL)?.registration)
    }

    /// Runs a closure on the region's parts.
    ///
    /// # Errors
    /// `EINVAL` if the context was closed.
    fn with<R>(&self, work: impl FnOnce(&mut Held) -> Result<R, Errno>) -> Result<R, Errno> {
        work(self.held.lock().as_mut().ok_or(Errno::EINVAL)?)
    }
}

/// The size of a page, in bytes.
pub(crate) fn page_size() -> Result<usize, Errno> {
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE)?;
    Ok(page
        .and_then(|size| usize::try_from(size).ok())
        .unwrap_or(4096))
}

/// Checks that memory is mapped. The kernel does so when memory is registered, and fails otherwise.
/// Without this check, a later access would kill the process. As with a NIC, the pages are present
/// afterwards.
pub(crate) fn check_mapped(addr: usize, len: usize, access: Access) -> Result<(), Errno> {
    let page = page_size()?;
    let from = addr & !(page - 1);
    let to = addr.checked_add(len).ok_or(Errno::EINVAL)?;
    let advice = if access.contains(Access::LOCAL_WRITE) {
        libc::MADV_POPULATE_WRITE
    } else {
        libc::MADV_POPULATE_READ
    };
    // SAFETY: the call leaves what is mapped there unchanged, except that its pages become present.
    let done = unsafe { libc::madvise(from as *mut c_void, to - from, advice) };
    match Errno::result(done) {
        Ok(_) => Ok(()),
        // An older kernel, memory of a device, or memory without the needed rights.
        Err(Errno::EINVAL) => mappings::check(from, to, access),
        Err(Errno::ENOMEM) => Err(Errno::EFAULT),
        Err(errno) => Err(errno),
    }
}

/// The memory as C describes it, with the access it allows.
struct Wanted {
    addr: *mut c_void,
    length: usize,
    flags: u32,
}

impl Wanted {
    fn access(&self) -> Result<Access, Errno> {
        let about_mapping =
            ACCESS_ON_DEMAND | ACCESS_HUGETLB | ACCESS_ZERO_BASED | ACCESS_OPTIONAL_RANGE;
        access(self.flags & !about_mapping)
    }

    fn memory(&self, access: Access) -> Result<Memory, Errno> {
        let Self {
            addr,
            length,
            flags,
        } = *self;
        if flags & ACCESS_ON_DEMAND == 0 {
            if length == 0 {
                return Err(Errno::EINVAL);
            }
            check_mapped(addr as usize, length, access)?;
            // SAFETY: C registers memory that it keeps as long as the region; it has no
            // Rust references.
            return Ok(unsafe { Memory::foreign(addr.cast(), length as u64) });
        }
        let accessor = ProcessMemory::of_this_process().or_errno()?;
        if addr.is_null() && length == usize::MAX {
            // SAFETY: as above.
            return Ok(unsafe { Memory::whole_address_space(accessor) });
        }
        // SAFETY: as above.
        Ok(unsafe { Memory::on_demand(addr as u64, length as u64, accessor) })
    }
}

fn register(pd: Handle<IbvPd>, wanted: &Wanted, iova: u64) -> Result<*mut IbvMr, Errno> {
    let domain = pd.get()?;
    let access = wanted.access()?;
    let iova = if wanted.flags & ACCESS_ZERO_BASED == 0 {
        iova
    } else {
        0
    };
    let registered = domain
        .pd
        .register_memory(wanted.memory(access)?, Some(iova), access);
    let registered = registered.or_errno()?;
    give(pd, wanted.addr, wanted.length, registered, Shown::Nothing)
}

/// Creates the C object of a registration.
pub(crate) fn give(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    registration: Registration,
    shown: Shown,
) -> Result<*mut IbvMr, Errno> {
    let domain = pd.get()?;
    let keys = (registration.lkey(), registration.rkey());
    let held = Held {
        registration,
        _shown: shown,
        pd: domain.users.add(),
        _one: domain.state.counts.mrs.admit(MAX_MRS)?,
    };
    let region = domain.state.objects.regions.insert(|handle| Region {
        held: Mutex::new(Some(held)),
        handle,
    });
    Ok(point_to(pd, domain, (addr, length), keys, region))
}

/// Creates a C pointer to a region.
fn point_to(
    pd: Handle<IbvPd>,
    domain: &Pd,
    (addr, length): (*mut c_void, usize),
    (lkey, rkey): (u32, u32),
    region: Arc<Region>,
) -> *mut IbvMr {
    Handle::give(Mr {
        c: CPart::new(IbvMr {
            context: domain.context(),
            pd,
            addr,
            length,
            handle: region.handle,
            lkey,
            rkey,
        }),
        region,
        state: Arc::clone(&domain.state),
    })
}

/// `ibv_alloc_null_mr`: the region starts at address 0 and has no end.
pub(crate) extern "C" fn alloc_null_mr(pd: Handle<IbvPd>) -> *mut IbvMr {
    guard::pointer(|| {
        let domain = &pd.get()?.pd;
        let region = domain.register_memory(Memory::null(), None, Access::LOCAL_WRITE);
        let (region, addr) = (region.or_errno()?, std::ptr::null_mut());
        give(pd, addr, usize::MAX, region, Shown::Nothing)
    })
}

/// `ibv_reg_mr`.
pub(crate) extern "C" fn reg_mr(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut IbvMr {
    reg_mr_iova2(pd, addr, length, addr as u64, flags.cast_unsigned())
}

/// `ibv_reg_mr_iova`.
pub(crate) extern "C" fn reg_mr_iova(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_int,
) -> *mut IbvMr {
    reg_mr_iova2(pd, addr, length, iova, flags.cast_unsigned())
}

/// `ibv_reg_mr_iova2`.
pub(crate) extern "C" fn reg_mr_iova2(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: u32,
) -> *mut IbvMr {
    guard::pointer(|| {
        let wanted = Wanted {
            addr,
            length,
            flags,
        };
        register(pd, &wanted, iova)
    })
}

/// The region is unchanged (`IBV_REREG_MR_ERR_INPUT`).
const REREG_INPUT: c_int = -1;

/// `ibv_rereg_mr`.
pub(crate) extern "C" fn rereg_mr(
    mr: Handle<IbvMr>,
    change: c_int,
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> c_int {
    guard::value(REREG_INPUT, || {
        let mr = mr.get()?;
        let change = change.cast_unsigned();
        let all = REREG_MR_CHANGE_TRANSLATION | REREG_MR_CHANGE_PD | REREG_MR_CHANGE_ACCESS;
        if change == 0 || change & !all != 0 {
            return Err(Errno::EINVAL);
        }
        let asked = |bit| change & bit != 0;
        let wanted = Wanted {
            addr,
            length,
            flags: flags.cast_unsigned(),
        };
        let access = asked(REREG_MR_CHANGE_ACCESS)
            .then(|| wanted.access())
            .transpose()?;
        // If the access does not change, it may already include LOCAL_WRITE. So the memory must
        // allow writes.
        let memory = asked(REREG_MR_CHANGE_TRANSLATION)
            .then(|| wanted.memory(access.unwrap_or(Access::LOCAL_WRITE)))
            .transpose()?;
        let domain = asked(REREG_MR_CHANGE_PD).then(|| pd.get()).transpose()?;
        let moves = memory.is_some();
        mr.region.with(|held| {
            let memory = memory.map(|memory| (memory, None));
            let to = domain.map(|domain| &domain.pd);
            let done = held.registration.reregister(to, access, memory);
            done.or_errno()?;
            if let Some(domain) = domain {
                held.pd = domain.users.add();
            }
            Ok(())
        })?;
        if domain.is_some() {
            mr.c.set(|c| c.pd = pd);
        }
        if moves {
            mr.c.set(|c| (c.addr, c.length) = (addr, length));
        }
        Ok(0)
    })
}

/// `ibv_dereg_mr`.
pub(crate) extern "C" fn dereg_mr(mr: Handle<IbvMr>) -> c_int {
    guard::errno(|| {
        let found = mr.get()?;
        found.region.deregister()?;
        found.state.objects.regions.remove(found.region.handle);
        mr.take().map(drop)
    })
}

/// `ibv_import_mr`: its address is NULL, as the man page says.
pub(crate) extern "C" fn import_mr(pd: Handle<IbvPd>, handle: u32) -> *mut IbvMr {
    guard::pointer(|| {
        let domain = pd.get()?;
        let found = domain.state.objects.regions.find(handle);
        let region = found.ok_or(Errno::ENOENT)?;
        let (len, lkey, rkey) = region.look(|known| {
            let len = usize::try_from(known.len()).map_err(|_| Errno::EINVAL)?;
            Ok((len, known.lkey(), known.rkey()))
        })?;
        let place = (std::ptr::null_mut(), len);
        Ok(point_to(pd, domain, place, (lkey, rkey), region))
    })
}

/// `ibv_unimport_mr`: the region stays registered.
pub(crate) extern "C" fn unimport_mr(mr: Handle<IbvMr>) {
    guard::nothing(|| mr.take().map(drop));
}
