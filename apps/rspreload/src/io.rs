//! Sends and receives on a connection over RDMA.

use crate::clock::Until;
use crate::errno::{Errno, Outcome, check_size};
use crate::socket::{Phase, Socket};
use crate::{connect, epoll, poll_set, rdmacm, signals};
use libc::{iovec, off_t, pollfd};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Maximum number of buffers per call.
const MAX_BUFFERS: usize = libc::UIO_MAXIOV as usize;

/// Maximum number of bytes that one call discards.
const MAX_DISCARDED: usize = 1 << 16;

/// Receives into buffers. Returns 0 at the end of the stream.
///
/// # Safety
/// The buffers can be written to.
pub(crate) unsafe fn receive(socket: &Arc<Socket>, to: &[iovec], flags: c_int) -> Outcome<usize> {
    if flags & libc::MSG_ERRQUEUE != 0 {
        return Err(Errno(libc::EAGAIN));
    }
    if flags & libc::MSG_OOB != 0 {
        return Err(Errno(libc::EINVAL));
    }
    if flags & libc::MSG_TRUNC != 0 {
        let wanted: usize = to
            .iter()
            .map(|buffer| buffer.iov_len.min(MAX_DISCARDED))
            .sum();
        // The program discards bytes and may pass no buffer for them.
        let mut room = vec![0_u8; wanted.min(MAX_DISCARDED)];
        let room = buffer(room.as_mut_ptr().cast(), room.len());
        // SAFETY: there is room for this many bytes.
        return unsafe { receive(socket, &room, flags & !libc::MSG_TRUNC) };
    }
    let wanted = total(to)?;
    let waits = !socket.is_nonblocking() && flags & libc::MSG_DONTWAIT == 0;
    let is_peek = flags & libc::MSG_PEEK != 0;
    let all = flags & libc::MSG_WAITALL != 0 && !is_peek;
    let until = Until::after_limit(socket.receive_limit());
    let mut received = 0;
    while received < wanted {
        // SAFETY: the caller promises the buffers.
        match unsafe { receive_now(socket, to, received, flags) } {
            Ok(0) => break,
            Ok(count) => received += count,
            Err(error) if !error.is_again() => return bytes_or(received, error),
            Err(error) if !waits || received > 0 && !all => return bytes_or(received, error),
            Err(_) => {
                if let Err(error) = wait(socket, libc::POLLIN, until) {
                    return bytes_or(received, error);
                }
                continue;
            }
        }
        if !all {
            break;
        }
    }
    Ok(received)
}

/// Returns the bytes transferred so far, or the error if there are none.
fn bytes_or(count: usize, error: Errno) -> Outcome<usize> {
    if count > 0 { Ok(count) } else { Err(error) }
}

/// Receives without blocking, past the first `skip` bytes of the buffers.
///
/// # Safety
/// The buffers can be written to.
unsafe fn receive_now(
    socket: &Arc<Socket>,
    to: &[iovec],
    skip: usize,
    flags: c_int,
) -> Outcome<usize> {
    let rs = connected_rsocket(socket)?;
    // SAFETY: the caller promises the buffers.
    let received = unsafe { receive_from(rs, to, skip, flags) };
    epoll::count_call(socket, &socket.reads);
    received
}

/// # Safety
/// The buffers can be written to.
unsafe fn receive_from(rs: c_int, to: &[iovec], skip: usize, flags: c_int) -> Outcome<usize> {
    let mut received = 0;
    for buffer in skip_bytes(to, skip) {
        // SAFETY: the caller promises the buffer.
        let result =
            unsafe { rdmacm::receive(rs, buffer.iov_base, buffer.iov_len, flags & libc::MSG_PEEK) };
        match result {
            Ok(count) => received += count,
            Err(error) => return bytes_or(received, error),
        }
        // A peek would see the same bytes in the next buffer.
        if result != Ok(buffer.iov_len) || flags & libc::MSG_PEEK != 0 {
            break;
        }
    }
    Ok(received)
}

/// Sends the buffers: all of them if the call may block, otherwise as much as fits.
///
/// # Safety
/// The buffers can be read.
pub(crate) unsafe fn send(socket: &Arc<Socket>, from: &[iovec], flags: c_int) -> Outcome<usize> {
    if flags & libc::MSG_OOB != 0 {
        return Err(Errno(libc::EOPNOTSUPP));
    }
    let size = total(from)?;
    let waits = !socket.is_nonblocking() && flags & libc::MSG_DONTWAIT == 0;
    let until = Until::after_limit(socket.send_limit());
    let mut sent = 0;
    while sent < size {
        // SAFETY: the caller promises the buffers.
        match unsafe { send_now(socket, from, sent) } {
            Ok(count) => sent += count,
            Err(error) if !error.is_again() => {
                return bytes_or(sent, handle_broken(error, flags, sent));
            }
            Err(error) => {
                epoll::count_call(socket, &socket.full);
                if !waits {
                    return bytes_or(sent, error);
                }
                if let Err(error) = wait(socket, libc::POLLOUT, until) {
                    return bytes_or(sent, error);
                }
            }
        }
        if sent < size && !waits {
            epoll::count_call(socket, &socket.full);
            break;
        }
    }
    Ok(sent)
}

/// # Safety
/// The buffers can be read.
unsafe fn send_now(socket: &Arc<Socket>, from: &[iovec], skip: usize) -> Outcome<usize> {
    if socket.is_send_shut.load(Ordering::Acquire) {
        return Err(Errno(libc::EPIPE));
    }
    let rs = connected_rsocket(socket)?;
    let left: Vec<iovec>;
    let from = match from {
        [one] if skip == 0 => std::slice::from_ref(one),
        _ => {
            left = skip_bytes(from, skip).collect();
            &left
        }
    };
    // SAFETY: the caller promises the buffers.
    unsafe {
        match from {
            [one] => rdmacm::send(rs, one.iov_base, one.iov_len),
            _ => rdmacm::send_vectored(rs, from),
        }
    }
}

/// Maps the errors of a closed connection to `EPIPE` and raises `SIGPIPE`. rsockets do not distinguish
/// a peer that closed the connection from one that was lost.
fn handle_broken(error: Errno, flags: c_int, sent: usize) -> Errno {
    if !matches!(error.0, libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN) {
        return error;
    }
    if flags & libc::MSG_NOSIGNAL == 0 && sent == 0 {
        signals::raise_sigpipe();
    }
    Errno(libc::EPIPE)
}

/// The rsocket, once it is connected.
fn connected_rsocket(socket: &Arc<Socket>) -> Outcome<c_int> {
    connect::progress(socket);
    match socket.phase() {
        Phase::Connected => Ok(socket.rs()),
        Phase::Connecting => Err(Errno(libc::EAGAIN)),
        _ => Err(Errno(libc::ENOTCONN)),
    }
}

/// Waits until the connection is ready. Fails with `EAGAIN` when `until` has passed.
pub(crate) fn wait(socket: &Arc<Socket>, events: i16, until: Until) -> Outcome<()> {
    let (events, attempt) = match connect::attempt_until(socket) {
        Some(attempt) => (libc::POLLOUT, attempt),
        None => (events, Until::NEVER),
    };
    let mut fds = [poll_set::entry(socket.rs(), events)];
    wait_for_any(&mut fds, until, attempt)
}

/// Waits for one of `fds`, but no longer than `attempt`. Fails with `EAGAIN` when `until` has passed.
pub(crate) fn wait_for_any(fds: &mut [pollfd], until: Until, attempt: Until) -> Outcome<()> {
    match rdmacm::poll(fds, until.min(attempt).left_milliseconds()) {
        Ok(0) if until.is_over() => Err(Errno(libc::EAGAIN)),
        Err(Errno(libc::EINTR)) if signals::should_restart(until) => Ok(()),
        result => result.map(drop),
    }
}

/// Iterates over the buffers past the first `skip` bytes.
fn skip_bytes(of: &[iovec], mut skip: usize) -> impl Iterator<Item = iovec> {
    of.iter().filter_map(move |buffer| {
        let skipped = skip.min(buffer.iov_len);
        skip -= skipped;
        let left = iovec {
            iov_base: buffer.iov_base.wrapping_byte_add(skipped),
            iov_len: buffer.iov_len - skipped,
        };
        (left.iov_len > 0).then_some(left)
    })
}

/// The total size of the buffers.
pub(crate) fn total(of: &[iovec]) -> Outcome<usize> {
    let invalid = Errno(libc::EINVAL);
    let is_nowhere = |buffer: &iovec| buffer.iov_base.is_null() && buffer.iov_len > 0;
    if of.iter().any(is_nowhere) {
        return Err(Errno(libc::EFAULT));
    }
    let add = |sum: usize, buffer: &iovec| sum.checked_add(buffer.iov_len);
    let total = of.iter().try_fold(0, add).ok_or(invalid)?;
    if total > isize::MAX as usize {
        return Err(invalid);
    }
    Ok(total)
}

/// A list of one buffer.
pub(crate) fn buffer(start: *const c_void, size: usize) -> [iovec; 1] {
    [iovec {
        iov_base: start.cast_mut(),
        iov_len: size,
    }]
}

/// The buffers that a program passed.
///
/// # Safety
/// There are `count` of them.
pub(crate) unsafe fn buffers<'a>(of: *const iovec, count: usize) -> Outcome<&'a [iovec]> {
    match count {
        0 => Ok(&[]),
        _ if count > MAX_BUFFERS => Err(Errno(libc::EINVAL)),
        _ if of.is_null() => Err(Errno(libc::EFAULT)),
        // SAFETY: the caller promises them.
        _ => Ok(unsafe { std::slice::from_raw_parts(of, count) }),
    }
}

/// The number of bytes that can be received without blocking: `FIONREAD`.
pub(crate) fn readable(socket: &Arc<Socket>) -> Outcome<usize> {
    let mut room = vec![0_u8; 1 << 16];
    let Ok(rs) = connected_rsocket(socket) else {
        return Ok(0);
    };
    // SAFETY: there is room for this many bytes.
    match unsafe { rdmacm::receive(rs, room.as_mut_ptr().cast(), room.len(), libc::MSG_PEEK) } {
        Err(error) if !error.is_again() => Err(error),
        result => Ok(result.unwrap_or(0)),
    }
}

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
        match unsafe { send(socket, &buffer(chunk.as_ptr().cast(), read), 0) } {
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
