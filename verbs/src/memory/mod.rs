//! Memory that a device may access.

mod device_memory;
mod process_memory;
mod region;
mod registration;
mod window;

pub use device_memory::{DeviceMemory, MAX_DEVICE_MEMORY_BYTES};
pub use process_memory::ProcessMemory;
pub use region::MemoryRegion;
pub use registration::Registration;
pub use window::{MemoryWindow, WindowView};
