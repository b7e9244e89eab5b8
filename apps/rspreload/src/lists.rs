//! `execl`, `execlp` and `execle`. Rust cannot forward variadic arguments, so these jump to the
//! originals with the registers and the stack unchanged.

use crate::errno::Errno;
use crate::real::{EXECL, EXECLE, EXECLP};
use crate::{errno, exec};
use roce_trust::Next;
use std::ffi::{c_int, c_void};

extern "C" fn missing() -> c_int {
    Errno(libc::ENOSYS).set();
    -1
}

fn prepare(next: &Next) -> *const c_void {
    errno::call((), || {
        exec::prepare();
        Ok(())
    });
    match next.get() {
        found if found.is_null() => missing as *const c_void,
        found => found,
    }
}

extern "C" fn prepare_execl() -> *const c_void {
    prepare(&EXECL)
}

extern "C" fn prepare_execlp() -> *const c_void {
    prepare(&EXECLP)
}

extern "C" fn prepare_execle() -> *const c_void {
    prepare(&EXECLE)
}

macro_rules! lists {
    ($($name:ident, $prepare:ident;)*) => {
        $(
            #[cfg(target_arch = "x86_64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() -> c_int {
                std::arch::naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "call {prepare}",
                    "mov r11, rax",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    prepare = sym $prepare,
                )
            }

            #[cfg(target_arch = "aarch64")]
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() -> c_int {
                std::arch::naked_asm!(
                    "stp x29, x30, [sp, #-80]!",
                    "stp x0, x1, [sp, #16]",
                    "stp x2, x3, [sp, #32]",
                    "stp x4, x5, [sp, #48]",
                    "stp x6, x7, [sp, #64]",
                    "bl {prepare}",
                    "mov x16, x0",
                    "ldp x0, x1, [sp, #16]",
                    "ldp x2, x3, [sp, #32]",
                    "ldp x4, x5, [sp, #48]",
                    "ldp x6, x7, [sp, #64]",
                    "ldp x29, x30, [sp], #80",
                    "br x16",
                    prepare = sym $prepare,
                )
            }
        )*
    };
}

lists! {
    execl, prepare_execl;
    execlp, prepare_execlp;
    execle, prepare_execle;
}
