//! Memory that may vanish, or lose its rights, while it is registered: a program may unmap or protect
//! its pages, and any process that may write a file behind them can truncate it.
//!
//! An RNIC has pinned the pages and does not notice. Here, an access raises SIGSEGV or SIGBUS, and a
//! peer must not end the process that way. So such memory is accessed by closures that
//! `call_guarded` calls. It saves the state of the processor that a function has to keep, and a
//! signal handler goes back to that state if the access fails. Every other signal is passed on to
//! the handler that the program had before.
//!
//! The handlers are installed when such memory is first registered. If the program installs its own
//! handlers after that, or its threads block these signals, such an access still ends the process.
#![expect(unsafe_code)]

use roce_stack::FaultSafe;
use std::io;
use std::sync::Arc;

/// The accessor for mapped memory that may vanish or lose its rights, [`Memory::on_demand`]. An
/// access to pages that are gone or protected is an error, and raises no signal in the caller.
///
/// The first call in a process installs handlers of SIGSEGV and SIGBUS, which pass on the signals
/// that have other reasons.
///
/// [`Memory::on_demand`]: crate::memory::Memory::on_demand
///
/// # Errors
/// If a handler can't be installed.
#[cfg(target_arch = "x86_64")]
pub fn guarded_accessor() -> io::Result<Arc<dyn FaultSafe>> {
    Ok(Arc::new(guarded::GuardedMemory::new()?))
}

/// The accessor for mapped memory that may vanish or lose its rights: the kernel copies, which costs
/// a system call for each packet.
///
/// # Errors
/// As for [`ProcessMemory`](crate::memory::ProcessMemory).
#[cfg(not(target_arch = "x86_64"))]
pub fn guarded_accessor() -> io::Result<Arc<dyn FaultSafe>> {
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
    use core::arch::{asm, naked_asm};
    use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
    use nix::errno::Errno;
    use roce_stack::{FaultSafe, MemoryFault};
    use roce_wire::icrc::Unsealed;
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::ptr;
    use std::sync::OnceLock;

    /// Calls `access` with `argument`, and returns its result. The registers that a function has to
    /// keep are on the stack during the call, and the top of the stack is stored at `stack`. Below
    /// the top is the address to which the call returns: a signal handler that goes there with that
    /// stack pointer makes this function return RAX.
    ///
    /// # Safety
    /// `access` may be called with `argument`, and `stack` may be written.
    #[unsafe(naked)]
    unsafe extern "C" fn call_guarded(
        access: extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
        stack: *mut usize,
    ) -> c_int {
        naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbp, 0",
            "push rbx",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbx, 0",
            "push r12",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r12, 0",
            "push r13",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r13, 0",
            "push r14",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r14, 0",
            "push r15",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r15, 0",
            // Functions are called with the stack aligned to 16 bytes.
            "push rdx",
            ".cfi_adjust_cfa_offset 8",
            "mov [rdx], rsp",
            "mov rax, rdi",
            "mov rdi, rsi",
            "call rax",
            "pop rdx",
            ".cfi_adjust_cfa_offset -8",
            "pop r15",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore r15",
            "pop r14",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore r14",
            "pop r13",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore r13",
            "pop r12",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore r12",
            "pop rbx",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore rbx",
            "pop rbp",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore rbp",
            "ret",
            ".cfi_endproc",
        )
    }

    /// A guarded access of a thread, which lies on the thread's stack.
    struct Guarded {
        /// The top of the stack in `call_guarded`.
        stack: usize,
        /// The first and the last page of the access.
        pages: (usize, usize),
    }

    /// The smallest size of a page in bytes.
    const PAGE: usize = 4096;

    /// The key of each thread's current access. A thread-local variable could not be read in a
    /// signal handler: the first access of a thread may allocate memory.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Current(libc::pthread_key_t);

    impl Current {
        fn new() -> Result<Self, Errno> {
            let mut key = 0;
            // SAFETY: the key is written.
            match unsafe { libc::pthread_key_create(&raw mut key, None) } {
                0 => Ok(Self(key)),
                error => Err(Errno::from_raw(error)),
            }
        }

        fn get(self) -> *const Guarded {
            // SAFETY: the key exists. The call allocates nothing.
            unsafe { libc::pthread_getspecific(self.0) }.cast()
        }

        /// # Errors
        /// If the first access of a thread finds no memory for it.
        fn set(self, access: *const Guarded) -> Result<(), MemoryFault> {
            // SAFETY: the key exists.
            match unsafe { libc::pthread_setspecific(self.0, access.cast()) } {
                0 => Ok(()),
                _ => Err(MemoryFault),
            }
        }

        /// Runs `access`. If an access of it to the `len` bytes at `addr` raises a signal, its rest
        /// is not executed, nor are its destructors: it must have none, and must not panic.
        #[inline]
        fn guard<F: FnMut()>(
            self,
            addr: u64,
            len: usize,
            mut access: F,
        ) -> Result<(), MemoryFault> {
            extern "C" fn call<F: FnMut()>(access: *mut c_void) -> c_int {
                // SAFETY: `guard` passes the closure, and waits.
                unsafe { (*access.cast::<F>())() };
                0
            }
            let Some(beyond) = len.checked_sub(1) else {
                return Ok(());
            };
            let addr = usize::try_from(addr).map_err(|_| MemoryFault)?;
            let last = addr.checked_add(beyond).ok_or(MemoryFault)?;
            let mut guarded = Guarded {
                stack: 0,
                pages: (addr / PAGE, last / PAGE),
            };
            let here = &raw mut guarded;
            // A signal handler of the program may make an access in the middle of another one.
            let interrupted = self.get();
            self.set(here)?;
            let argument = (&raw mut access).cast();
            // SAFETY: `call` has the type of the closure. The handler changes the stack pointer only
            // while `call` runs.
            let failed = unsafe { call_guarded(call::<F>, argument, &raw mut (*here).stack) };
            self.set(interrupted)?;
            match failed {
                0 => Ok(()),
                _ => Err(MemoryFault),
            }
        }
    }

    /// The handler that the program had before.
    struct Before {
        action: OnceLock<libc::sigaction>,
        /// Whether a handler with `SA_RESETHAND` has run: from then on, the default action counts.
        is_reset: AtomicBool,
    }

    impl Before {
        const fn new() -> Self {
            Self {
                action: OnceLock::new(),
                is_reset: AtomicBool::new(false),
            }
        }

        /// The handler for the next signal, with its flags.
        fn next(&self) -> Option<(libc::sighandler_t, c_int)> {
            let action = self.action.get()?;
            let is_handler = has_handler(action);
            let resets = is_handler && action.sa_flags & libc::SA_RESETHAND != 0;
            if resets && self.is_reset.swap(true, Ordering::Relaxed) {
                return Some((libc::SIG_DFL, 0));
            }
            Some((action.sa_sigaction, action.sa_flags))
        }
    }

    static BEFORE: [Before; 2] = [const { Before::new() }; 2];

    fn has_handler(action: &libc::sigaction) -> bool {
        ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction)
    }

    /// The flags of this library's handler, which runs as the program's own one would: the kernel
    /// blocks the same signals meanwhile, and takes the alternate stack only if that one asked for it.
    fn own_flags(before: &libc::sigaction) -> c_int {
        let kept = libc::SA_NODEFER | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::SA_SIGINFO
            | match has_handler(before) {
                true => before.sa_flags & kept,
                false => libc::SA_ONSTACK,
            }
    }

    /// The signals of failed accesses.
    const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

    static CURRENT: OnceLock<Result<Current, Errno>> = OnceLock::new();

    /// Installs the handlers, once.
    fn install() -> Result<Current, Errno> {
        static INSTALLED: OnceLock<Result<(), Errno>> = OnceLock::new();
        let current = (*CURRENT.get_or_init(Current::new))?;
        let installed = INSTALLED.get_or_init(|| {
            let mut all = SIGNALS.iter().zip(&BEFORE);
            all.try_for_each(|(signal, before)| install_for(*signal, &before.action))
        });
        installed.map(|()| current)
    }

    fn install_for(signal: c_int, known: &OnceLock<libc::sigaction>) -> Result<(), Errno> {
        let action = |new: *const libc::sigaction| {
            let mut old = MaybeUninit::uninit();
            // SAFETY: `new` is null or valid, `old` is writable.
            let done = unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) };
            // SAFETY: the call has filled it, unless it failed.
            Errno::result(done).map(|_| unsafe { old.assume_init() })
        };
        // The handler may run as soon as it is installed.
        let before = action(ptr::null())?;
        let _ = known.set(before);
        // SAFETY: all zeros is a valid value.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = on_fault;
        new.sa_sigaction = handler as usize;
        new.sa_flags = own_flags(&before);
        new.sa_mask = before.sa_mask;
        action(&raw const new).map(drop)
    }

    /// The access that the thread is making, if it reaches into the page at `addr`.
    fn failed_access(addr: usize) -> Option<usize> {
        let current = CURRENT.get()?.ok()?;
        // SAFETY: it is null, or what `guard` is waiting with.
        let Guarded { stack, pages } = unsafe { current.get().as_ref() }?;
        let hit = (pages.0..=pages.1).contains(&(addr / PAGE));
        (hit && *stack != 0).then_some(*stack)
    }

    extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes what it knows of the signal.
        let (code, addr) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
        // A signal that a process has sent has no address.
        let stack = (code > 0).then(|| failed_access(addr)).flatten();
        if let Some(stack) = stack {
            // SAFETY: the kernel passes the context of the interrupted thread.
            let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
            // SAFETY: `call_guarded` has called the access, and that call's return address is there.
            let after_call = unsafe { (stack as *const i64).sub(1).read() };
            registers[libc::REG_RSP as usize] = stack as i64;
            registers[libc::REG_RIP as usize] = after_call;
            // The result of the access.
            registers[libc::REG_RAX as usize] = 1;
            return;
        }
        pass_on(signal, code, info, context);
    }

    /// Calls the program's own handler. Without one, the signal ends the process, as usual.
    fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let known = SIGNALS.iter().position(|one| *one == signal);
        let Some((handler, flags)) = known.and_then(|at| BEFORE[at].next()) else {
            return;
        };
        match handler {
            libc::SIG_IGN if code <= 0 => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                // SAFETY: all zeros is the default action, and the calls may be made in a handler.
                unsafe {
                    let default: libc::sigaction = std::mem::zeroed();
                    libc::sigaction(signal, &raw const default, ptr::null_mut());
                    // A failed instruction is executed again, and raises the signal again.
                    if code <= 0 {
                        libc::raise(signal);
                    }
                }
            }
            handler if flags & libc::SA_SIGINFO != 0 => {
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

    /// The bytes of a cache line.
    const LINE: u64 = 64;

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
            let current = install().map_err(|_| MemoryFault)?;
            let len = usize::try_from(lines * LINE).map_err(|_| MemoryFault)?;
            current.guard(first, len, || {
                for line in (first..).step_by(LINE as usize).take(lines as usize) {
                    // SAFETY: these instructions change nothing that a program can see, and a fault
                    // ends the access. `best` has checked that the processor has the instruction.
                    // Written as bytes: not every assembler knows them. Each is for the line at rdi.
                    unsafe {
                        match self {
                            Self::Clwb => asm!(".byte 0x66, 0x0f, 0xae, 0x37", in("rdi") line),
                            Self::Clflushopt => {
                                asm!(".byte 0x66, 0x0f, 0xae, 0x3f", in("rdi") line);
                            }
                            Self::Clflush => asm!(".byte 0x0f, 0xae, 0x3f", in("rdi") line),
                        }
                    }
                }
            })?;
            // SAFETY: it only waits for the instructions above.
            unsafe { asm!("sfence") };
            Ok(())
        }
    }

    pub(super) fn write_back(first: u64, lines: u64) -> Result<(), MemoryFault> {
        WriteBack::best().run(first, lines)
    }

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

        fn update(
            &self,
            addr: u64,
            change: &dyn Fn(u64) -> Option<u64>,
        ) -> Result<u64, MemoryFault> {
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
        use super::*;
        use nix::sys::memfd::{MFdFlags, memfd_create};
        use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
        use nix::unistd::ftruncate;
        use std::num::NonZeroUsize;
        use std::os::fd::OwnedFd;

        const PAGE: usize = 4096;

        fn memory() -> GuardedMemory {
            GuardedMemory::new().expect("installed")
        }

        struct Mapped {
            file: OwnedFd,
            start: ptr::NonNull<c_void>,
        }

        impl Mapped {
            fn new() -> Self {
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

        fn action(handler: usize, flags: c_int) -> libc::sigaction {
            // SAFETY: all zeros is a valid value.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = handler;
            action.sa_flags = flags;
            action
        }

        #[test]
        fn the_handler_runs_as_the_programs_own_one_would() {
            let own = |handler, flags| own_flags(&action(handler, flags)) & !libc::SA_SIGINFO;
            for none in [libc::SIG_DFL, libc::SIG_IGN] {
                assert_eq!(own(none, libc::SA_RESTART), libc::SA_ONSTACK);
            }
            let kept = libc::SA_NODEFER | libc::SA_RESTART;
            for flags in [0, libc::SA_ONSTACK, libc::SA_ONSTACK | kept, kept] {
                assert_eq!(own(4096, flags), flags);
                assert_eq!(own(4096, flags | libc::SA_RESETHAND), flags);
            }
        }

        #[test]
        fn a_handler_that_resets_itself_runs_once() {
            for (flags, later) in [
                (libc::SA_RESETHAND, (libc::SIG_DFL, 0)),
                (libc::SA_SIGINFO, (4096, libc::SA_SIGINFO)),
            ] {
                let before = Before::new();
                assert_eq!(before.next(), None);
                assert!(before.action.set(action(4096, flags)).is_ok());
                let all = [(); 3].map(|()| before.next());
                assert_eq!(all, [Some((4096, flags)), Some(later), Some(later)]);
            }
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
            memory().write(mapped.at(0), &data).expect("written");
            for one in write_backs() {
                assert_eq!(one.run(mapped.at(0), 64), Ok(()), "{one:?}");
                assert_eq!(one.run(mapped.at(0), 0), Ok(()), "{one:?}");
            }
            let mut found = vec![0; 200];
            memory().read(mapped.at(0), &mut found).expect("read");
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
}
