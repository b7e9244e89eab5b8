//! The names by which processes find each other.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use roce_stack::{Addresses, QpnRange};
use socket2::{Domain, SockAddr, Socket, Type};

/// The prefix of all names. Change it whenever the meaning of a name or the format of a message
/// changes.
pub(super) const PREFIX: &str = "roce-share-2";

/// A part of an interface's QPNs.
pub(super) fn part_of_interface(index: u32, part: QpnRange) -> String {
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

    /// The name of the member that has the socket of `part`.
    pub(super) fn member(&self, part: QpnRange) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/part/{}", part.number())
    }

    /// The prefix of the names of agents for management datagrams.
    pub(super) fn agents(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/agent/")
    }

    /// The name of the agent in `part`.
    pub(super) fn agent(&self, part: QpnRange) -> String {
        format!("{}{}", self.agents(), part.number())
    }

    /// The prefix of the names of processes that take requests for services.
    pub(super) fn services(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/service/")
    }

    /// The name of the process in `part` that takes requests for a service.
    pub(super) fn server(&self, service: u32, part: QpnRange) -> String {
        format!("{}{service:08x}/{}", self.services(), part.number())
    }

    /// The name of the process that changes the group.
    pub(super) fn lock(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/lock")
    }
}

/// The words that replace the address in the names of claims that cover several addresses.
const EVERYWHERE: [(Addresses, &str); 3] = [
    (Addresses::All, "everywhere"),
    (Addresses::V4, "everywhere-4"),
    (Addresses::V6, "everywhere-6"),
];

/// The name of the process that claims a service at these addresses, whether or not it takes
/// requests. The interface's index matters only for a link-local address.
pub(super) fn claim(addresses: Addresses, interface: u32, service: u32) -> String {
    let many = EVERYWHERE.iter().find(|(at, _)| *at == addresses);
    let at = match (many, addresses.one()) {
        (None, Some(address)) => {
            let Place { address, scope } = Place::new(address, interface);
            format!("{address}%{scope}")
        }
        (many, _) => many.map_or_else(String::new, |(_, name)| (*name).to_owned()),
    };
    format!("{PREFIX}/{at}/claim/{service:08x}")
}

/// The addresses at which the name claims the service, if it does.
pub(super) fn claimed(name: &str, service: u32) -> Option<Addresses> {
    let at = name.strip_prefix(PREFIX)?.strip_prefix('/')?;
    let at = at.strip_suffix(&format!("/claim/{service:08x}"))?;
    if let Some((addresses, _)) = EVERYWHERE.iter().find(|(_, name)| *name == at) {
        return Some(*addresses);
    }
    let (address, _scope) = at.split_once('%')?;
    Some(Addresses::One(address.parse().ok()?))
}

/// Takes the name, so that other processes can connect to it.
pub(super) fn listen(name: &str) -> io::Result<UnixListener> {
    UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

/// Takes the name without listening at it.
pub(super) fn hold(name: &str) -> io::Result<OwnedFd> {
    let socket = nameless()?;
    give(&socket, name)?;
    Ok(socket.into())
}

/// A socket that can be given a name in the calling thread's network namespace.
pub(super) fn nameless() -> io::Result<Socket> {
    Socket::new(Domain::UNIX, Type::STREAM, None)
}

/// Takes the name for as long as the socket is open. If the name is taken, the call can be repeated
/// with another name.
pub(super) fn give(socket: &Socket, name: &str) -> io::Result<()> {
    socket.bind(&SockAddr::unix(format!("\0{name}"))?)
}

/// Takes the name and listens at it, so that [`is_in_sight`] finds it. No connection is ever
/// accepted.
pub(super) fn hold_in_sight(name: &str) -> io::Result<OwnedFd> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&SockAddr::unix(format!("\0{name}"))?)?;
    socket.listen(0)?;
    Ok(socket.into())
}

/// Whether a process has taken the name with [`hold_in_sight`]. Takes the same time however many
/// names exist.
pub(super) fn is_in_sight(name: &str) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(format!("\0{name}"))?) {
        Ok(()) => Ok(true),
        // The backlog is full of earlier lookups, which are never accepted.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Connects to the process that listens at the name.
pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_claims_say_at_which_addresses() {
        let v4 = Addresses::One(IpAddr::from([10, 0, 0, 1]));
        let v6 = Addresses::One("fe80::1".parse().expect("an address"));
        for addresses in [v4, v6, Addresses::V4, Addresses::V6, Addresses::All] {
            let name = claim(addresses, 7, 0x0106_1234);
            assert_eq!(claimed(&name, 0x0106_1234), Some(addresses), "{name}");
            assert_eq!(claimed(&name, 0x0106_1235), None);
        }
        assert_eq!(
            claimed("roce-share-2/elsewhere/claim/01061234", 0x0106_1234),
            None
        );
    }
}
