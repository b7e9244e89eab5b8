//! Memory regions.

use crate::convert::access;
use crate::pd::Pd;
use crate::prelude::*;
use crate::region::{Region, Uses};
use crate::state::State;
use roce_verbs::Access;
use roce_verbs::device::LimitedObject;
use roce_verbs::memory::{Memory, ProgramMemory, ProgramRegion, ProgramRegionChange, Registration};

/// One C object for a memory region. Several may share one [`Region`].
#[repr(C)]
pub(crate) struct Mr {
    c: CPart<IbvMr>,
    pub(crate) region: Arc<Region>,
    state: Arc<State>,
}

first_part!(IbvMr => Mr.c);

/// The rights of the flags with which memory is registered. The others are about its mapping.
fn rights(flags: u32) -> Result<Access, Errno> {
    let about_mapping =
        ACCESS_ON_DEMAND | ACCESS_HUGETLB | ACCESS_ZERO_BASED | ACCESS_OPTIONAL_RANGE;
    access(flags & !about_mapping)
}

fn register(
    pd: Handle<IbvPd>,
    (addr, length): (*mut c_void, usize),
    iova: u64,
    flags: u32,
) -> Result<*mut IbvMr, Errno> {
    let domain = &pd.get()?.pd;
    let memory = ProgramMemory {
        addr: addr as usize,
        len: length,
    };
    let iova = if flags & ACCESS_ZERO_BASED == 0 {
        iova
    } else {
        0
    };
    let on_demand = flags & ACCESS_ON_DEMAND != 0;
    let access = rights(flags)?;
    // SAFETY: the program was told to keep the memory mapped as long as the region is registered, and
    // no Rust reference to it exists.
    let region = unsafe { ProgramRegion::register(domain, memory, on_demand, iova, access) };
    expose(pd, (addr, length), region.or_errno()?, None)
}

/// Creates the C object of a registration, of device memory that it uses or of other memory.
pub(crate) fn expose(
    pd: Handle<IbvPd>,
    place: (*mut c_void, usize),
    memory: Arc<ProgramRegion>,
    device_memory: Option<Use>,
) -> Result<*mut IbvMr, Errno> {
    let domain = pd.get()?;
    let keys = memory.keys();
    let uses = Uses {
        pd: domain.users.add(),
        device_memory,
        _counted: domain
            .state
            .counts
            .add(LimitedObject::MemoryRegion)
            .or_errno()?,
    };
    let regions = &domain.state.objects.regions;
    let region = regions.insert(|handle| Region::new(memory, handle, uses));
    Ok(new_pointer(pd, domain, place, keys, region))
}

/// Creates another C object that refers to a region.
fn new_pointer(
    pd: Handle<IbvPd>,
    domain: &Pd,
    (addr, length): (*mut c_void, usize),
    (lkey, rkey): (u32, u32),
    region: Arc<Region>,
) -> *mut IbvMr {
    Handle::into_raw(Mr {
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
    guard::pointer("ibv_alloc_null_mr", || {
        let domain = &pd.get()?.pd;
        let region = domain.register_memory(Memory::null(), None, Access::LOCAL_WRITE);
        let region = ProgramRegion::of_registration(region.or_errno()?);
        expose(pd, (std::ptr::null_mut(), usize::MAX), region, None)
    })
}

pub(crate) extern "C" fn reg_mr(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> *mut IbvMr {
    reg_mr_iova2(pd, addr, length, addr as u64, flags.cast_unsigned())
}

/// `ibv_reg_mr_iova2`, and `ibv_reg_mr_iova`, whose flags are an `int`.
pub(crate) extern "C" fn reg_mr_iova2(
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: u32,
) -> *mut IbvMr {
    guard::pointer("ibv_reg_mr", || register(pd, (addr, length), iova, flags))
}

/// `IBV_REREG_MR_ERR_INPUT`: the input is invalid, and the region is unchanged.
const REREG_MR_ERR_INPUT: c_int = -1;

pub(crate) extern "C" fn rereg_mr(
    mr: Handle<IbvMr>,
    change: c_int,
    pd: Handle<IbvPd>,
    addr: *mut c_void,
    length: usize,
    flags: c_int,
) -> c_int {
    guard::value("ibv_rereg_mr", REREG_MR_ERR_INPUT, || {
        let mr = mr.get()?;
        let change = change.cast_unsigned();
        let all = REREG_MR_CHANGE_TRANSLATION | REREG_MR_CHANGE_PD | REREG_MR_CHANGE_ACCESS;
        if change == 0 || change & !all != 0 {
            return Err(Errno::EINVAL);
        }
        let changes = |bit| change & bit != 0;
        let flags = flags.cast_unsigned();
        let domain = changes(REREG_MR_CHANGE_PD).then(|| pd.get()).transpose()?;
        let access = changes(REREG_MR_CHANGE_ACCESS).then(|| rights(flags));
        let moves = changes(REREG_MR_CHANGE_TRANSLATION);
        let new = ProgramMemory {
            addr: addr as usize,
            len: length,
        };
        let change = ProgramRegionChange {
            pd: domain.map(|domain| &domain.pd),
            access: access.transpose()?,
            memory: moves.then_some(new),
            // Without new rights, the flags are not read.
            on_demand: (moves && changes(REREG_MR_CHANGE_ACCESS))
                .then_some(flags & ACCESS_ON_DEMAND != 0),
        };
        // SAFETY: as for a registration.
        unsafe { mr.region.memory.change(&change) }.or_errno()?;
        if let Some(domain) = domain {
            mr.region.set_domain(domain.users.add());
            mr.c.set(|c| c.pd = pd);
        }
        if moves {
            mr.region.leave_device_memory();
            mr.c.set(|c| (c.addr, c.length) = (addr, length));
        }
        Ok(0)
    })
}

pub(crate) extern "C" fn dereg_mr(mr: Handle<IbvMr>) -> c_int {
    guard::errno("ibv_dereg_mr", || {
        let found = mr.get()?;
        found.region.deregister()?;
        found.state.objects.regions.remove(found.region.handle);
        mr.take().map(drop)
    })
}

/// `ibv_import_mr`: the result's `addr` is NULL, as the man page says.
pub(crate) extern "C" fn import_mr(pd: Handle<IbvPd>, handle: u32) -> *mut IbvMr {
    guard::pointer("ibv_import_mr", || {
        let domain = pd.get()?;
        let found = domain.state.objects.regions.find(handle);
        let region = found.ok_or(Errno::ENOENT)?;
        let len = region.memory.with(Registration::len).or_errno()?;
        let keys = region.memory.keys();
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        let place = (std::ptr::null_mut(), len);
        Ok(new_pointer(pd, domain, place, keys, region))
    })
}

/// `ibv_unimport_mr`: the region stays registered.
pub(crate) extern "C" fn unimport_mr(mr: Handle<IbvMr>) {
    guard::nothing("ibv_unimport_mr", || mr.take().map(drop));
}
