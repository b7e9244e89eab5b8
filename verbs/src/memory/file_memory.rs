//! Memory that a file stands behind: a mapped file, shared memory, a dma-buf.
//!
//! Any process that may write the file can truncate it. An access to a page beyond the new end then
//! raises SIGBUS. A peer must not end the process that way. So such memory is accessed by a few
//! instructions whose addresses a signal handler knows: it makes them fail instead, and passes
//! every other SIGBUS on to the handler that the program had before.
//!
//! The handler is installed when such memory is first registered. If the program installs its own
//! handler after that, or its threads block SIGBUS, a truncated file still ends the process.
#![expect(unsafe_code)]

use roce_stack::FaultSafe;
use std::io;
use std::sync::Arc;

/// The accessor for memory that a file stands behind, [`Memory::on_demand`]. Pages that the file does
/// not have any more are an error, and raise no signal in the caller.
///
/// The first call in a process installs a handler of SIGBUS, which passes other signals on.
///
/// [`Memory::on_demand`]: crate::memory::Memory::on_demand
///
/// # Errors
/// If the handler can't be installed.
#[cfg(target_arch = "x86_64")]
pub fn file_accessor() -> io::Result<Arc<dyn FaultSafe>> {
    guarded::install()?;
    Ok(Arc::new(guarded::FileMemory))
}

/// The accessor for memory that a file stands behind: the kernel copies, which costs a system call
/// for each packet.
///
/// # Errors
/// As for [`ProcessMemory`](crate::memory::ProcessMemory).
#[cfg(not(target_arch = "x86_64"))]
pub fn file_accessor() -> io::Result<Arc<dyn FaultSafe>> {
    crate::memory::ProcessMemory::of_this_process()
}

#[cfg(target_arch = "x86_64")]
mod guarded {
    use core::arch::global_asm;
    use nix::errno::Errno;
    use roce_stack::{FaultSafe, MemoryFault};
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;

    // Each function returns 1 if its access failed. The labels mark the instructions that may
    // fail; at each of them, the top of the stack is the return address.
    global_asm!(
        ".pushsection .text.roce_guarded, \"ax\", @progbits",
        ".globl roce_guarded_copy, roce_guarded_load, roce_guarded_swap",
        ".globl roce_guarded_copy_access, roce_guarded_load_access, roce_guarded_swap_access",
        ".globl roce_guarded_failed",
        ".hidden roce_guarded_copy, roce_guarded_load, roce_guarded_swap",
        ".hidden roce_guarded_copy_access, roce_guarded_load_access, roce_guarded_swap_access",
        ".hidden roce_guarded_failed",
        // Copies rdx bytes from rsi to rdi.
        "roce_guarded_copy:",
        "mov rcx, rdx",
        "roce_guarded_copy_access:",
        "rep movsb",
        "xor eax, eax",
        "ret",
        // Loads the word at rdi and stores it at rsi.
        "roce_guarded_load:",
        "roce_guarded_load_access:",
        "mov rax, [rdi]",
        "mov [rsi], rax",
        "xor eax, eax",
        "ret",
        // Replaces the word at rdi by rdx if it equals that at rsi, where its value is stored.
        "roce_guarded_swap:",
        "mov rax, [rsi]",
        "roce_guarded_swap_access:",
        "lock cmpxchg [rdi], rdx",
        "mov [rsi], rax",
        "mov eax, 0",
        "ret",
        "roce_guarded_failed:",
        "mov eax, 1",
        "ret",
        ".popsection",
    );

    unsafe extern "C" {
        fn roce_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> c_int;
        fn roce_guarded_load(from: *const u64, found: *mut u64) -> c_int;
        fn roce_guarded_swap(at: *mut u64, found: *mut u64, new: u64) -> c_int;
        static roce_guarded_copy_access: u8;
        static roce_guarded_load_access: u8;
        static roce_guarded_swap_access: u8;
        static roce_guarded_failed: u8;
    }

    /// The handler that the program had before.
    static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

    /// Installs the handler, once.
    pub(super) fn install() -> Result<(), Errno> {
        static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
        *INSTALLED.get_or_init(|| {
            let action = |new: *const libc::sigaction| {
                let mut old = MaybeUninit::uninit();
                // SAFETY: `new` is null or valid, `old` is writable.
                let done = unsafe { libc::sigaction(libc::SIGBUS, new, old.as_mut_ptr()) };
                // SAFETY: the call has filled it, unless it failed.
                Errno::result(done).map(|_| unsafe { old.assume_init() })
            };
            // The handler may run as soon as it is installed.
            let before = action(ptr::null())?;
            let _ = BEFORE.set(before);
            // SAFETY: all zeros is a valid value.
            let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_bus_error;
            new.sa_sigaction = handler as usize;
            new.sa_flags =
                libc::SA_SIGINFO | libc::SA_ONSTACK | (before.sa_flags & libc::SA_NODEFER);
            new.sa_mask = before.sa_mask;
            action(&raw const new).map(drop)
        })
    }

    extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes the context of the interrupted thread.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let at = &mut registers[libc::REG_RIP as usize];
        let guarded = [
            &raw const roce_guarded_copy_access,
            &raw const roce_guarded_load_access,
            &raw const roce_guarded_swap_access,
        ];
        if guarded.iter().any(|access| *access as i64 == *at) {
            *at = &raw const roce_guarded_failed as i64;
            return;
        }
        pass_on(signal, info, context);
    }

    /// Calls the program's own handler. Without one, the signal ends the process, as usual.
    fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let Some(before) = BEFORE.get() else { return };
        match before.sa_sigaction {
            // The instruction is executed again, and raises the signal again.
            libc::SIG_DFL | libc::SIG_IGN => {
                // SAFETY: the structure is valid, and the call may be made in a handler.
                unsafe { libc::sigaction(signal, ptr::from_ref(before), ptr::null_mut()) };
            }
            handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
                type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
                // SAFETY: with this flag, the program's handler is such a function.
                let handler: Handler = unsafe { std::mem::transmute(handler) };
                handler(signal, info, context);
            }
            handler => {
                // SAFETY: without the flag, the program's handler is such a function.
                let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
                handler(signal);
            }
        }
    }

    /// Accesses memory whose pages may vanish.
    #[derive(Debug)]
    pub(super) struct FileMemory;

    fn outcome(failed: c_int) -> Result<(), MemoryFault> {
        if failed == 0 {
            Ok(())
        } else {
            Err(MemoryFault)
        }
    }

    impl FaultSafe for FileMemory {
        fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryFault> {
            // SAFETY: `out` is writable, and a fault at `addr` is an error. The region that this
            // accessor belongs to may be read.
            outcome(unsafe { roce_guarded_copy(out.as_mut_ptr(), addr as *const u8, out.len()) })
        }

        /// The last byte is written last: programs poll it.
        fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryFault> {
            let Some(head) = data.len().checked_sub(1) else {
                return Ok(());
            };
            let (to, from) = (addr as *mut u8, data.as_ptr());
            // SAFETY: `data` is readable, and a fault at `addr` is an error. The region that this
            // accessor belongs to may be written.
            outcome(unsafe { roce_guarded_copy(to, from, head) })?;
            // SAFETY: as above.
            outcome(unsafe { roce_guarded_copy(to.wrapping_add(head), from.add(head), 1) })
        }

        fn update(
            &self,
            addr: u64,
            change: &dyn Fn(u64) -> Option<u64>,
        ) -> Result<u64, MemoryFault> {
            let at = addr as *mut u64;
            let mut found = 0;
            // SAFETY: a fault at `at` is an error; the caller aligned it.
            outcome(unsafe { roce_guarded_load(at, &raw mut found) })?;
            while let Some(new) = change(found) {
                let expected = found;
                // SAFETY: as above.
                outcome(unsafe { roce_guarded_swap(at, &raw mut found, new) })?;
                if found == expected {
                    break;
                }
            }
            Ok(found)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use nix::sys::memfd::{MFdFlags, memfd_create};
        use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
        use nix::unistd::ftruncate;
        use std::num::NonZeroUsize;
        use std::os::fd::OwnedFd;

        const PAGE: usize = 4096;

        struct Mapped {
            file: OwnedFd,
            start: ptr::NonNull<c_void>,
        }

        impl Mapped {
            fn new() -> Self {
                install().expect("installed");
                let file = memfd_create(c"test", MFdFlags::MFD_CLOEXEC).expect("a file");
                ftruncate(&file, 2 * PAGE as i64).expect("longer");
                let len = NonZeroUsize::new(2 * PAGE).expect("not zero");
                let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
                // SAFETY: a new mapping, at an address that nobody uses.
                let start = unsafe { mmap(None, len, rights, MapFlags::MAP_SHARED, &file, 0) };
                let start = start.expect("mapped");
                Self { file, start }
            }

            fn at(&self, offset: usize) -> u64 {
                self.start.as_ptr() as u64 + offset as u64
            }
        }

        impl Drop for Mapped {
            fn drop(&mut self) {
                // SAFETY: the mapping is this value's.
                let _ = unsafe { munmap(self.start, 2 * PAGE) };
            }
        }

        #[test]
        fn what_is_there_is_copied_and_changed() {
            let mapped = Mapped::new();
            let data: Vec<u8> = (0..100).collect();
            FileMemory
                .write(mapped.at(PAGE - 50), &data)
                .expect("written");
            let mut found = vec![0; 100];
            FileMemory
                .read(mapped.at(PAGE - 50), &mut found)
                .expect("read");
            assert_eq!(found, data);
            FileMemory
                .write(mapped.at(0), &[])
                .expect("nothing to write");
            FileMemory
                .write(mapped.at(0), &7_u64.to_ne_bytes())
                .expect("written");
            assert_eq!(
                FileMemory.update(mapped.at(0), &|found| Some(found + 1)),
                Ok(7)
            );
            assert_eq!(FileMemory.update(mapped.at(0), &|_| None), Ok(8));
        }

        #[test]
        fn a_truncated_file_is_an_error() {
            let mapped = Mapped::new();
            ftruncate(&mapped.file, PAGE as i64).expect("shorter");
            let mut bytes = [1; 100];
            for at in [mapped.at(PAGE - 50), mapped.at(PAGE)] {
                assert_eq!(FileMemory.read(at, &mut bytes), Err(MemoryFault));
                assert_eq!(FileMemory.write(at, &bytes), Err(MemoryFault));
            }
            let word = mapped.at(PAGE);
            assert_eq!(FileMemory.update(word, &|_| Some(1)), Err(MemoryFault));
            // The first page is still there.
            assert_eq!(FileMemory.write(mapped.at(0), &bytes), Ok(()));
        }
    }
}
