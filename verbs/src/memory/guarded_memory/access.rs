//! An access that ends with an error instead of a signal.

use core::arch::naked_asm;
use nix::errno::Errno;
use roce_stack::MemoryFault;
use std::ffi::{c_int, c_void};

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
pub(super) struct Guarded {
    /// The top of the stack in `call_guarded`.
    pub(super) stack: usize,
    /// The first and the last page of the access.
    pub(super) pages: (usize, usize),
}

/// The smallest size of a page in bytes.
pub(super) const PAGE: usize = 4096;

/// The key of each thread's current access. A thread-local variable could not be read in a
/// signal handler: the first access of a thread may allocate memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current(libc::pthread_key_t);

impl Current {
    pub(super) fn new() -> Result<Self, Errno> {
        let mut key = 0;
        // SAFETY: the key is written.
        match unsafe { libc::pthread_key_create(&raw mut key, None) } {
            0 => Ok(Self(key)),
            error => Err(Errno::from_raw(error)),
        }
    }

    pub(super) fn get(self) -> *const Guarded {
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
    pub(super) fn guard<F: FnMut()>(
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
