//! Copies to and from this process's memory that fail instead of raising a signal.

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;
use parking_lot::Mutex;
use roce_stack::{FaultSafe, MemoryFault};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// The accessor for on-demand regions, [`Memory::on_demand`] and [`Memory::whole_address_space`].
/// The kernel copies, and reports unmapped memory as an error instead of raising a signal. A copy
/// costs a system call.
///
/// [`Memory::on_demand`]: crate::memory::Memory::on_demand
/// [`Memory::whole_address_space`]: crate::memory::Memory::whole_address_space
///
/// An atomic operation is two copies. A lock serializes those of all contexts of this process. The
/// application's own atomics, and other processes that share the memory, do not take this lock.
#[derive(Debug)]
pub struct ProcessMemory {
    pid: Pid,
}

impl ProcessMemory {
    /// The memory of the calling process. A child that it forks needs its own accessor.
    ///
    /// # Errors
    /// If the operating system forbids such copies, as some sandboxes do.
    pub fn of_this_process() -> io::Result<Arc<dyn FaultSafe>> {
        let memory = Self { pid: Pid::this() };
        let (from, mut to) = ([7_u8; 1], [0_u8; 1]);
        memory.copy_out(from.as_ptr() as usize, &mut to)?;
        Ok(Arc::new(memory))
    }

    fn copy_out(&self, base: usize, out: &mut [u8]) -> io::Result<()> {
        let len = out.len();
        let from = [RemoteIoVec { base, len }];
        let copied = process_vm_readv(self.pid, &mut [IoSliceMut::new(out)], &from);
        check_complete(copied, len)
    }
}

/// Held from the first copy of an atomic operation to the second.
static ATOMIC_LOCK: Mutex<()> = Mutex::new(());

/// Returns an error if the copy ended early, which means that it reached unmapped memory.
fn check_complete(copied: Result<usize, Errno>, len: usize) -> io::Result<()> {
    if copied? == len {
        Ok(())
    } else {
        Err(Errno::EFAULT.into())
    }
}

impl FaultSafe for ProcessMemory {
    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        let base = usize::try_from(addr).map_err(|_| MemoryFault)?;
        self.copy_out(base, out).map_err(|_| MemoryFault)
    }

    fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault> {
        let len = data.len();
        let base = usize::try_from(addr).map_err(|_| MemoryFault)?;
        let to = [RemoteIoVec { base, len }];
        let copied = process_vm_writev(self.pid, &[IoSlice::new(data)], &to);
        check_complete(copied, len).map_err(|_| MemoryFault)
    }

    fn update(&self, addr: u64, change: &dyn Fn(u64) -> Option<u64>) -> Result<u64, MemoryFault> {
        let _guard = ATOMIC_LOCK.lock();
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes)?;
        let found = u64::from_ne_bytes(bytes);
        if let Some(value) = change(found) {
            self.write(addr, &value.to_ne_bytes())?;
        }
        Ok(found)
    }
}
