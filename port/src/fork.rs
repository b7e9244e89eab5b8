//! Descriptors and shared memory that forked children give up.
//!
//! A child has copies of its parent's descriptors. As long as it has them open, the parent's
//! addresses, names and programs exist, even if the parent is gone: nobody else could use the
//! address, and nobody would answer there. So the child gives them up before `fork` returns.
//!
//! Sockets are marked, so that duplicates of a descriptor are given up as well, and those that
//! another process sent. The mark is a linger time, which means nothing for datagram, Unix and XDP
//! sockets. Other descriptors are in a list, and so is shared memory.

use std::ffi::CStr;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};

use nix::errno::Errno;

/// The linger time that marks a socket, in seconds: 31 years. No program sets it by chance.
const MARK: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0x3aa4_791d,
};

/// The directory of a process's descriptors.
const DESCRIPTORS: &CStr = c"/proc/self/fd";

/// The number of descriptors that are looked at where there is no `/proc`.
const WITHOUT_LIST: RawFd = 1024;

/// The descriptors of [`NotInherited`] values; 0, which is never one of them, for a free place.
static OTHERS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// A descriptor of any kind that children give up. If the process has more than 64 of them,
/// children keep the others.
#[derive(Debug)]
pub struct NotInherited {
    fd: OwnedFd,
    place: Option<&'static AtomicI32>,
}

impl NotInherited {
    /// Makes children that are forked from now on give up `fd`.
    pub fn new(fd: OwnedFd) -> Self {
        register_handler();
        let number = fd.as_raw_fd();
        let is_free = |place: &&AtomicI32| {
            let taken = place.compare_exchange(0, number, Relaxed, Relaxed);
            taken.is_ok()
        };
        let place = OTHERS.iter().find(is_free);
        Self { fd, place }
    }
}

impl AsFd for NotInherited {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        // Before the descriptor is closed, and its number means something else.
        if let Some(place) = self.place {
            place.store(0, Relaxed);
        }
    }
}

/// Most pieces of shared memory that children give up.
const MOST_SHARED: usize = 1024;

/// Start and length of each [`NotShared`] value's memory; start 0 for a free place.
static SHARED: [(AtomicUsize, AtomicUsize); MOST_SHARED] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST_SHARED];

/// Memory that a process shares with another one, and its children do not: they find zeros of their own at the
/// same place.
#[derive(Debug)]
pub struct NotShared(&'static (AtomicUsize, AtomicUsize));

impl NotShared {
    /// Makes children that are forked from now on give up the memory from `start` on, until the value is
    /// dropped. `None` if the process has too many pieces of such memory.
    ///
    /// # Safety
    /// The range is a mapping's or several mappings', and stays mapped while the value lives.
    pub unsafe fn new(start: *mut u8, len: usize) -> Option<Self> {
        register_handler();
        let place = SHARED.iter().find(|(at, _)| {
            let taken = at.compare_exchange(0, start as usize, Relaxed, Relaxed);
            taken.is_ok()
        })?;
        // A child that is forked before this gives up nothing yet.
        place.1.store(len, Relaxed);
        Some(Self(place))
    }
}

impl Drop for NotShared {
    fn drop(&mut self) {
        self.0.1.store(0, Relaxed);
        self.0.0.store(0, Relaxed);
    }
}

/// Puts zeros in place of shared memory.
fn give_up_memory() {
    for (start, len) in &SHARED {
        let (start, len) = (start.load(Relaxed), len.load(Relaxed));
        if start != 0 && len != 0 {
            // SAFETY: the value in the list owns the range, and what the child has of it is only a copy of the
            // mapping.
            unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
        }
    }
}

fn register_handler() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: the handler only makes system calls. If it can't be registered, children keep
        // the descriptors.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(give_up_all)) };
    });
}

/// Makes children that are forked from now on give up `socket`, and all descriptors of it.
///
/// # Errors
/// If the system refuses to mark it.
pub fn give_up_in_children(socket: &impl AsFd) -> io::Result<()> {
    register_handler();
    // SAFETY: the option's value is a structure of this length.
    let set = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::from_ref(&MARK).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    Ok(Errno::result(set).map(drop)?)
}

/// Replaces each of the descriptors by one of an unused socket. The numbers stay in use, because
/// the child has copies of the values that own them, and may still close them.
///
/// This runs in the child, before `fork` returns. The parent's other threads may have held any
/// lock at the fork, so it only makes system calls.
extern "C" fn give_up_all() {
    let before = Errno::last_raw();
    give_up_memory();
    // SAFETY: the call only makes a descriptor.
    let unused = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if unused >= 0 {
        let listed = for_each_descriptor(|fd| give_up_if_marked(fd, unused));
        if !listed {
            (0..WITHOUT_LIST).for_each(|fd| give_up_if_marked(fd, unused));
        }
        for place in &OTHERS {
            let fd = place.load(Relaxed);
            if fd != 0 {
                give_up(fd, unused);
            }
        }
        // SAFETY: the descriptor was made above, and nothing else knows it.
        unsafe { libc::close(unused) };
    }
    Errno::set_raw(before);
}

/// Replaces the descriptor by one of `unused`.
fn give_up(fd: RawFd, unused: RawFd) {
    // SAFETY: the caller owns the number.
    unsafe { libc::dup3(unused, fd, libc::O_CLOEXEC) };
}

/// Gives up the descriptor if it is a marked socket.
fn give_up_if_marked(fd: RawFd, unused: RawFd) {
    let mut found = libc::linger {
        l_onoff: 0,
        l_linger: 0,
    };
    let mut len = size_of::<libc::linger>() as libc::socklen_t;
    // SAFETY: the structure has this length. The descriptor need not exist, nor be a socket.
    let known = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw mut found).cast(),
            &raw mut len,
        )
    };
    if known == 0 && found.l_onoff != 0 && found.l_linger == MARK.l_linger {
        give_up(fd, unused);
    }
}

/// Calls `act` for each open descriptor. Returns false if there is no list of them.
fn for_each_descriptor(mut act: impl FnMut(RawFd)) -> bool {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let directory = unsafe { libc::open(DESCRIPTORS.as_ptr(), flags) };
    if directory < 0 {
        return false;
    }
    /// Aligned like the entries of a directory.
    #[repr(C, align(8))]
    struct Entries([u8; 4096]);
    let mut entries = Entries([0; 4096]);
    loop {
        // SAFETY: the buffer has this length.
        let len = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory,
                entries.0.as_mut_ptr(),
                entries.0.len(),
            )
        };
        let Some(mut rest) = usize::try_from(len)
            .ok()
            .and_then(|len| entries.0.get(..len))
        else {
            break;
        };
        if rest.is_empty() {
            break;
        }
        while let Some((fd, after)) = next_entry(rest) {
            if let Some(fd) = fd {
                act(fd);
            }
            rest = after;
        }
    }
    // SAFETY: the descriptor was made above, and nothing else knows it.
    unsafe { libc::close(directory) };
    true
}

/// The descriptor that the first entry names, if its name is a number, and the entries after it.
fn next_entry(entries: &[u8]) -> Option<(Option<RawFd>, &[u8])> {
    // Inode and offset, the entry's length, its type.
    let (header, _) = entries.split_at_checked(19)?;
    let len = usize::from(u16::from_ne_bytes([header[16], header[17]]));
    let (entry, after) = entries.split_at_checked(len.max(19))?;
    let mut fd = None;
    for digit in entry[19..].iter().take_while(|byte| **byte != 0) {
        if !digit.is_ascii_digit() {
            return Some((None, after));
        }
        let digit = RawFd::from(digit - b'0');
        let so_far: RawFd = fd.unwrap_or(0);
        fd = Some(so_far.checked_mul(10)?.checked_add(digit)?);
    }
    Some((fd, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::zeroed;
    use std::net::UdpSocket;
    use std::os::unix::net::UnixStream;

    #[test]
    fn every_descriptor_is_listed() {
        let sockets: Vec<UdpSocket> = (0..300)
            .map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket"))
            .collect();
        let mut listed = Vec::new();
        assert!(for_each_descriptor(|fd| listed.push(fd)));
        for socket in &sockets {
            assert!(listed.contains(&socket.as_raw_fd()));
        }
    }

    #[test]
    fn only_marked_sockets_and_their_duplicates_are_given_up() {
        // SAFETY: all zeros is a valid value.
        let inode = |socket: &dyn AsRawFd| unsafe {
            let mut status: libc::stat = zeroed();
            assert_eq!(libc::fstat(socket.as_raw_fd(), &raw mut status), 0);
            status.st_ino
        };
        let marked = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        give_up_in_children(&marked).expect("marked");
        let copy = marked.try_clone().expect("a descriptor");
        let (stream, _other) = UnixStream::pair().expect("sockets");
        give_up_in_children(&stream).expect("marked");
        let plain = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let unused = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for socket in [&marked as &dyn AsRawFd, &copy, &stream, &plain] {
            give_up_if_marked(socket.as_raw_fd(), unused.as_raw_fd());
        }
        let new = inode(&unused);
        assert_eq!([inode(&marked), inode(&copy), inode(&stream)], [new; 3]);
        assert_ne!(inode(&plain), new);
    }
}
