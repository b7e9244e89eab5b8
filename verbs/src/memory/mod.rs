//! Memory that a device may access, and protection domains, which determine the QPs that may use
//! it.

mod device_memory;
mod durable;
mod file_region;
mod guarded_memory;
mod process_memory;
mod region;
mod registration;
mod window;

pub use crate::error::RegionError;
pub use crate::pd::ProtectionDomain;
pub use device_memory::{DeviceMemory, MAX_DEVICE_MEMORY_BYTES};
pub use durable::{DurableFiles, NotPersistent};
pub use file_region::{FileRegion, FileRegionError};
pub use guarded_memory::guarded_accessor;
pub use process_memory::ProcessMemory;
pub use region::MemoryRegion;
pub use registration::Registration;
pub use roce_stack::{
    Access, AccessError, Buffer, BufferRangeError, DeregisterError, Durable, FaultSafe, Memory,
    MemoryFault, MwType, NotDurable, ParseRemoteAddrError, RegisterError, RemoteAddr, Reregister,
    ReregisterError, Sge,
};
pub use window::{MemoryWindow, MwView};
