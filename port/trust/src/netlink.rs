//! Single requests by netlink(7), about links, addresses, routes and sockets.
//!
//! Whatever a datagram contains, reading it ends: with messages, or with an error.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The bytes of `struct nlmsghdr`, with which each message begins.
pub const HEADER_BYTES: usize = 16;

/// The kernel sends at most 32 KiB at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// The header, then `struct ifinfomsg`.
pub const LINK_HEADERS: usize = HEADER_BYTES + 16;
/// The header, then `struct ifaddrmsg`.
const ADDRESS_HEADERS: usize = HEADER_BYTES + 8;

/// A connection to the kernel.
#[derive(Debug)]
pub struct Netlink(OwnedFd);

impl Netlink {
    /// Connects to a part of the kernel, such as `NETLINK_ROUTE`, in the calling thread's network
    /// namespace.
    ///
    /// # Errors
    /// If the kernel lacks this part, or the process has no descriptor left.
    pub fn open(protocol: libc::c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: the call takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sends a request, and returns the first message of the answer, including its header. `request`
    /// is what follows the header.
    ///
    /// # Errors
    /// If the kernel refuses the request, or its answer is no message.
    pub fn exchange(&self, kind: u16, request: &[u8]) -> io::Result<Vec<u8>> {
        self.send(kind, libc::NLM_F_REQUEST, request)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let len = self.receive(&mut buffer)?;
        first_answer(&buffer[..len])
    }

    /// Requests a change, with `flags` besides those that ask for an acknowledgement, and waits for it.
    ///
    /// # Errors
    /// If the kernel refuses the change, or its answer is no message.
    pub fn change(&self, kind: u16, flags: libc::c_int, request: &[u8]) -> io::Result<()> {
        self.send(kind, libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags, request)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let len = self.receive(&mut buffer)?;
        let message = first_message(&buffer[..len]).ok_or(io::ErrorKind::InvalidData)?;
        let kind = kind_of(message).map(libc::c_int::from);
        match u32_at(message, HEADER_BYTES) {
            Some(0) if kind == Some(libc::NLMSG_ERROR) => Ok(()),
            Some(_) if kind == Some(libc::NLMSG_ERROR) => Err(error_in(message)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Requests all objects of a kind, and passes each message to `each`, including its header.
    ///
    /// # Errors
    /// If the kernel refuses the request, or its answer is no series of messages.
    pub fn dump(&self, kind: u16, request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.send(kind, libc::NLM_F_REQUEST | libc::NLM_F_DUMP, request)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let len = self.receive(&mut buffer)?;
            if let Some(result) = pass_messages(&buffer[..len], &mut each) {
                return result;
            }
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn send(&self, kind: u16, flags: libc::c_int, request: &[u8]) -> io::Result<()> {
        let len = HEADER_BYTES + request.len();
        let mut message = Vec::with_capacity(len);
        message.extend((len as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend((flags as u16).to_ne_bytes());
        // Sequence number and port.
        message.extend([0; 8]);
        message.extend(request);
        let (fd, at) = (self.0.as_raw_fd(), message.as_ptr().cast());
        // SAFETY: `at` points to `len` bytes. Without an address, the message goes to the kernel.
        let sent = unsafe { libc::send(fd, at, len, 0) };
        usize::try_from(sent)
            .map(drop)
            .map_err(|_| io::Error::last_os_error())
    }

    /// Reads a datagram, which the kernel has ready. Returns its length.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (at, len) = (buffer.as_mut_ptr().cast(), buffer.len());
        // SAFETY: the kernel writes at most `len` bytes.
        let received = unsafe { libc::recv(self.0.as_raw_fd(), at, len, libc::MSG_DONTWAIT) };
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// `IFF_UP` and the other flags.
    pub flags: u32,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

impl Link {
    /// Whether it has one of these flags, such as `libc::IFF_UP`.
    pub fn has(&self, flag: libc::c_int) -> bool {
        self.flags & flag.cast_unsigned() != 0
    }
}

/// The interfaces of the calling thread's network namespace, with their addresses.
///
/// # Errors
/// If the kernel does not answer, or the process has no descriptor left.
pub fn links() -> io::Result<Vec<Link>> {
    let kernel = Netlink::open(libc::NETLINK_ROUTE)?;
    let mut links = Vec::new();
    kernel.dump(libc::RTM_GETLINK, &[0; 16], |message| {
        links.extend(link(message));
    })?;
    kernel.dump(libc::RTM_GETADDR, &[0; 8], |message| {
        if let Some((index, address)) = address(message) {
            let of_index = links.iter_mut().find(|link| link.index == index);
            of_index
                .into_iter()
                .for_each(|link| link.addresses.push(address));
        }
    })?;
    Ok(links)
}

/// The interface that a message describes.
fn link(message: &[u8]) -> Option<Link> {
    if kind_of(message)? != libc::RTM_NEWLINK {
        return None;
    }
    let attributes = message.get(LINK_HEADERS..)?;
    let name = find(attributes, libc::IFLA_IFNAME)?;
    let mac = find(attributes, libc::IFLA_ADDRESS);
    Some(Link {
        index: u32_at(message, HEADER_BYTES + 4)?,
        name: str::from_utf8(name).ok()?.trim_end_matches('\0').to_owned(),
        mac: mac.and_then(|mac| mac.try_into().ok()),
        mtu: u32_at(find(attributes, libc::IFLA_MTU)?, 0)?,
        flags: u32_at(message, HEADER_BYTES + 8)?,
        addresses: Vec::new(),
    })
}

/// The address that a message describes, and the index of its interface.
fn address(message: &[u8]) -> Option<(u32, IpAddr)> {
    if kind_of(message)? != libc::RTM_NEWADDR {
        return None;
    }
    let attributes = message.get(ADDRESS_HEADERS..)?;
    // Of a link between two hosts, IFA_ADDRESS is the other end.
    let address =
        find(attributes, libc::IFA_LOCAL).or_else(|| find(attributes, libc::IFA_ADDRESS))?;
    let address = match address.len() {
        4 => IpAddr::from(*address.first_chunk::<4>()?),
        16 => IpAddr::from(*address.first_chunk::<16>()?),
        _ => return None,
    };
    Some((u32_at(message, HEADER_BYTES + 4)?, address))
}

/// Passes each message of a datagram to `each`. Returns the result of the dump if the datagram ends
/// it.
pub fn pass_messages(mut messages: &[u8], each: &mut impl FnMut(&[u8])) -> Option<io::Result<()>> {
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

/// The first message of a datagram, which answers a request. Another message, such as an
/// acknowledgement, may follow.
///
/// # Errors
/// If the kernel refuses the request, or the datagram has no message.
pub fn first_answer(datagram: &[u8]) -> io::Result<Vec<u8>> {
    let message = first_message(datagram).ok_or(io::ErrorKind::InvalidData)?;
    match kind_of(message).map(libc::c_int::from) {
        Some(libc::NLMSG_ERROR) => Err(error_in(message)),
        _ => Ok(message.to_vec()),
    }
}

/// The first of several messages, if it is complete.
fn first_message(messages: &[u8]) -> Option<&[u8]> {
    let len = u32_at(messages, 0)? as usize;
    messages.get(..len).filter(|_| len >= HEADER_BYTES)
}

fn error_in(message: &[u8]) -> io::Error {
    let code = u32_at(message, HEADER_BYTES)
        .unwrap_or_default()
        .cast_signed();
    io::Error::from_raw_os_error(code.saturating_neg())
}

/// The type of a message.
pub fn kind_of(message: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(*message.get(4..)?.first_chunk()?))
}

/// An attribute in wire format.
pub fn attribute(kind: u16, contents: &[u8]) -> Vec<u8> {
    let mut bytes = (contents.len() as u16 + 4).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(contents);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The contents of the first attribute of this kind.
pub fn find(mut attributes: &[u8], kind: u16) -> Option<&[u8]> {
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

/// The 32-bit number at this offset.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// The kernel names the same interfaces, flags and addresses by getifaddrs(3).
    #[test]
    fn links_are_those_of_the_c_library() {
        let links = links().expect("Linux");
        let loopback = links.iter().find(|link| link.name == "lo").expect("lo");
        assert!(loopback.has(libc::IFF_LOOPBACK), "{loopback:?}");
        assert_eq!(loopback.mac, Some([0; 6]));
        assert!(loopback.mtu >= 1280, "{loopback:?}");
        for link in &links {
            let name = std::ffi::CString::new(link.name.as_str()).expect("a name");
            // SAFETY: the string ends with a zero byte.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            assert_eq!(index, link.index, "{link:?}");
        }
        if loopback.has(libc::IFF_UP) {
            let own = IpAddr::from([127, 0, 0, 1]);
            assert!(loopback.addresses.contains(&own), "{loopback:?}");
        }
    }

    /// Whatever the bytes are, reading them ends.
    #[test]
    fn damaged_links_and_addresses_are_left_out() {
        let mut message = vec![0; LINK_HEADERS];
        message[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        message[HEADER_BYTES + 4] = 7;
        message.extend(attribute(libc::IFLA_IFNAME, b"v0\0"));
        message.extend(attribute(libc::IFLA_MTU, &9000_u32.to_ne_bytes()));
        let found = link(&message).expect("a link");
        assert_eq!(
            (found.index, found.name.as_str(), found.mtu),
            (7, "v0", 9000)
        );
        for at in 0..message.len() {
            for bit in 0..8 {
                let mut damaged = message.clone();
                damaged[at] ^= 1 << bit;
                for message in [&damaged[..], &damaged[..at]] {
                    let _ = (link(message), address(message));
                    let _ = pass_messages(message, &mut |_| {});
                }
            }
        }
    }
}
