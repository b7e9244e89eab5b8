//! One netlink request to the kernel, and its answer.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{checked, owned};

/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// The header, then `struct ifinfomsg`.
pub(crate) const LINK_HEADERS: usize = HEADER + 16;
/// The header, then `struct rtmsg`.
pub(crate) const ROUTE_HEADERS: usize = HEADER + 12;
/// The header, then `struct genlmsghdr`.
pub(crate) const GENERIC_HEADERS: usize = HEADER + 4;

/// The message type of generic netlink's controller, which resolves families.
const CONTROLLER: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;

/// The kernel's answer about an interface (`RTM_NEWLINK`).
///
/// # Errors
/// If the kernel does not answer, for instance because there is no such interface.
pub(crate) fn link(index: u32) -> io::Result<Vec<u8>> {
    let mut request = [0; 16];
    request[4..8].copy_from_slice(&index.to_ne_bytes());
    let answer = ask(libc::NETLINK_ROUTE, libc::RTM_GETLINK, &request)?;
    match kind_of(&answer) {
        Some(libc::RTM_NEWLINK) => Ok(answer),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The answer to a command of a generic family, starting at its attributes.
///
/// # Errors
/// If this kernel lacks the family, or refuses.
pub(crate) fn generic(family: &str, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut name = family.as_bytes().to_vec();
    name.push(0);
    let described = ask_generic(
        CONTROLLER,
        CTRL_CMD_GETFAMILY,
        &attribute(CTRL_ATTR_FAMILY_NAME, &name),
    )?;
    let number = find(&described, CTRL_ATTR_FAMILY_ID).and_then(|id| id.first_chunk().copied());
    let number = number.ok_or(io::ErrorKind::InvalidData)?;
    ask_generic(u16::from_ne_bytes(number), command, attributes)
}

fn ask_generic(family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = vec![command, 1, 0, 0];
    request.extend(attributes);
    let mut answer = ask(libc::NETLINK_GENERIC, family, &request)?;
    if answer.len() < GENERIC_HEADERS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(answer.split_off(GENERIC_HEADERS))
}

/// An attribute in wire format.
pub(crate) fn attribute(kind: u16, contents: &[u8]) -> Vec<u8> {
    let mut bytes = (contents.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(contents);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The contents of the first attribute of this kind.
pub(crate) fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let &[a, b, c, d] = attributes.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([a, b]));
        let contents = attributes.get(4..len)?;
        // The two high bits are flags.
        if u16::from_ne_bytes([c, d]) & 0x3fff == kind {
            return Some(contents);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}

/// Requests all rtnetlink objects of a kind, and passes each message to `each`, including its
/// header.
///
/// # Errors
/// If the kernel does not answer.
pub(crate) fn dump(kind: u16, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let socket = socket(libc::NETLINK_ROUTE)?;
    send(
        &socket,
        kind,
        libc::NLM_F_REQUEST | libc::NLM_F_DUMP,
        request,
    )?;
    let mut buffer = vec![0_u8; 1 << 15];
    loop {
        let got = receive(&socket, &mut buffer)?;
        let mut messages = &buffer[..got];
        while let Some(message) = first_message(messages) {
            match kind_of(message).map(libc::c_int::from) {
                Some(libc::NLMSG_DONE) => return Ok(()),
                Some(libc::NLMSG_ERROR) => return Err(error_in(message)),
                _ => each(message),
            }
            let next = message.len().next_multiple_of(4);
            messages = messages.get(next..).unwrap_or_default();
        }
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The first of several messages, if it is complete.
fn first_message(messages: &[u8]) -> Option<&[u8]> {
    let len = u32::from_ne_bytes(*messages.first_chunk()?) as usize;
    messages.get(..len).filter(|_| len >= HEADER)
}

/// Sends a request, and returns the first message of the answer, including its header.
fn ask(protocol: libc::c_int, kind: u16, request: &[u8]) -> io::Result<Vec<u8>> {
    let socket = socket(protocol)?;
    send(&socket, kind, libc::NLM_F_REQUEST, request)?;
    let mut answer = vec![0_u8; 1 << 15];
    let got = receive(&socket, &mut answer)?;
    // Another message, such as an acknowledgement, may follow in the same datagram.
    let message = first_message(&answer[..got]).ok_or(io::ErrorKind::InvalidData)?;
    match kind_of(message).map(libc::c_int::from) {
        Some(libc::NLMSG_ERROR) => Err(error_in(message)),
        _ => Ok(message.to_vec()),
    }
}

fn error_in(message: &[u8]) -> io::Error {
    let code = message.get(16..20).and_then(|code| code.first_chunk());
    let code = code.map_or(0, |&code| i32::from_ne_bytes(code));
    io::Error::from_raw_os_error(code.saturating_neg())
}

fn send(socket: &OwnedFd, kind: u16, flags: libc::c_int, request: &[u8]) -> io::Result<()> {
    let mut question = vec![0; HEADER];
    question[4..6].copy_from_slice(&kind.to_ne_bytes());
    question[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
    question.extend(request);
    let len = question.len() as u32;
    question[0..4].copy_from_slice(&len.to_ne_bytes());
    let (at, len) = (question.as_ptr().cast(), question.len());
    // SAFETY: `at` points to `len` bytes. Without an address, the message goes to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), at, len, 0) };
    checked(sent as libc::c_long).map(drop)
}

/// Reads a datagram into the buffer. Returns its length, or the buffer's if the datagram is longer.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (at, len) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the kernel writes at most `len` bytes.
    let got = unsafe { libc::recv(socket.as_raw_fd(), at, len, 0) };
    Ok(checked(got as libc::c_long)? as usize)
}

fn socket(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let result = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    owned(result.into())
}

fn kind_of(message: &[u8]) -> Option<u16> {
    let kind = message.get(4..6)?;
    Some(u16::from_ne_bytes([kind[0], kind[1]]))
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn attributes_that_make_no_sense_end_the_search() {
        assert_eq!(
            find(&[0, 0, 3, 0, 1, 2, 3, 4], 3),
            None,
            "shorter than its header"
        );
        assert_eq!(find(&[3, 0, 3, 0], 3), None);
        assert_eq!(
            find(&[9, 0, 3, 0, 1, 2, 3, 4], 3),
            None,
            "longer than what is there"
        );
        assert_eq!(find(&[], 3), None);
    }
}
