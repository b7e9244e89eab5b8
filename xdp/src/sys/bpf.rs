//! System calls for BPF programs and maps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::{checked, owned};

/// An XDP program's return code: pass the frame to the kernel.
pub(crate) const XDP_PASS: u32 = 2;
/// An XDP program's return code: redirect the frame.
pub(crate) const XDP_REDIRECT: u32 = 4;

/// Commands of `bpf(2)`.
mod command {
    pub(super) const MAP_CREATE: libc::c_long = 0;
    pub(super) const MAP_UPDATE_ELEM: libc::c_long = 2;
    pub(super) const MAP_DELETE_ELEM: libc::c_long = 3;
    pub(super) const PROG_LOAD: libc::c_long = 5;
    pub(super) const PROG_TEST_RUN: libc::c_long = 10;
    pub(super) const PROG_GET_FD_BY_ID: libc::c_long = 13;
    pub(super) const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
    pub(super) const LINK_CREATE: libc::c_long = 28;
    pub(super) const LINK_DETACH: libc::c_long = 34;
}

const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// The program accepts frames of several pieces.
const F_XDP_HAS_FRAGS: u32 = 1 << 5;
const LOG_BYTES: usize = 1 << 16;
/// Offset of the name in `struct bpf_prog_info`.
const INFO_NAME: usize = 64;

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    /// A hash map.
    Hash,
    /// A map from queues to AF_XDP sockets.
    Sockets,
}

impl MapKind {
    fn number(self) -> u32 {
        match self {
            Self::Hash => 1,
            Self::Sockets => 17,
        }
    }
}

/// The argument of `bpf(2)`: fields at their offsets, zeroes elsewhere.
struct Attributes([u64; 16]);

impl Attributes {
    fn new() -> Self {
        Self([0; 16])
    }

    /// Sets a field of 4 bytes at an offset that is a multiple of 4.
    fn put_u32(mut self, offset: usize, value: u32) -> Self {
        let mut bytes = self.0[offset / 8].to_ne_bytes();
        let at = offset % 8;
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self.0[offset / 8] = u64::from_ne_bytes(bytes);
        self
    }

    /// Sets a field of 8 bytes at an offset that is a multiple of 8.
    fn put_u64(mut self, offset: usize, value: u64) -> Self {
        self.0[offset / 8] = value;
        self
    }

    /// Sets a name, truncated to 15 bytes.
    fn put_name(mut self, offset: usize, name: &str) -> Self {
        let mut bytes = [0; 16];
        let len = name.len().min(15);
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        for (word, chunk) in bytes.chunks_exact(4).enumerate() {
            let value = u32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
            self = self.put_u32(offset + word * 4, value);
        }
        self
    }

    /// Calls the kernel.
    ///
    /// # Safety
    /// The pointers among the fields must be valid for this command.
    unsafe fn call(&mut self, command: libc::c_long) -> libc::c_long {
        let len = size_of_val(&self.0);
        // SAFETY: `len` is the length of the argument; the caller guarantees that the pointers in
        // it are valid.
        unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), len) }
    }
}

/// A map with keys of `K` bytes and values of 4 bytes.
#[derive(Debug)]
pub(crate) struct Map<const K: usize>(OwnedFd);

impl<const K: usize> Map<K> {
    /// Creates a map.
    pub(crate) fn new(kind: MapKind, entries: u32, name: &str) -> io::Result<Self> {
        let mut attributes = Attributes::new()
            .put_u32(0, kind.number())
            .put_u32(4, K as u32)
            .put_u32(8, 4)
            .put_u32(12, entries)
            .put_name(28, name);
        // SAFETY: no pointers.
        owned(unsafe { attributes.call(command::MAP_CREATE) }).map(Self)
    }

    /// Sets the value of a key.
    pub(crate) fn update(&self, key: &[u8; K], value: &[u8; 4]) -> io::Result<()> {
        let mut attributes = self.element(key).put_u64(16, value.as_ptr() as u64);
        // SAFETY: key and value live through the call, and are as long as those of the map.
        checked(unsafe { attributes.call(command::MAP_UPDATE_ELEM) }).map(drop)
    }

    /// Removes a key.
    pub(crate) fn delete(&self, key: &[u8; K]) -> io::Result<()> {
        let mut attributes = self.element(key);
        // SAFETY: the key lives through the call, and is as long as those of the map.
        checked(unsafe { attributes.call(command::MAP_DELETE_ELEM) }).map(drop)
    }

    /// The map's descriptor.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn element(&self, key: &[u8; K]) -> Attributes {
        Attributes::new()
            .put_u32(0, self.0.as_raw_fd() as u32)
            .put_u64(8, key.as_ptr() as u64)
    }
}

/// Loads an XDP program that accepts frames of several pieces. The error includes the log of the
/// kernel's verifier.
pub(crate) fn load_xdp(code: &[u64], name: &str) -> io::Result<OwnedFd> {
    // The program calls no GPL-only helper.
    let licence = c"MIT";
    let attributes = || {
        Attributes::new()
            .put_u32(0, PROG_TYPE_XDP)
            .put_u32(4, code.len() as u32)
            .put_u64(8, code.as_ptr() as u64)
            .put_u64(16, licence.as_ptr() as u64)
            .put_u32(44, F_XDP_HAS_FRAGS)
            .put_name(48, name)
            .put_u32(68, ATTACH_TYPE_XDP)
    };
    // SAFETY: code and licence live through the call; the kernel gets the code's length.
    match owned(unsafe { attributes().call(command::PROG_LOAD) }) {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => {
            let mut log = vec![0_u8; LOG_BYTES];
            let mut with_buffer = attributes()
                .put_u32(24, 1)
                .put_u32(28, log.len() as u32)
                .put_u64(32, log.as_mut_ptr() as u64);
            // SAFETY: as above, and the kernel gets the log's length.
            let again = owned(unsafe { with_buffer.call(command::PROG_LOAD) });
            again.map_err(|_| with_log(&error, &log))
        }
        result => result,
    }
}

fn with_log(error: &io::Error, log: &[u8]) -> io::Error {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    let log = String::from_utf8_lossy(&log[..end]);
    let last: Vec<&str> = log.trim_end().lines().rev().take(4).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    io::Error::new(error.kind(), format!("{error} ({})", last.join("; ")))
}

/// Attaches a program to an interface, with a link that ends when its descriptor is closed.
pub(crate) fn attach_xdp(
    program: BorrowedFd<'_>,
    interface: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::new()
        .put_u32(0, program.as_raw_fd() as u32)
        .put_u32(4, interface)
        .put_u32(8, ATTACH_TYPE_XDP)
        .put_u32(12, flags);
    // SAFETY: no pointers.
    owned(unsafe { attributes.call(command::LINK_CREATE) })
}

/// Ends a link at once, even if other processes have its descriptor.
pub(crate) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    let mut attributes = Attributes::new().put_u32(0, link.as_raw_fd() as u32);
    // SAFETY: no pointers.
    checked(unsafe { attributes.call(command::LINK_DETACH) }).map(drop)
}

/// Runs a program on a frame and returns its verdict.
pub(crate) fn test_run(program: BorrowedFd<'_>, frame: &[u8]) -> io::Result<u32> {
    let mut attributes = Attributes::new()
        .put_u32(0, program.as_raw_fd() as u32)
        .put_u32(8, frame.len() as u32)
        .put_u64(16, frame.as_ptr() as u64);
    // SAFETY: the frame lives through the call, and the kernel gets its length. Without an output
    // buffer, the kernel writes no frame back.
    checked(unsafe { attributes.call(command::PROG_TEST_RUN) })?;
    // The return code is the field after the program's descriptor.
    let [_, _, _, _, a, b, c, d] = attributes.0[0].to_ne_bytes();
    Ok(u32::from_ne_bytes([a, b, c, d]))
}

/// The name of a loaded program.
pub(crate) fn program_name(id: u32) -> io::Result<String> {
    let mut by_id = Attributes::new().put_u32(0, id);
    // SAFETY: no pointers.
    let program = owned(unsafe { by_id.call(command::PROG_GET_FD_BY_ID) })?;
    // The buffer ends with the name, so the kernel fills in the info up to it.
    let mut info = [0_u8; INFO_NAME + 16];
    let mut attributes = Attributes::new()
        .put_u32(0, program.as_raw_fd() as u32)
        .put_u32(4, info.len() as u32)
        .put_u64(8, info.as_mut_ptr() as u64);
    // SAFETY: the kernel writes at most `info.len()` bytes to `info`. It writes nothing elsewhere,
    // because the lengths of the other buffers, which are in `info`, are zero.
    checked(unsafe { attributes.call(command::OBJ_GET_INFO_BY_FD) })?;
    let name = &info[INFO_NAME..];
    let end = name
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(name.len());
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}
