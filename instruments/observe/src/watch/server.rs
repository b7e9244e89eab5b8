//! The thread that answers watchers. It sleeps in `poll` while there are no requests.

use super::connection::{Connection, Stream};
use super::devices::Devices;
use super::names;
use super::response_cache::ResponseCache;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::Mutex;
use roce_trust::signals;
use roce_trust::{OwnUser, peer};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The maximum number of connections of each kind. The limits are separate, so that HTTP clients
/// can't lock out `roce top`. Further local connections, which are this user's or root's, wait in the
/// listener's backlog. Anybody can make HTTP connections, so a further one replaces the one that has
/// been idle for longest: those that do nothing keep nobody out.
const MAX_LOCAL: usize = 8;
const MAX_HTTP: usize = 16;

/// The maximum number of connections to accept before those that are open get their turn. Others
/// may connect faster than this thread accepts.
const MAX_ACCEPTS: usize = 64;

/// The pause after a failure to accept a connection, for instance because no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The size of the thread's stack. It is small, for processes with tight limits.
const STACK_BYTES: usize = 256 << 10;

/// The watch server. Dropping it ends its thread.
pub(super) struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    devices: Devices,
    wake: EventFd,
    stop: AtomicBool,
    metrics: Mutex<Vec<Metrics>>,
}

/// An address at which the program requested metrics.
struct Metrics {
    requested: SocketAddr,
    /// The listener, with its actual address; `None` if it could not be bound.
    listener: Option<(SocketAddr, Arc<TcpListener>)>,
}

impl Server {
    pub(super) fn start() -> io::Result<Self> {
        let (local, _) = names::listen()?;
        let shared = Arc::new(Shared {
            devices: Devices::new(),
            wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            stop: AtomicBool::new(false),
            metrics: Mutex::default(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = Builder::new().name("roce-watch".to_owned());
        let thread = signals::spawn(thread.stack_size(STACK_BYTES), move || {
            for_thread.run(&local)
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    pub(super) fn devices(&self) -> &Devices {
        &self.shared.devices
    }

    /// Serves metrics at `requested` from now on. Returns the actual address, and whether it is
    /// new; `None` if an earlier attempt with the same address failed.
    ///
    /// # Errors
    /// If the address can't be bound, at the first attempt.
    pub(super) fn offer_metrics(
        &self,
        requested: SocketAddr,
    ) -> io::Result<Option<(SocketAddr, bool)>> {
        let mut metrics = self.shared.metrics.lock();
        if let Some(before) = metrics.iter().find(|one| one.requested == requested) {
            return Ok(before.listener.as_ref().map(|(at, _)| (*at, false)));
        }
        let bound = TcpListener::bind(requested).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, Arc::new(listener)))
        });
        let (result, listener) = match bound {
            Ok((at, listener)) => (Ok(Some((at, true))), Some((at, listener))),
            Err(error) => (Err(error), None),
        };
        metrics.push(Metrics {
            requested,
            listener,
        });
        let _ = self.shared.wake.write(1);
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.shared.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self, local: &UnixListener) {
        let mut cache = ResponseCache::new(&self.devices);
        let mut connections: Vec<Connection> = Vec::new();
        let mut paused_until: Option<Instant> = None;
        while !self.stop.load(Ordering::Acquire) {
            let tcp: Vec<_> = self.tcp_listeners();
            let is_paused = paused_until.is_some();
            let listeners = tcp.iter().map(|one| one.as_fd()).chain([local.as_fd()]);
            let deadlines = connections.iter().map(Connection::deadline);
            let next = deadlines
                .chain(cache.expires_at())
                .chain(paused_until)
                .min();
            wait(&self.wake, listeners, &connections, is_paused, next);
            let _ = self.wake.read();

            let now = Instant::now();
            cache.drop_expired(now);
            paused_until = paused_until.filter(|until| *until > now);
            connections.retain_mut(|one| one.advance(now, &mut cache));
            if paused_until.is_none()
                && accept_all(local, &tcp, &mut connections, now, &mut cache).is_err()
            {
                paused_until = Some(now + ACCEPT_PAUSE);
            }
        }
    }

    fn tcp_listeners(&self) -> Vec<Arc<TcpListener>> {
        let metrics = self.metrics.lock();
        let listeners = metrics.iter().filter_map(|one| one.listener.as_ref());
        listeners
            .map(|(_, listener)| Arc::clone(listener))
            .collect()
    }
}

/// Waits until there is something to do. The local listener is not polled while there is the maximum
/// number of local connections.
fn wait<'a>(
    wake: &'a EventFd,
    listeners: impl Iterator<Item = BorrowedFd<'a>>,
    connections: &'a [Connection],
    is_paused: bool,
    next: Option<Instant>,
) {
    let local = count(connections, true);
    let mut polled = vec![PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
    let listeners: Vec<_> = listeners.collect();
    let local_index = listeners.len() - 1;
    for (index, listener) in listeners.into_iter().enumerate() {
        let has_room = index != local_index || local < MAX_LOCAL;
        if has_room && !is_paused {
            polled.push(PollFd::new(listener, PollFlags::POLLIN));
        }
    }
    polled.extend(
        connections
            .iter()
            .map(|one| PollFd::new(one.as_fd(), one.poll_flags())),
    );
    // Rounded up, since poll counts in whole milliseconds.
    let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).as_millis() + 1);
    let timeout = timeout.and_then(|ms| PollTimeout::try_from(ms).ok());
    let _ = poll(&mut polled, timeout.unwrap_or(PollTimeout::NONE));
}

fn count(connections: &[Connection], local: bool) -> usize {
    let counted = connections.iter().filter(|one| one.is_local() == local);
    counted.count()
}

/// If there is the maximum number of HTTP connections, closes the one that has been idle for longest.
fn make_room_for_http(connections: &mut Vec<Connection>) {
    if count(connections, false) < MAX_HTTP {
        return;
    }
    let http = connections
        .iter()
        .enumerate()
        .filter(|(_, one)| !one.is_local());
    if let Some((index, _)) = http.min_by_key(|(_, one)| one.progressed_at()) {
        connections.remove(index);
    }
}

/// Accepts waiting connections, up to the limits.
///
/// # Errors
/// If the kernel can't provide a connection.
fn accept_all(
    local: &UnixListener,
    tcp: &[Arc<TcpListener>],
    connections: &mut Vec<Connection>,
    now: Instant,
    cache: &mut ResponseCache<'_>,
) -> io::Result<()> {
    for _ in 0..MAX_ACCEPTS {
        if count(connections, true) >= MAX_LOCAL {
            break;
        }
        let Some((stream, _)) = ignore_no_connection(local.accept())? else {
            break;
        };
        // Other users must not learn what this process does, or with whom.
        if may_watch(&stream) {
            stream.set_nonblocking(true)?;
            connections.push(Connection::new(Stream::Local(stream), now, cache));
            advance_last(connections, now, cache);
        }
    }
    for listener in tcp {
        for _ in 0..MAX_ACCEPTS {
            let Some((stream, _)) = ignore_no_connection(listener.accept())? else {
                break;
            };
            stream.set_nonblocking(true)?;
            make_room_for_http(connections);
            connections.push(Connection::new(Stream::Http(stream), now, cache));
            advance_last(connections, now, cache);
        }
    }
    Ok(())
}

/// Reads and writes the newest connection, and removes it if it is finished. It usually is, because
/// most answers fit into the socket's buffer.
fn advance_last(connections: &mut Vec<Connection>, now: Instant, cache: &mut ResponseCache<'_>) {
    if connections
        .last_mut()
        .is_some_and(|one| !one.advance(now, cache))
    {
        connections.pop();
    }
}

/// Returns `None` instead of an error if no connection waits, or if the peer has already closed it.
fn ignore_no_connection<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
    match accepted {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) => match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EAGAIN | Errno::ECONNABORTED | Errno::EINTR) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Whether the other end is a process of the same user, or of root.
fn may_watch(stream: &UnixStream) -> bool {
    peer(stream).is_ok_and(|peer| OwnUser::now().is_or_root(peer.user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    #[test]
    fn the_http_connection_that_is_idle_for_longest_makes_room() {
        let devices = Devices::new();
        let mut cache = ResponseCache::new(&devices);
        let (local, _) = names::listen().expect("a name");
        let http = TcpListener::bind(("127.0.0.1", 0)).expect("an address");
        http.set_nonblocking(true).expect("allowed");
        let at = http.local_addr().expect("an address");
        let http = [Arc::new(http)];
        let mut connections = Vec::new();
        let begin = Instant::now();
        let mut clients = Vec::new();
        let mut accept_next = |connections: &mut Vec<Connection>, clients: &mut Vec<TcpStream>| {
            let now = begin + Duration::from_millis(clients.len() as u64);
            clients.push(TcpStream::connect(at).expect("connected"));
            accept_all(&local, &http, connections, now, &mut cache).expect("accepted");
        };
        for _ in 0..MAX_HTTP {
            accept_next(&mut connections, &mut clients);
        }
        assert_eq!(count(&connections, false), MAX_HTTP);
        // The first one sends a part of its request, so the second one is idle for longest.
        clients[0].write_all(b"GET").expect("sent");
        let now = begin + Duration::from_millis(MAX_HTTP as u64);
        let devices = Devices::new();
        let mut cache = ResponseCache::new(&devices);
        assert!(connections[0].advance(now, &mut cache));
        accept_next(&mut connections, &mut clients);
        assert_eq!(count(&connections, false), MAX_HTTP);
        assert_eq!(clients[1].read(&mut [0]).expect("the end"), 0);
        for client in [0, 2, MAX_HTTP] {
            clients[client].set_nonblocking(true).expect("allowed");
            let error = clients[client].read(&mut [0]).expect_err("it is open");
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{client}");
        }
    }
}
