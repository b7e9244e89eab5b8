//! The `roce` command, which makes the files of a program's devices when the program first asks for them.
//!
//! The program does not notice it: a process that starts without an exit signal sends no SIGCHLD at its end, and no
//! `wait` of the program returns it. `execve` gives it that signal again, so the command is a child of such a
//! process, not such a process itself.

use crate::errno::{self, keeping_errno};
use crate::{MAX_BYTES, VARIABLE};
use libc::c_int;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

/// The argument with which the command makes the files and prints their folder. `roce` has the same.
const ARGUMENT: &CStr = c"make-device-files";

/// The command, from the folder above the library's.
const COMMAND: &[u8] = b"/bin/roce";

/// How long a program waits for the command, or for another thread that waits for it: long enough for a machine
/// with much other work.
const PATIENCE_MS: c_int = 60_000;

/// There is no command, or it has been asked.
const DONE: u8 = 0;
/// The command can be asked.
const READY: u8 = 1;
/// A thread is asking it.
const ASKING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(DONE);

/// The path of the command, a string that is never freed.
static PATH: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// The process and the thread that are asking. A child that is forked meanwhile must not wait for them.
static ASKING_PROCESS: AtomicU32 = AtomicU32::new(0);
static ASKING_THREAD: AtomicU32 = AtomicU32::new(0);

/// Whether the command may make the files.
#[inline]
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) != DONE
}

/// Finds the command. Runs while libraries are initialised.
pub(crate) fn find() {
    let Some(command) = beside_library() else {
        return;
    };
    PATH.store(command.into_raw(), Ordering::Relaxed);
    STATE.store(READY, Ordering::Release);
}

/// `../../bin/roce`, seen from the folder of this library.
fn beside_library() -> Option<CString> {
    // SAFETY: all fields are numbers or pointers that may be null.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is in this library, and there is room for the answer.
    if unsafe { libc::dladdr((&raw const STATE).cast::<c_void>(), &raw mut found) } == 0 {
        return None;
    }
    // SAFETY: the loader's name for the library is a string.
    let library = unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes();
    let mut folder = library;
    for _ in 0..3 {
        folder = folder.get(..folder.iter().rposition(|byte| *byte == b'/')?)?;
    }
    if folder.first() != Some(&b'/') {
        return None;
    }
    let command = CString::new([folder, COMMAND].concat()).ok()?;
    // SAFETY: the path is a string. The system call does not go through this library's own functions.
    let missing = unsafe {
        libc::syscall(
            libc::SYS_faccessat,
            libc::AT_FDCWD,
            command.as_ptr(),
            libc::X_OK,
        )
    };
    (missing == 0).then_some(command)
}

/// Passes the folder that the command has made to `set`, once in a process. Other threads wait for that.
pub(crate) fn make_once(set: impl FnOnce(&[u8])) {
    let asked = STATE.compare_exchange(READY, ASKING, Ordering::Acquire, Ordering::Acquire);
    if asked.is_ok() {
        note_asker();
        keeping_errno(|| ask(set));
        STATE.store(DONE, Ordering::Release);
    } else {
        keeping_errno(wait_for_asker);
    }
}

fn note_asker() {
    let (process, thread) = own_ids();
    ASKING_PROCESS.store(process, Ordering::Relaxed);
    ASKING_THREAD.store(thread, Ordering::Release);
}

/// The IDs of this process and this thread.
fn own_ids() -> (u32, u32) {
    let id = |call| {
        // SAFETY: both calls take nothing and return a number.
        let id = unsafe { libc::syscall(call) };
        u32::try_from(id).unwrap_or(0)
    };
    (id(libc::SYS_getpid), id(libc::SYS_gettid))
}

/// Waits until another thread of this process has the answer. A signal handler does not wait for the thread
/// that it has interrupted.
fn wait_for_asker() {
    let (process, thread) = own_ids();
    for _ in 0..PATIENCE_MS {
        let asking = ASKING_THREAD.load(Ordering::Acquire);
        let is_other = asking != thread && ASKING_PROCESS.load(Ordering::Relaxed) == process;
        let is_about_to = asking == 0;
        if STATE.load(Ordering::Acquire) != ASKING || !(is_other || is_about_to) {
            return;
        }
        // SAFETY: the call takes no memory.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 1) };
    }
}

fn ask(set: impl FnOnce(&[u8])) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return;
    }
    let [answer, end] = ends;
    let child = start(end);
    // SAFETY: the descriptor is this function's.
    unsafe { libc::close(end) };
    let mut text = [0; MAX_BYTES + 1];
    let length = match child {
        1.. => read_all(answer, &mut text),
        _ => None,
    };
    // SAFETY: the descriptor is this function's.
    unsafe { libc::close(answer) };
    if child > 0 {
        if length.is_none() {
            // SAFETY: the child has not been waited for, so the ID is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        // Without the flag, the call does not see a child that sends no signal.
        // SAFETY: the status is not wanted.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
    }
    // An answer that is not a whole line is none.
    let line = length.and_then(|length| text.get(..length));
    if let Some(folder) = line.and_then(|line| line.strip_suffix(b"\n")) {
        set(folder);
    }
}

/// Starts the command, which writes to the descriptor `end`. Returns its process ID, or a number below 1.
fn start(end: c_int) -> c_int {
    let command = PATH.load(Ordering::Relaxed).cast_const();
    let arguments = [command, ARGUMENT.as_ptr(), std::ptr::null()];
    let (Some(marked), true) = (marked(), !command.is_null()) else {
        return -1;
    };
    let environment = environment(&marked);
    let signals = block_signals();
    let child = fork_quietly();
    if child == 0 {
        // SAFETY: this process, and its child, only make system calls, whose arguments were ready before. The
        // program's handlers don't run in either, since all signals are blocked.
        unsafe {
            let command_process = fork_quietly();
            if command_process == 0 {
                execute(end, command, arguments.as_ptr(), environment.as_ptr());
            }
            libc::waitpid(command_process, std::ptr::null_mut(), libc::__WALL);
            libc::_exit(0)
        }
    }
    unblock_signals(&signals);
    child
}

/// Becomes the command.
///
/// # Safety
/// The pointers are those of `execve`.
unsafe fn execute(
    end: c_int,
    command: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> ! {
    // SAFETY: the caller promises what `execve` asks for. `dup2` would leave a descriptor that has the right
    // number already as it is, and `execve` would close it.
    unsafe {
        match end {
            libc::STDOUT_FILENO => libc::fcntl(end, libc::F_SETFD, 0),
            _ => libc::dup2(end, libc::STDOUT_FILENO),
        };
        libc::execve(command, arguments, environment);
        libc::_exit(127)
    }
}

/// As `fork`, but the child's end sends no signal to this process. Returns the child's ID, 0 in the child, or
/// a negative number.
fn fork_quietly() -> c_int {
    // SAFETY: without flags, the child has its own memory and goes on with this thread alone.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, 0_usize, 0_usize, 0_usize, 0_usize, 0_usize) };
    c_int::try_from(child).unwrap_or(-1)
}

/// Blocks all signals of this thread. Returns those that were blocked before.
fn block_signals() -> libc::sigset_t {
    // SAFETY: both sets are plain memory, which the calls fill.
    unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

fn unblock_signals(before: &libc::sigset_t) {
    // SAFETY: the set is valid, and the previous one is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
}

/// The variable by which the command, which has this library preloaded as well, makes no files by itself.
fn marked() -> Option<CString> {
    CString::new([VARIABLE.to_bytes(), b"=/"].concat()).ok()
}

/// The program's environment, and `more`.
fn environment(more: &CStr) -> Vec<*const c_char> {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let mut entries = vec![more.as_ptr()];
    // SAFETY: the C library's list ends with a null pointer. A program that changes it in another thread
    // meanwhile breaks every function that reads it.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            entries.push(*at);
            at = at.add(1);
        }
    }
    entries.push(std::ptr::null());
    entries
}

/// Reads until the other end is closed. Returns the number of bytes; `None` after an error, or if that takes
/// too long.
fn read_all(from: c_int, to: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while let Some(room) = to.get_mut(length..).filter(|room| !room.is_empty()) {
        let mut waited = libc::pollfd {
            fd: from,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: there is one entry.
        let ready = unsafe { libc::poll(&raw mut waited, 1, PATIENCE_MS) };
        let read = match ready {
            // SAFETY: there is room for this many bytes.
            1 => unsafe { libc::read(from, room.as_mut_ptr().cast(), room.len()) },
            0 => return None,
            _ => -1,
        };
        match usize::try_from(read) {
            Ok(0) => return Some(length),
            Ok(count) => length += count,
            Err(_) if errno::get() == libc::EINTR => {}
            Err(_) => return None,
        }
    }
    Some(length)
}
