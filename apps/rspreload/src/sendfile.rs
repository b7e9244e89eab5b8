//! `sendfile` to a connection over RDMA.

use crate::errno::{Errno, Outcome, check_size};
use crate::io;
use crate::socket::Socket;
use libc::off_t;
use std::ffi::c_int;
use std::sync::Arc;

/// Bytes per read.
const CHUNK: usize = 1 << 18;

/// The kernel's limit on the bytes that one call sends.
const MAX_SIZE: usize = 0x7fff_f000;

/// Sends `size` bytes of a file, from `offset`, or from the file's position if that is NULL.
///
/// # Safety
/// The offset is NULL or can be read and written.
pub(crate) unsafe fn sendfile(
    socket: &Arc<Socket>,
    from: c_int,
    offset: *mut off_t,
    size: usize,
) -> Outcome<isize> {
    let size = size.min(MAX_SIZE);
    let mut chunk = vec![0_u8; size.min(CHUNK)];
    let start = if offset.is_null() {
        position(from)?
    } else {
        // SAFETY: the caller promises the offset.
        unsafe { offset.read() }
    };
    let mut sent = 0;
    while sent < size {
        let wanted = (size - sent).min(CHUNK);
        let at = start + sent as off_t;
        // SAFETY: there is room for this many bytes.
        let read = unsafe { libc::pread(from, chunk.as_mut_ptr().cast(), wanted, at) };
        let read = match check_size(read) {
            Ok(0) => break,
            Ok(read) => read.cast_unsigned(),
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        };
        // SAFETY: the bytes can be read.
        match unsafe { io::send(socket, &io::buffer(chunk.as_ptr().cast(), read), 0) } {
            Ok(count) => {
                sent += count;
                if count < read {
                    break;
                }
            }
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
    }
    let end = start + sent as off_t;
    if offset.is_null() {
        // SAFETY: only numbers are passed.
        unsafe { libc::lseek(from, end, libc::SEEK_SET) };
    } else {
        // SAFETY: the caller promises the offset.
        unsafe { offset.write(end) };
    }
    Ok(sent.cast_signed())
}

/// The file's position. Fails with `EINVAL` if the file cannot seek.
fn position(fd: c_int) -> Outcome<off_t> {
    // SAFETY: only numbers are passed.
    let position = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) };
    if position < 0 {
        Err(Errno(libc::EINVAL))
    } else {
        Ok(position)
    }
}
