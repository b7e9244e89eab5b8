//! The names by which processes find each other.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use roce_stack::QpnPart;
use socket2::{Domain, SockAddr, Socket, Type};

/// All names begin so. Who changes what they mean, or what is said over them, changes this.
const PREFIX: &str = "roce-share-1";

/// A part of an interface's QPNs.
pub(super) fn part_of_interface(index: u32, part: QpnPart) -> String {
    format!("{PREFIX}/interface/{index}/part/{}", part.number())
}

/// An address whose port 4791 is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) address: IpAddr,
    /// The interface, if the address is one that several interfaces may have.
    scope: u32,
}

impl Place {
    pub(super) fn new(address: IpAddr, interface: u32) -> Self {
        let is_scoped = matches!(address, IpAddr::V6(v6) if Ipv6Addr::is_unicast_link_local(&v6));
        Self {
            address,
            scope: if is_scoped { interface } else { 0 },
        }
    }

    /// The name of whoever has the socket of `part`.
    pub(super) fn member(&self, part: QpnPart) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/part/{}", part.number())
    }

    /// The name of whoever changes the group.
    pub(super) fn lock(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/lock")
    }
}

/// Takes the name, so that others can connect to it.
pub(super) fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Takes the name, and nothing more.
pub(super) fn hold(name: &str) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(format!("\0{name}"))?)?;
    Ok(socket.into())
}

/// Connects to whoever listens at the name.
pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}
