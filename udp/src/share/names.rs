//! The names of abstract Unix sockets by which processes find each other.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use roce_port::fork;
use roce_stack::{Addresses, QpnRange};
use socket2::{Domain, SockAddr, Socket, Type};

/// The prefix of all names. Change it whenever the meaning of a name or the format of a message
/// changes.
pub(super) const PREFIX: &str = "roce-share-2";

/// The name that claims a part of an interface's QPNs.
pub(super) fn part_of_interface(index: u32, part: QpnRange) -> String {
    format!("{PREFIX}/interface/{index}/part/{}", part.number())
}

/// An address whose port 4791 is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedAddress {
    pub(super) address: IpAddr,
    /// The index of the interface, if several interfaces may have the address; 0 otherwise.
    scope: u32,
}

impl SharedAddress {
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

    /// The prefix of the names of agents: processes that receive management datagrams.
    pub(super) fn agents(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/agent/")
    }

    /// The name of the agent in `part`.
    pub(super) fn agent(&self, part: QpnRange) -> String {
        format!("{}{}", self.agents(), part.number())
    }

    /// The prefix of the names of processes that receive requests for services.
    pub(super) fn services(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/service/")
    }

    /// The name of the process in `part` that receives requests for a service.
    pub(super) fn server(&self, service: u32, part: QpnRange) -> String {
        format!("{}{service:08x}/{}", self.services(), part.number())
    }

    /// The name that the process that changes the group holds.
    pub(super) fn lock(&self) -> String {
        let Self { address, scope } = self;
        format!("{PREFIX}/{address}%{scope}/lock")
    }
}

/// The text that replaces the address in the names of claims at several addresses.
const EVERYWHERE: [(Addresses, &str); 3] = [
    (Addresses::All, "everywhere"),
    (Addresses::V4, "everywhere-4"),
    (Addresses::V6, "everywhere-6"),
];

/// The name that claims a service at these addresses. A process can claim a service without
/// receiving its requests. The interface's index matters only for a link-local address.
pub(super) fn claim(addresses: Addresses, interface: u32, service: u32) -> String {
    let many = EVERYWHERE.iter().find(|(at, _)| *at == addresses);
    let at = match (many, addresses.one()) {
        (None, Some(address)) => {
            let SharedAddress { address, scope } = SharedAddress::new(address, interface);
            format!("{address}%{scope}")
        }
        (many, _) => many.map_or_else(String::new, |(_, name)| (*name).to_owned()),
    };
    format!("{PREFIX}/{at}/claim/{service:08x}")
}

/// The addresses at which `name` claims the service; `None` if it does not claim the service.
pub(super) fn claimed_at(name: &str, service: u32) -> Option<Addresses> {
    let at = name.strip_prefix(PREFIX)?.strip_prefix('/')?;
    let at = at.strip_suffix(&format!("/claim/{service:08x}"))?;
    if let Some((addresses, _)) = EVERYWHERE.iter().find(|(_, name)| *name == at) {
        return Some(*addresses);
    }
    let (address, _scope) = at.split_once('%')?;
    Some(Addresses::One(address.parse().ok()?))
}

/// Takes the name, so that other processes can connect to it.
#[cfg(any(test, fuzzing))]
pub(super) fn listen(name: &str) -> io::Result<std::os::unix::net::UnixListener> {
    let socket = unbound()?;
    bind(&socket, name)?;
    socket.listen(128)?;
    Ok(OwnedFd::from(socket).into())
}

/// Takes the name without listening at it.
pub(super) fn hold(name: &str) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    bind(&socket, name)?;
    Ok(socket.into())
}

/// Creates a socket that can be bound to a name in the calling thread's network namespace. Forked
/// children give it up.
pub(super) fn unbound() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fork::give_up_in_children(&socket)?;
    Ok(socket)
}

/// Binds the socket to the name, until the socket is closed. If the name is taken, the call can be
/// repeated with another name.
pub(super) fn bind(socket: &Socket, name: &str) -> io::Result<()> {
    socket.bind(&SockAddr::unix(format!("\0{name}"))?)
}

/// Takes the name and listens at it, so that [`is_connectable`] finds it. No connection is ever
/// accepted.
pub(super) fn hold_connectable(name: &str) -> io::Result<OwnedFd> {
    let socket = unbound()?;
    bind(&socket, name)?;
    socket.listen(0)?;
    Ok(socket.into())
}

/// Whether a process listens at the name, as after [`hold_connectable`]. The time that this takes
/// does not depend on the number of names.
pub(super) fn is_connectable(name: &str) -> io::Result<bool> {
    match connect(name) {
        Ok(_) => Ok(true),
        // The backlog is full, often of earlier lookups, which are never accepted.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Connects to the process that listens at the name. Never blocks: any user can take a name, and a
/// process that accepts no connections would keep this one waiting for ever.
///
/// # Errors
/// `WouldBlock` if the process has a full backlog, and `ConnectionRefused` if no process listens.
pub(super) fn connect(name: &str) -> io::Result<UnixStream> {
    let socket = unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(format!("\0{name}"))?)?;
    socket.set_nonblocking(false)?;
    Ok(OwnedFd::from(socket).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_claim_shows_its_addresses() {
        let v4 = Addresses::One(IpAddr::from([10, 0, 0, 1]));
        let v6 = Addresses::One("fe80::1".parse().expect("an address"));
        for addresses in [v4, v6, Addresses::V4, Addresses::V6, Addresses::All] {
            let name = claim(addresses, 7, 0x0106_1234);
            assert_eq!(claimed_at(&name, 0x0106_1234), Some(addresses), "{name}");
            assert_eq!(claimed_at(&name, 0x0106_1235), None);
        }
        assert_eq!(
            claimed_at("roce-share-2/elsewhere/claim/01061234", 0x0106_1234),
            None
        );
    }
}
