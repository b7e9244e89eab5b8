//! Sends single netlink requests to the kernel, and returns the answers.

use roce_trust::netlink::{HEADER_BYTES, Netlink, kind_of};
use std::io;

pub(crate) use roce_trust::netlink::{LINK_HEADERS, attribute, find};

/// The header, then `struct rtmsg`.
pub(crate) const ROUTE_HEADERS: usize = HEADER_BYTES + 12;
/// The header, then `struct genlmsghdr`.
pub(crate) const GENERIC_HEADERS: usize = HEADER_BYTES + 4;

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

/// Requests all rtnetlink objects of a kind, and passes each message to `each`, including its
/// header.
///
/// # Errors
/// If the kernel does not answer.
pub(crate) fn dump(kind: u16, request: &[u8], each: impl FnMut(&[u8])) -> io::Result<()> {
    Netlink::open(libc::NETLINK_ROUTE)?.dump(kind, request, each)
}

fn exchange(protocol: libc::c_int, kind: u16, request: &[u8]) -> io::Result<Vec<u8>> {
    Netlink::open(protocol)?.exchange(kind, request)
}

/// What each kind of request makes of a datagram, for a kernel that lies.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_as_any_answer(datagram: &[u8], mut each: impl FnMut(&[u8])) {
    let _ = roce_trust::netlink::pass_messages(datagram, &mut each);
    let Ok(answer) = roce_trust::netlink::first_answer(datagram) else {
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
