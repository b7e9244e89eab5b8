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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn memory() -> Arc<dyn FaultSafe> {
        ProcessMemory::of_this_process().expect("the system allows copies")
    }

    /// The address of a word, for the accessor. The word must not be borrowed while it is used.
    fn address(word: *mut u64) -> u64 {
        word as u64
    }

    #[test]
    fn an_atomic_has_its_turn_until_it_has_written() {
        const THREADS: u64 = 4;
        const EACH: u64 = 500;
        let mut word = 5_u64;
        let at = address(&raw mut word);
        let add_one = |found: u64| {
            // Another atomic would find the old value, and write over this one.
            assert!(ATOMIC_LOCK.is_locked(), "the turn ended before the write");
            Some(found + 1)
        };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let memory = memory();
                    for _ in 0..EACH {
                        memory.update(at, &add_one).expect("mapped");
                    }
                });
            }
        });
        let found = memory().update(at, &|_| None);
        assert_eq!(found, Ok(5 + THREADS * EACH));
    }

    /// A copy that begins in accessible memory and ends beyond it has copied a part.
    #[test]
    fn a_copy_that_ends_early_is_a_fault() {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
        use std::num::NonZeroUsize;

        const PAGE: usize = 4096;
        let length = NonZeroUsize::new(2 * PAGE).expect("not 0");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: the mapping is new, and nothing refers to its second page, which is protected.
        #[expect(unsafe_code)]
        let begin = unsafe {
            let begin = mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE);
            let begin = begin.expect("memory");
            let second = begin.byte_add(PAGE);
            mprotect(second, PAGE, ProtFlags::PROT_NONE).expect("protected");
            begin
        };
        let memory = memory();
        let end = begin.as_ptr() as u64 + PAGE as u64;
        let mut bytes = [0; 16];
        assert_eq!(memory.write(end - 16, &[7; 16]), Ok(()));
        assert_eq!(memory.read(end - 16, &mut bytes), Ok(()));
        assert_eq!(bytes, [7; 16]);
        assert_eq!(memory.read(end - 8, &mut bytes), Err(MemoryFault));
        assert_eq!(memory.write(end - 8, &bytes), Err(MemoryFault));
        let updated = memory.update(end - 4, &|found| Some(found));
        assert_eq!(updated, Err(MemoryFault));
        // SAFETY: nothing refers to the pages.
        #[expect(unsafe_code)]
        let unmapped = unsafe { munmap(begin, 2 * PAGE) };
        unmapped.expect("mapped until now");
    }
}
