//! How the two ends exchange the addresses of their QPs: ibv_rc_pingpong's protocol over TCP.
//!
//! Each address is 52 bytes: `LID:QPN:PSN:GID` in lower-case hexadecimal of 4, 6, 6
//! and 32 digits, and a zero byte. The client sends its own, the server answers with
//! its own, the client sends `done` and a zero byte, and both close.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use roce_verbs::device::Gid;
use roce_verbs::{Endpoint, Psn, Qpn};
use socket2::SockRef;

use super::PingpongError;

/// Length of an address on the wire, including the zero byte.
const ADDRESS_BYTES: usize = 52;

/// The client's message after it has received the server's address.
const DONE: &[u8; 5] = b"done\0";

/// The address of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The InfiniBand address; 0 on Ethernet.
    pub(super) lid: u16,
    pub(super) qpn: Qpn,
    pub(super) psn: Psn,
    pub(super) gid: Gid,
}

impl From<Endpoint> for Address {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            lid: 0,
            qpn: endpoint.qpn,
            psn: endpoint.psn,
            gid: endpoint.gid,
        }
    }
}

impl From<Address> for Endpoint {
    fn from(address: Address) -> Self {
        Self {
            gid: address.gid,
            qpn: address.qpn,
            psn: address.psn,
        }
    }
}

impl fmt::Display for Address {
    /// In ibv_rc_pingpong's format.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (lid, qpn, psn) = (self.lid, self.qpn.get(), self.psn.get());
        let gid = self.gid;
        write!(
            f,
            "LID 0x{lid:04x}, QPN 0x{qpn:06x}, PSN 0x{psn:06x}, GID {gid}"
        )
    }
}

impl Address {
    fn to_wire(self) -> [u8; ADDRESS_BYTES] {
        let gid = u128::from_be_bytes(self.gid.0);
        let text = format!(
            "{:04x}:{:06x}:{:06x}:{gid:032x}",
            self.lid,
            self.qpn.get(),
            self.psn.get()
        );
        let mut wire = [0; ADDRESS_BYTES];
        wire[..text.len()].copy_from_slice(text.as_bytes());
        wire
    }

    fn from_wire(wire: &[u8; ADDRESS_BYTES]) -> Option<Self> {
        let text = std::str::from_utf8(wire).ok()?.strip_suffix('\0')?;
        let mut fields = text.split(':');
        let mut field = |digits: usize| {
            let text = fields.next()?;
            let hex = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
            hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
        };
        Some(Self {
            lid: u16::try_from(field(4)?).ok()?,
            qpn: Qpn::new(u32::try_from(field(6)?).ok()?)?,
            psn: Psn::new(u32::try_from(field(6)?).ok()?),
            gid: Gid(field(32)?.to_be_bytes()),
        })
    }
}

/// The client's part: sends `local`, and returns the address of the server's QP.
pub(super) fn exchange_with_server(
    addresses: &[SocketAddr],
    name: &str,
    peer_timeout: Duration,
    local: &Address,
) -> Result<Address, PingpongError> {
    let stream = connect(addresses, name, peer_timeout)?;
    let mut server = Peer::new(stream, peer_timeout)?;
    server.send(&local.to_wire())?;
    let remote = server.receive()?;
    server.send(DONE)?;
    Ok(remote)
}

fn connect(
    addresses: &[SocketAddr],
    name: &str,
    peer_timeout: Duration,
) -> Result<TcpStream, PingpongError> {
    let deadline = Instant::now() + peer_timeout;
    let mut faults = Vec::new();
    for (tried, address) in addresses.iter().enumerate() {
        // Each address gets an equal share of the remaining time.
        let share = deadline.saturating_duration_since(Instant::now())
            / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match TcpStream::connect_timeout(address, share.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => faults.push(format!("{address}: {error}")),
        }
    }
    Err(PingpongError::new(format!(
        "no server at {name} ({}). Start `roce pingpong` or `ibv_rc_pingpong -g INDEX` there \
         first, with the same -p",
        faults.join("; ")
    )))
}

/// The server's TCP socket, listening.
#[derive(Debug)]
pub(super) struct Listener(TcpListener);

impl Listener {
    /// Listens on `address`, or on every address of this machine.
    pub(super) fn bind(address: Option<SocketAddr>, port: u16) -> Result<Self, PingpongError> {
        let bound = match address {
            Some(address) => TcpListener::bind(address),
            None => TcpListener::bind(("::", port))
                // The machine may lack IPv6.
                .or_else(|_| TcpListener::bind(("0.0.0.0", port))),
        };
        let listener = bound.map_err(|error| {
            let advice = match error.kind() {
                ErrorKind::AddrInUse => ": another server has it, choose another with -p",
                ErrorKind::PermissionDenied => ": choose one from 1024 on with -p",
                _ => "",
            };
            PingpongError::new(format!("can't listen on TCP port {port}{advice} ({error})"))
        })?;
        Ok(Self(listener))
    }

    /// Waits up to `timeout` for one client. Accepts no others.
    pub(super) fn accept(
        self,
        timeout: Option<Duration>,
        peer_timeout: Duration,
    ) -> Result<Peer, PingpongError> {
        let fault = |error: io::Error| match (error.kind(), timeout) {
            (ErrorKind::WouldBlock, Some(timeout)) => PingpongError::new(format!(
                "no client came within {} s (--timeout)",
                timeout.as_secs_f64()
            )),
            _ => PingpongError::new(format!("waiting for a client: {error}")),
        };
        // On Linux the receive timeout applies to accept(2), too.
        SockRef::from(&self.0)
            .set_read_timeout(timeout)
            .map_err(fault)?;
        let (stream, _) = self.0.accept().map_err(fault)?;
        Peer::new(stream, peer_timeout)
    }
}

/// The TCP connection to the other end, with a deadline for the exchange.
#[derive(Debug)]
pub(super) struct Peer {
    stream: TcpStream,
    name: String,
    deadline: Instant,
    peer_timeout: Duration,
}

impl Peer {
    fn new(stream: TcpStream, peer_timeout: Duration) -> Result<Self, PingpongError> {
        let name = stream
            .peer_addr()
            .map_or_else(|_| "the peer".to_owned(), |address| address.to_string());
        let peer = Self {
            stream,
            name,
            deadline: Instant::now() + peer_timeout,
            peer_timeout,
        };
        // The data fits in any socket's buffer, so this should never expire.
        let bounded = peer.stream.set_write_timeout(Some(peer_timeout));
        bounded.map_err(|error| peer.fault("preparing to send", &error))?;
        Ok(peer)
    }

    /// The peer's address.
    pub(super) fn receive(&mut self) -> Result<Address, PingpongError> {
        let mut wire = [0; ADDRESS_BYTES];
        self.read(&mut wire, "waiting for its address")?;
        Address::from_wire(&wire).ok_or_else(|| {
            PingpongError::new(format!(
                "{} sent {:?}, which is no QP address: is it `roce pingpong` or ibv_rc_pingpong?",
                self.name,
                String::from_utf8_lossy(&wire)
            ))
        })
    }

    /// The server's part, when its QP is ready: sends `local`, and waits until the client has
    /// received it.
    pub(super) fn answer(mut self, local: &Address) -> Result<(), PingpongError> {
        self.send(&local.to_wire())?;
        let mut done = [0; DONE.len()];
        self.read(&mut done, "waiting for its \"done\"")?;
        if done == *DONE {
            return Ok(());
        }
        Err(PingpongError::new(format!(
            "{} sent {:?} instead of \"done\"",
            self.name,
            String::from_utf8_lossy(&done)
        )))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), PingpongError> {
        self.stream
            .write_all(bytes)
            .map_err(|error| self.fault("sending", &error))
    }

    /// Reads until `out` is full.
    fn read(&mut self, out: &mut [u8], what: &str) -> Result<(), PingpongError> {
        let mut filled = 0;
        while filled < out.len() {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let some = self
                .stream
                .set_read_timeout(Some(left.max(Duration::from_millis(1))))
                .and_then(|()| self.stream.read(&mut out[filled..]));
            match some {
                Ok(0) => {
                    let error = ErrorKind::UnexpectedEof.into();
                    return Err(self.fault(what, &error));
                }
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fault(what, &error)),
            }
        }
        Ok(())
    }

    fn fault(&self, what: &str, error: &io::Error) -> PingpongError {
        let why = match error.kind() {
            ErrorKind::WouldBlock => format!("nothing came within {:?}", self.peer_timeout),
            ErrorKind::UnexpectedEof => "it closed the connection: see what it printed".to_owned(),
            _ => error.to_string(),
        };
        PingpongError::new(format!("{}: {what}: {why}", self.name))
    }
}

#[cfg(test)]
mod tests;
