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

/// Writes back `lines` cache lines from `first` on, and waits until the memory has them.
///
/// # Errors
/// If the file does not have the pages any more.
#[cfg(target_arch = "x86_64")]
pub(super) fn write_back(first: u64, lines: u64) -> Result<(), roce_stack::MemoryFault> {
    guarded::write_back(first, lines)
}

/// Nothing here is memory that this could write back.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn write_back(_first: u64, _lines: u64) -> Result<(), roce_stack::MemoryFault> {
    Err(roce_stack::MemoryFault)
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
        ".globl roce_guarded_clwb, roce_guarded_clflushopt, roce_guarded_clflush",
        ".globl roce_guarded_clwb_access, roce_guarded_clflushopt_access",
        ".globl roce_guarded_clflush_access",
        ".hidden roce_guarded_clwb, roce_guarded_clflushopt, roce_guarded_clflush",
        ".hidden roce_guarded_clwb_access, roce_guarded_clflushopt_access",
        ".hidden roce_guarded_clflush_access",
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
        // Write back rsi cache lines from rdi on. The instructions are written as bytes, since not
        // every assembler knows them.
        "roce_guarded_clwb:",
        "roce_guarded_clwb_access:",
        ".byte 0x66, 0x0f, 0xae, 0x37",
        "add rdi, 64",
        "dec rsi",
        "jnz roce_guarded_clwb_access",
        "sfence",
        "xor eax, eax",
        "ret",
        "roce_guarded_clflushopt:",
        "roce_guarded_clflushopt_access:",
        ".byte 0x66, 0x0f, 0xae, 0x3f",
        "add rdi, 64",
        "dec rsi",
        "jnz roce_guarded_clflushopt_access",
        "sfence",
        "xor eax, eax",
        "ret",
        "roce_guarded_clflush:",
        "roce_guarded_clflush_access:",
        ".byte 0x0f, 0xae, 0x3f",
        "add rdi, 64",
        "dec rsi",
        "jnz roce_guarded_clflush_access",
        "sfence",
        "xor eax, eax",
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
        fn roce_guarded_clwb(first: *const u8, lines: u64) -> c_int;
        fn roce_guarded_clflushopt(first: *const u8, lines: u64) -> c_int;
        fn roce_guarded_clflush(first: *const u8, lines: u64) -> c_int;
        static roce_guarded_clwb_access: u8;
        static roce_guarded_clflushopt_access: u8;
        static roce_guarded_clflush_access: u8;
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
            &raw const roce_guarded_clwb_access,
            &raw const roce_guarded_clflushopt_access,
            &raw const roce_guarded_clflush_access,
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

    /// An instruction that writes back a cache line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum WriteBack {
        /// Keeps the line in the cache.
        Clwb,
        Clflushopt,
        /// Every x86-64 has it.
        Clflush,
    }

    impl WriteBack {
        /// The fastest one that this processor has.
        fn best() -> Self {
            const STRUCTURED_FEATURES: u32 = 7;
            const CLFLUSHOPT: u32 = 1 << 23;
            const CLWB: u32 = 1 << 24;
            static BEST: OnceLock<WriteBack> = OnceLock::new();
            *BEST.get_or_init(|| {
                use core::arch::x86_64::{__cpuid, __cpuid_count};
                if __cpuid(0).eax < STRUCTURED_FEATURES {
                    return Self::Clflush;
                }
                match __cpuid_count(STRUCTURED_FEATURES, 0).ebx {
                    features if features & CLWB != 0 => Self::Clwb,
                    features if features & CLFLUSHOPT != 0 => Self::Clflushopt,
                    _ => Self::Clflush,
                }
            })
        }

        fn run(self, first: u64, lines: u64) -> Result<(), MemoryFault> {
            if lines == 0 {
                return Ok(());
            }
            let first = first as *const u8;
            // SAFETY: these instructions change nothing that a program can see, and a fault is an
            // error. `best` has checked that the processor has the instruction.
            outcome(unsafe {
                match self {
                    Self::Clwb => roce_guarded_clwb(first, lines),
                    Self::Clflushopt => roce_guarded_clflushopt(first, lines),
                    Self::Clflush => roce_guarded_clflush(first, lines),
                }
            })
        }
    }

    pub(super) fn write_back(first: u64, lines: u64) -> Result<(), MemoryFault> {
        install().map_err(|_| MemoryFault)?;
        WriteBack::best().run(first, lines)
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

        /// The instructions that this processor has.
        fn write_backs() -> &'static [WriteBack] {
            const ALL: [WriteBack; 3] =
                [WriteBack::Clwb, WriteBack::Clflushopt, WriteBack::Clflush];
            let best = ALL.iter().position(|one| *one == WriteBack::best());
            &ALL[best.expect("one of these")..]
        }

        #[test]
        fn lines_are_written_back_without_a_change() {
            let mapped = Mapped::new();
            let data: Vec<u8> = (0..200).collect();
            FileMemory.write(mapped.at(0), &data).expect("written");
            for one in write_backs() {
                assert_eq!(one.run(mapped.at(0), 64), Ok(()), "{one:?}");
                assert_eq!(one.run(mapped.at(0), 0), Ok(()), "{one:?}");
            }
            let mut found = vec![0; 200];
            FileMemory.read(mapped.at(0), &mut found).expect("read");
            assert_eq!(found, data);
        }

        #[test]
        fn lines_of_a_truncated_file_are_an_error() {
            let mapped = Mapped::new();
            ftruncate(&mapped.file, PAGE as i64).expect("shorter");
            for one in write_backs() {
                let whole = one.run(mapped.at(0), PAGE as u64 / 64);
                assert_eq!(whole, Ok(()), "{one:?}");
                let beyond = one.run(mapped.at(0), PAGE as u64 / 64 + 1);
                assert_eq!(beyond, Err(MemoryFault), "{one:?}");
            }
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
