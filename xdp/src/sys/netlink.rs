//! Sends single netlink requests to the kernel, and returns the answers.

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
    checked_link(exchange(libc::NETLINK_ROUTE, libc::RTM_GETLINK, &request)?)
}

fn checked_link(answer: Vec<u8>) -> io::Result<Vec<u8>> {
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
    let described = exchange_generic(
        CONTROLLER,
        CTRL_CMD_GETFAMILY,
        &attribute(CTRL_ATTR_FAMILY_NAME, &name),
    )?;
    exchange_generic(family_number(&described)?, command, attributes)
}

/// The number of a family in the controller's description of it.
fn family_number(described: &[u8]) -> io::Result<u16> {
    let number = find(described, CTRL_ATTR_FAMILY_ID).and_then(|id| id.first_chunk().copied());
    Ok(u16::from_ne_bytes(
        number.ok_or(io::ErrorKind::InvalidData)?,
    ))
}

fn exchange_generic(family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let mut request = vec![command, 1, 0, 0];
    request.extend(attributes);
    attributes_of(exchange(libc::NETLINK_GENERIC, family, &request)?)
}

fn attributes_of(mut answer: Vec<u8>) -> io::Result<Vec<u8>> {
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
        let len = receive(&socket, &mut buffer)?;
        if let Some(result) = pass_messages(&buffer[..len], &mut each) {
            return result;
        }
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Passes each message of a datagram to `each`. Returns the result of the dump if the datagram ends
/// it.
fn pass_messages(mut messages: &[u8], each: &mut impl FnMut(&[u8])) -> Option<io::Result<()>> {
    while let Some(message) = first_message(messages) {
        match kind_of(message).map(libc::c_int::from) {
            Some(libc::NLMSG_DONE) => return Some(Ok(())),
            Some(libc::NLMSG_ERROR) => return Some(Err(error_in(message))),
            _ => each(message),
        }
        let next = message.len().next_multiple_of(4);
        messages = messages.get(next..).unwrap_or_default();
    }
    None
}

/// The first of several messages, if it is complete.
fn first_message(messages: &[u8]) -> Option<&[u8]> {
    let len = u32::from_ne_bytes(*messages.first_chunk()?) as usize;
    messages.get(..len).filter(|_| len >= HEADER)
}

/// Sends a request, and returns the first message of the answer, including its header.
fn exchange(protocol: libc::c_int, kind: u16, request: &[u8]) -> io::Result<Vec<u8>> {
    let socket = socket(protocol)?;
    send(&socket, kind, libc::NLM_F_REQUEST, request)?;
    let mut answer = vec![0_u8; 1 << 15];
    let len = receive(&socket, &mut answer)?;
    first_answer(&answer[..len])
}

/// The first message of a datagram, which answers a request. Another message, such as an
/// acknowledgement, may follow.
fn first_answer(datagram: &[u8]) -> io::Result<Vec<u8>> {
    let message = first_message(datagram).ok_or(io::ErrorKind::InvalidData)?;
    match kind_of(message).map(libc::c_int::from) {
        Some(libc::NLMSG_ERROR) => Err(error_in(message)),
        _ => Ok(message.to_vec()),
    }
}

/// What each kind of request makes of a datagram, for a kernel that lies.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_as_any_answer(datagram: &[u8], mut each: impl FnMut(&[u8])) {
    let _ = pass_messages(datagram, &mut each);
    let Ok(answer) = first_answer(datagram) else {
        return;
    };
    if let Ok(link) = checked_link(answer.clone()) {
        each(&link);
    }
    if let Ok(attributes) = attributes_of(answer) {
        let _ = family_number(&attributes);
        each(&attributes);
    }
}

fn error_in(message: &[u8]) -> io::Error {
    let code = message.get(16..20).and_then(|code| code.first_chunk());
    let code = code.map_or(0, |&code| i32::from_ne_bytes(code));
    io::Error::from_raw_os_error(code.saturating_neg())
}

fn send(socket: &OwnedFd, kind: u16, flags: libc::c_int, request: &[u8]) -> io::Result<()> {
    let mut message = vec![0; HEADER];
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(flags as u16).to_ne_bytes());
    message.extend(request);
    let len = message.len() as u32;
    message[0..4].copy_from_slice(&len.to_ne_bytes());
    let (at, len) = (message.as_ptr().cast(), message.len());
    // SAFETY: `at` points to `len` bytes. Without an address, the message goes to the kernel.
    let sent = unsafe { libc::send(socket.as_raw_fd(), at, len, 0) };
    checked(sent as libc::c_long).map(drop)
}

/// Reads a datagram into the buffer. Returns its length, or the buffer's if the datagram is longer.
fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (at, len) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the kernel writes at most `len` bytes.
    let received = unsafe { libc::recv(socket.as_raw_fd(), at, len, 0) };
    Ok(checked(received as libc::c_long)? as usize)
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
    fn invalid_attributes_end_the_search() {
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
