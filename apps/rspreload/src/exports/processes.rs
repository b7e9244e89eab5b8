//! Threads, forks, `exec` and exit.

use crate::errno::call;
use crate::real::{Handler, Start, Strings};
use crate::{atfork, exec, exit, inside, real};
use libc::pid_t;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::time::Duration;

/// Defines functions that execute another program.
macro_rules! replace_execs {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        replace! {
            $(
                fn $name($($arg: $type),*) -> c_int; {
                    exec::prepare();
                    real::$name($($arg),*)
                }
            )*
        }
    };
}

replace_execs! {
    fn execve(path: *const c_char, arguments: Strings, environment: Strings);
    fn execveat(at: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int);
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings);
    fn execv(path: *const c_char, arguments: Strings);
    fn execvp(file: *const c_char, arguments: Strings);
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings);
}

replace! {
    fn pthread_create(thread: *mut c_ulong, attributes: *const c_void, start: Start, argument: *mut c_void) -> c_int;
    inside::create(thread, attributes, start, argument)

    fn __register_atfork(prepare: Handler, in_parent: Handler, in_child: Handler, object: *mut c_void) -> c_int;
    atfork::register(prepare, in_parent, in_child, object)

    // The child of a real vfork would share memory with its parent, and with it this library's tables.
    fn vfork() -> pid_t;
    libc::fork()

    fn _exit(status: c_int) -> !;
    end_process(status)

    fn _Exit(status: c_int) -> !;
    end_process(status)
}

fn end_process(status: c_int) -> ! {
    call((), || {
        exit::close_all();
        Ok(())
    });
    // SAFETY: only a number is passed. The C library's function does the same.
    unsafe {
        libc::syscall(libc::SYS_exit_group, status);
    }
    // Unreachable: the kernel has ended the process.
    loop {
        std::thread::sleep(Duration::MAX);
    }
}
