//! Recognises the paths of generated files, and maps them to the real ones.

use crate::errno::keeping_errno;
use crate::root;
use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;

/// The classes of RDMA in `/sys/class`.
const CLASSES: [&[u8]; 5] = [
    b"infiniband",
    b"infiniband_cm",
    b"infiniband_mad",
    b"infiniband_srp",
    b"infiniband_verbs",
];

/// The device behind each name in `/dev/infiniband`.
const DEVICE: &CStr = c"/dev/full";

/// The longest path that the kernel accepts, including the terminating zero.
const PATH_BYTES: usize = libc::PATH_MAX as usize;

/// The real path of a generated file.
pub(crate) struct Place {
    path: Path,
    is_device: bool,
}

impl Place {
    /// The absolute path to open.
    pub(crate) fn as_ptr(&self) -> *const c_char {
        match self.is_device {
            true => DEVICE.as_ptr(),
            false => self.path.bytes.as_ptr().cast(),
        }
    }

    /// The path by which the program knows it, if it is a device: `as_bytes` without the folder in
    /// front.
    pub(crate) fn device(&self) -> Option<&Path> {
        self.is_device.then_some(&self.path)
    }
}

/// A zero-terminated path in a fixed buffer, without allocation.
pub(crate) struct Path {
    bytes: [MaybeUninit<u8>; PATH_BYTES],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Self {
            bytes: [MaybeUninit::uninit(); PATH_BYTES],
            length: 0,
        }
    }

    /// Appends bytes; `None` if there is no room.
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.length.checked_add(bytes.len())?;
        self.bytes.get_mut(end)?.write(0);
        let room = self.bytes.get_mut(self.length..end)?;
        for (to, from) in room.iter_mut().zip(bytes) {
            to.write(*from);
        }
        self.length = end;
        Some(())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the first `length` bytes were written.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }
}

/// Whether a path starts with a prefix that may lead to generated files.
#[inline]
pub(crate) fn may_be_made_up(path: *const c_char) -> bool {
    // Not a valid pointer. The kernel reports that if the call gets there.
    if path.addr() < 4096 {
        return false;
    }
    // SAFETY: the caller of the C library's function promises a string. No byte is read
    // after one that differs, and a zero does.
    unsafe {
        let mut at = path.cast::<u8>();
        while *at == b'/' || (*at == b'.' && *at.add(1) == b'/') {
            at = at.add(1);
        }
        let begins = |name: &[u8]| (0..).zip(name).all(|(index, byte)| *at.add(index) == *byte);
        begins(b"sys") || begins(b"dev") || begins(b"class") || begins(b"infiniband")
    }
}

/// The real path for a path that [`may_be_made_up`]; `None` if it is not a generated file. A
/// relative path starts at the folder `at`.
pub(crate) fn find(at: c_int, path: *const c_char) -> Option<Place> {
    if !root::may_exist() {
        return None;
    }
    // SAFETY: it is a string, as in `may_be_made_up`.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.first() == Some(&b'/') {
        let (parts, rest) = made_up(path)?;
        return below(root::get_or_make()?, parts, rest);
    }
    find_relative(at, path)
}

/// Separate from [`find`], so that absolute paths need less stack.
#[inline(never)]
fn find_relative(at: c_int, path: &[u8]) -> Option<Place> {
    let mut absolute = Path::new();
    push_folder(at, &mut absolute)?;
    absolute.push(b"/")?;
    absolute.push(path)?;
    let (parts, rest) = made_up(absolute.as_bytes())?;
    below(root::get_or_make()?, parts, rest)
}

/// The real path of `rest` below a generated folder.
#[inline(never)]
fn below(root: &[u8], parts: [&[u8]; 3], rest: &[u8]) -> Option<Place> {
    let mut path = Path::new();
    path.push(root)?;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        path.push(b"/")?;
        path.push(part)?;
    }
    let name = match component(rest) {
        Some((name, b"")) if parts[0] == b"dev" => name,
        _ => {
            path.push(rest)?;
            return Some(Place {
                path,
                is_device: false,
            });
        }
    };
    path.push(b"/")?;
    path.push(name)?;
    let is_device = is_link(&path);
    Some(Place { path, is_device })
}

/// The generated folder that an absolute path leads into, and the rest of the path.
fn made_up(path: &[u8]) -> Option<([&[u8]; 3], &[u8])> {
    let (first, rest) = component(path)?;
    let (second, rest) = component(rest)?;
    match (first, second) {
        (b"sys", b"class") => {
            let (class, rest) = component(rest)?;
            CLASSES
                .contains(&class)
                .then_some(([first, second, class], rest))
        }
        (b"dev", b"infiniband") => Some(([first, second, b""], rest)),
        _ => None,
    }
}

/// The first component of a path, and the rest.
fn component(mut path: &[u8]) -> Option<(&[u8], &[u8])> {
    loop {
        while let Some(rest) = path.strip_prefix(b"/") {
            path = rest;
        }
        let end = path.iter().position(|byte| *byte == b'/');
        let (name, rest) = path.split_at(end.unwrap_or(path.len()));
        match name {
            b"" => return None,
            b"." => path = rest,
            _ => return Some((name, rest)),
        }
    }
}

/// Whether `path` is a symbolic link.
fn is_link(path: &Path) -> bool {
    let mut byte = 0_u8;
    keeping_errno(|| {
        // SAFETY: the path is a string, and there is room for one byte.
        let found = unsafe {
            libc::syscall(
                libc::SYS_readlinkat,
                libc::AT_FDCWD,
                path.bytes.as_ptr(),
                &raw mut byte,
                1_usize,
            )
        };
        found > 0
    })
}

/// Appends the path of an open folder, or of the current one.
fn push_folder(at: c_int, to: &mut Path) -> Option<()> {
    let mut found = [0_u8; PATH_BYTES];
    let length = keeping_errno(|| match at {
        libc::AT_FDCWD => {
            // SAFETY: there is room for this many bytes. The system call does not go through
            // this library's own getcwd.
            let length =
                unsafe { libc::syscall(libc::SYS_getcwd, found.as_mut_ptr(), found.len()) };
            // Without the terminating zero.
            usize::try_from(length).ok()?.checked_sub(1)
        }
        _ => {
            let link = Link::of(at)?;
            // SAFETY: the path is a string, and there is room for this many bytes.
            let length = unsafe {
                libc::syscall(
                    libc::SYS_readlinkat,
                    libc::AT_FDCWD,
                    link.0.as_ptr(),
                    found.as_mut_ptr(),
                    found.len(),
                )
            };
            usize::try_from(length).ok()
        }
    })?;
    to.push(found.get(..length)?)
}

/// The path of a descriptor's link in `/proc`.
struct Link([u8; 32]);

impl Link {
    fn of(descriptor: c_int) -> Option<Self> {
        let mut text = [0; 32];
        let (front, digits) = text.split_at_mut(b"/proc/self/fd/".len());
        front.copy_from_slice(b"/proc/self/fd/");
        let mut number = u32::try_from(descriptor).ok()?;
        let mut count = 1;
        while u64::from(number) >= 10_u64.pow(count) {
            count += 1;
        }
        for digit in digits.get_mut(..count as usize)?.iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Some(Self(text))
    }
}

#[cfg(test)]
mod tests;
