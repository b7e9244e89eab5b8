//! Threads, forks, other programs, and the end of the process.

use crate::errno::call;
use crate::real::{Handler, Start, Strings};
use crate::{atfork, exec, exit, real, threads};
use libc::pid_t;
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::time::Duration;

replace! {
    fn pthread_create(thread: *mut c_ulong, attributes: *const c_void, start: Start, argument: *mut c_void) -> c_int;
    threads::create(thread, attributes, start, argument)

    fn __register_atfork(prepare: Handler, in_parent: Handler, in_child: Handler, object: *mut c_void) -> c_int;
    atfork::register(prepare, in_parent, in_child, object)

    // The child of the original runs in its parent's memory, where this library's tables are.
    fn vfork() -> pid_t;
    libc::fork()

    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int; {
        exec::prepare();
        real::execve(path, arguments, environment)
    }

    fn execveat(at: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int; {
        exec::prepare();
        real::execveat(at, path, arguments, environment, flags)
    }

    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int; {
        exec::prepare();
        real::fexecve(fd, arguments, environment)
    }

    fn execv(path: *const c_char, arguments: Strings) -> c_int; {
        exec::prepare();
        real::execv(path, arguments)
    }

    fn execvp(file: *const c_char, arguments: Strings) -> c_int; {
        exec::prepare();
        real::execvp(file, arguments)
    }

    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int; {
        exec::prepare();
        real::execvpe(file, arguments, environment)
    }

    fn _exit(status: c_int) -> !;
    ended(status)

    fn _Exit(status: c_int) -> !;
    ended(status)
}

fn ended(status: c_int) -> ! {
    call((), || {
        exit::at_once();
        Ok(())
    });
    // SAFETY: only a number is passed. This is what the C library's function does.
    unsafe {
        libc::syscall(libc::SYS_exit_group, status);
    }
    // The kernel has ended the process.
    loop {
        std::thread::sleep(Duration::MAX);
    }
}
