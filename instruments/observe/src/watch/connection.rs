//! A watcher's connection. Nothing here blocks: a read or write that would block is retried when
//! the socket is ready. A watcher that is too slow is disconnected.

use super::http;
use super::response_cache::{Response, ResponseCache};
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv, send};
use roce_trust::interfaces;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The time that a watcher may take to send its request, and then to read the response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) enum Stream {
    /// From `roce top`, which sends nothing and gets a snapshot.
    Local(UnixStream),
    /// From a program that speaks HTTP.
    Http(TcpStream),
}

pub(super) struct Connection {
    stream: Stream,
    stage: Stage,
    deadline: Instant,
    /// When the connection was accepted, or last read or wrote something.
    progressed_at: Instant,
}

enum Stage {
    /// The part of the request that has been read.
    Reading(Vec<u8>),
    Writing(Response),
}

impl Connection {
    pub(super) fn new(stream: Stream, now: Instant, cache: &mut ResponseCache<'_>) -> Self {
        let (stage, timeout) = match stream {
            Stream::Local(_) => {
                let response = Response::new(String::new(), cache.json(now));
                (Stage::Writing(response), RESPONSE_TIMEOUT)
            }
            Stream::Http(_) => (Stage::Reading(Vec::new()), REQUEST_TIMEOUT),
        };
        Self {
            stream,
            stage,
            deadline: now + timeout,
            progressed_at: now,
        }
    }

    pub(super) fn is_local(&self) -> bool {
        matches!(self.stream, Stream::Local(_))
    }

    /// The time at which the connection is closed if it is not finished.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// When the connection was accepted, or last read or wrote something.
    pub(super) fn progressed_at(&self) -> Instant {
        self.progressed_at
    }

    /// The events that the connection waits for.
    pub(super) fn poll_flags(&self) -> PollFlags {
        match self.stage {
            Stage::Reading(_) => PollFlags::POLLIN,
            Stage::Writing(_) => PollFlags::POLLOUT,
        }
    }

    /// Reads and writes as much as possible without blocking. Returns whether there is more to do.
    pub(super) fn advance(&mut self, now: Instant, cache: &mut ResponseCache<'_>) -> bool {
        if now >= self.deadline {
            return false;
        }
        match self.step(now, cache) {
            Ok(more) => more,
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn step(&mut self, now: Instant, cache: &mut ResponseCache<'_>) -> io::Result<bool> {
        let fd = self.as_fd().as_raw_fd();
        loop {
            match &mut self.stage {
                Stage::Reading(request) => {
                    let mut chunk = [0; 1024];
                    let count = recv(fd, &mut chunk, MsgFlags::empty())?;
                    self.progressed_at = now;
                    request.extend_from_slice(&chunk[..count]);
                    let is_local = || self.stream.is_on_this_host();
                    if let Some(request) = http::parse_request(request, count == 0, is_local) {
                        self.stage = Stage::Writing(http::response(request, || cache.text(now)));
                        self.deadline = now + RESPONSE_TIMEOUT;
                    }
                }
                Stage::Writing(response) => {
                    if response.rest().is_empty() {
                        return Ok(false);
                    }
                    let count = send(fd, response.rest(), MsgFlags::MSG_NOSIGNAL)?;
                    if count == 0 {
                        return Ok(false);
                    }
                    self.progressed_at = now;
                    response.sent += count;
                }
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Local(stream) => stream.as_fd(),
            Stream::Http(stream) => stream.as_fd(),
        }
    }
}

impl Stream {
    /// Whether the other end is on this host, or nothing is known of it.
    fn is_on_this_host(&self) -> bool {
        match self {
            Self::Local(_) => true,
            Self::Http(stream) => {
                let ends = stream
                    .peer_addr()
                    .and_then(|peer| Ok((peer, stream.local_addr()?)));
                ends.map_or(true, |(peer, local)| {
                    is_within_host(peer.ip(), local.ip(), own_addresses)
                })
            }
        }
    }
}

/// Whether a connection between these addresses stays on this host: it is over the loopback, or the
/// peer has an address of this host. That address need not be `local`: to a secondary address of an
/// interface, the kernel connects from the primary one. If `own` finds nothing, the answer is yes.
fn is_within_host(peer: IpAddr, local: IpAddr, own: impl FnOnce() -> Option<Vec<IpAddr>>) -> bool {
    let peer = peer.to_canonical();
    peer.is_loopback()
        || peer == local.to_canonical()
        || own().is_none_or(|own| own.contains(&peer))
}

/// The addresses of this host's interfaces; `None` if the system can't list them.
fn own_addresses() -> Option<Vec<IpAddr>> {
    let interfaces = interfaces().ok()?;
    Some(
        interfaces
            .into_iter()
            .flat_map(|one| one.addresses)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::process::Command;

    /// A web page's name can lead to any of the host's addresses.
    #[test]
    fn a_connection_to_an_address_of_the_own_host_stays_on_it() {
        for (peer, local, is_within) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1", true),
            ("::1", "::1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("2001:db8::1", "2001:db8::1", true),
            ("192.0.2.3", "192.0.2.1", true),
            ("::ffff:192.0.2.3", "::ffff:192.0.2.1", true),
            ("192.0.2.2", "192.0.2.1", false),
            ("2001:db8::2", "2001:db8::1", false),
        ] {
            let [peer_ip, local_ip] = [peer, local].map(|ip| ip.parse().expect("an address"));
            let own = || Some(vec![IpAddr::from([192, 0, 2, 3])]);
            assert_eq!(
                is_within_host(peer_ip, local_ip, own),
                is_within,
                "{peer} {local}"
            );
        }
        let [peer, local] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        assert!(is_within_host(peer, local, || None));
    }

    #[test]
    fn a_connection_to_a_secondary_address_of_the_own_host_stays_on_it() {
        if !testkit::enters_network_namespace_or_skip() {
            return;
        }
        for address in ["192.0.2.1/24", "192.0.2.2/24"] {
            let mut ip = Command::new("ip");
            let done = ip.args(["address", "add", address, "dev", "lo"]).status();
            assert!(done.expect("it starts").success(), "{address}");
        }
        let listener = TcpListener::bind("192.0.2.2:0").expect("an address");
        let at = listener.local_addr().expect("an address");
        let client = TcpStream::connect(at).expect("connected");
        let (accepted, peer) = listener.accept().expect("accepted");
        assert_eq!(peer.ip(), IpAddr::from([192, 0, 2, 1]));
        assert!(Stream::Http(accepted).is_on_this_host());
        drop(client);
    }
}
