//! The accessor of memory whose pages may vanish or lose their rights.

use super::access::Current;
use super::handlers::install;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use nix::errno::Errno;
use roce_stack::{FaultSafe, MemoryFault};
use roce_wire::icrc::Unsealed;
use std::ptr;

/// Accesses memory whose pages may vanish or lose their rights.
#[derive(Debug)]
pub(super) struct GuardedMemory {
    current: Current,
}

impl GuardedMemory {
    pub(super) fn new() -> Result<Self, Errno> {
        install().map(|current| Self { current })
    }
}

impl FaultSafe for GuardedMemory {
    /// All pages were there at the registration.
    fn is_on_demand(&self) -> bool {
        false
    }

    fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
        let (to, len) = (out.as_mut_ptr(), out.len());
        self.current.guard(addr, len, || {
            // SAFETY: `out` is writable, and a fault at `addr` ends the access. The region that
            // this accessor belongs to may be read.
            unsafe { ptr::copy_nonoverlapping(addr as *const u8, to, len) };
        })
    }

    fn read_packet(&self, addr: u64, packet: &mut Unsealed<'_>) -> Result<(), MemoryFault> {
        self.current.guard(addr, packet.payload_len(), || {
            // SAFETY: as above; the packet is in a port's buffer, which is no registered memory.
            unsafe { packet.copy_from(addr as *const u8) };
        })
    }

    /// The last byte is written last: programs poll it.
    fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault> {
        let to = addr as *mut u8;
        self.current.guard(addr, data.len(), || {
            let Some((&last, head)) = data.split_last() else {
                return;
            };
            // SAFETY: `data` is readable, and a fault at `addr` ends the access. The region that
            // this accessor belongs to may be written. An `AtomicU8` needs no alignment.
            unsafe {
                ptr::copy_nonoverlapping(head.as_ptr(), to, head.len());
                AtomicU8::from_ptr(to.wrapping_add(head.len())).store(last, Ordering::Release);
            }
        })
    }

    fn update(&self, addr: u64, change: &dyn Fn(u64) -> Option<u64>) -> Result<u64, MemoryFault> {
        let mut found = 0;
        self.current.guard(addr, size_of::<u64>(), || {
            // SAFETY: a fault at `addr` ends the access, and the caller aligned it. The word may
            // be shared with any other code.
            let word = unsafe { AtomicU64::from_ptr(addr as *mut u64) };
            let updated = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
            found = updated.unwrap_or_else(|found| found);
        })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapped::{Mapped, PAGE};
    use super::*;
    use nix::sys::mman::ProtFlags;
    use nix::unistd::ftruncate;

    fn memory() -> GuardedMemory {
        GuardedMemory::new().expect("installed")
    }

    /// As a signal handler of the program that enters the library in the middle of a copy.
    #[test]
    fn an_access_inside_another_one_leaves_it_guarded() {
        let mapped = Mapped::new();
        ftruncate(&mapped.file, PAGE as i64).expect("shorter");
        let (here, gone) = (mapped.at(0), mapped.at(PAGE));
        for inner in [here, gone] {
            let mut found = None;
            let mut reached_end = false;
            let outer = memory().current.guard(gone, 1, || {
                found = Some(memory().read(inner, &mut [0; 8]).is_ok());
                // SAFETY: the guard ends the access at the fault.
                unsafe { (gone as *const u8).read_volatile() };
                reached_end = true;
            });
            assert_eq!(found, Some(inner == here));
            assert_eq!((outer, reached_end), (Err(MemoryFault), false));
        }
    }

    /// Debuggers and profilers see who made the access.
    #[test]
    fn the_stack_of_an_access_can_be_unwound() {
        let mapped = Mapped::new();
        let mut trace = String::new();
        let guarded = memory().current.guard(mapped.at(0), 1, || {
            trace = std::backtrace::Backtrace::force_capture().to_string();
        });
        assert_eq!(guarded, Ok(()));
        let beyond = trace.split_once("call_guarded").expect("in the trace").1;
        assert!(
            beyond.contains("thread_start") || beyond.contains("main"),
            "{trace}"
        );
    }

    #[test]
    fn what_is_there_is_copied_and_changed() {
        let mapped = Mapped::new();
        let data: Vec<u8> = (0..100).collect();
        memory()
            .write(mapped.at(PAGE - 50), &data)
            .expect("written");
        let mut found = vec![0; 100];
        memory()
            .read(mapped.at(PAGE - 50), &mut found)
            .expect("read");
        assert_eq!(found, data);
        memory().write(mapped.at(0), &[]).expect("nothing to write");
        memory()
            .write(mapped.at(0), &7_u64.to_ne_bytes())
            .expect("written");
        assert_eq!(
            memory().update(mapped.at(0), &|found| Some(found + 1)),
            Ok(7)
        );
        assert_eq!(memory().update(mapped.at(0), &|_| None), Ok(8));
    }

    #[test]
    fn a_truncated_file_is_an_error() {
        let mapped = Mapped::new();
        ftruncate(&mapped.file, PAGE as i64).expect("shorter");
        let mut bytes = [1; 100];
        for at in [mapped.at(PAGE - 50), mapped.at(PAGE)] {
            assert_eq!(memory().read(at, &mut bytes), Err(MemoryFault));
            assert_eq!(memory().write(at, &bytes), Err(MemoryFault));
        }
        let word = mapped.at(PAGE);
        assert_eq!(memory().update(word, &|_| Some(1)), Err(MemoryFault));
        // The first page is still there.
        assert_eq!(memory().write(mapped.at(0), &bytes), Ok(()));
    }

    /// A page is protected in the middle of an access.
    #[test]
    fn a_protected_page_is_an_error() {
        use nix::sys::mman::mprotect;
        let mapped = Mapped::new();
        let protect = |rights| {
            let second = mapped.start.map_addr(|at| at.saturating_add(PAGE));
            // SAFETY: nothing refers to the page.
            unsafe { mprotect(second, PAGE, rights) }.expect("mapped");
        };
        let (mut bytes, word) = ([1; 100], mapped.at(PAGE));
        let accesses = |bytes: &mut [u8]| {
            [
                memory().read(mapped.at(PAGE - 50), bytes).is_ok(),
                memory().write(mapped.at(PAGE - 50), bytes).is_ok(),
                memory().update(word, &|found| Some(found + 1)).is_ok(),
                memory().update(word, &|_| None).is_ok(),
            ]
        };
        assert_eq!(accesses(&mut bytes), [true; 4]);
        protect(ProtFlags::PROT_READ);
        assert_eq!(accesses(&mut bytes), [true, false, false, true]);
        protect(ProtFlags::PROT_NONE);
        assert_eq!(accesses(&mut bytes), [false; 4]);
        protect(ProtFlags::PROT_READ | ProtFlags::PROT_WRITE);
        assert_eq!(accesses(&mut bytes), [true; 4]);
    }

    #[test]
    fn the_payload_of_a_packet_is_copied_or_an_error() {
        use roce_wire::icrc::IpHeader;
        let mapped = Mapped::new();
        let data: Vec<u8> = (0..=255).cycle().take(1024).collect();
        memory()
            .write(mapped.at(PAGE - 512), &data)
            .expect("written");
        let mut bytes = [0; 12 + 1024 + 4];
        let ip = IpHeader::V4 {
            src: [127, 0, 0, 1],
            dst: [127, 0, 0, 1],
            id: 0,
            flags_fragment: 0x4000,
        };
        let mut copied = |at| {
            let mut packet = Unsealed::new(ip, 1, 2, &mut bytes, 12..12 + 1024);
            memory().read_packet(at, &mut packet)
        };
        assert_eq!(copied(mapped.at(PAGE - 512)), Ok(()));
        ftruncate(&mapped.file, PAGE as i64).expect("shorter");
        assert_eq!(copied(mapped.at(PAGE - 512)), Err(MemoryFault));
        assert_eq!(bytes[12..12 + 1024], data);
    }
}
