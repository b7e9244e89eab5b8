//! Memory that a device may access, and protection domains, which determine the QPs that may use
//! it.

mod device_memory;
mod durable;
mod file_region;
mod guarded_memory;
mod mapped;
mod mapping;
mod process_memory;
mod program_region;
mod region;
mod registration;
mod tied;
mod window;

pub use crate::error::{DeviceMemoryError, RegionError};
pub use crate::pd::ProtectionDomain;
pub use device_memory::{DeviceMemory, MAX_DEVICE_MEMORY_BYTES};
pub use durable::{DurableFiles, NotPersistent};
pub use file_region::{FileRegion, FileRegionError};
pub use guarded_memory::guarded_accessor;
pub use mapped::{NotMapped, check_mapped};
pub use mapping::Mapping;
pub use process_memory::ProcessMemory;
pub use program_region::{ProgramMemory, ProgramRegion, ProgramRegionChange, ProgramRegionError};
pub use region::MemoryRegion;
pub use registration::Registration;
pub use roce_stack::{
    Access, AccessError, Buffer, BufferRangeError, DeregisterError, Durable, FaultSafe, Memory,
    MemoryFault, MwType, NotDurable, ParseRemoteAddrError, RegisterError, RemoteAddr, Reregister,
    ReregisterError, Sge,
};
pub use window::{MemoryWindow, MwView};

use nix::unistd::{SysconfVar, sysconf};

/// The size of a page in bytes.
pub(crate) fn page_size() -> usize {
    let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    page.and_then(|size| usize::try_from(size).ok())
        .unwrap_or(4096)
}
