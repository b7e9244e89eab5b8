//! The thread that answers watchers. It sleeps in `poll` while nobody asks.

use super::answers::Answers;
use super::connection::{Connection, Stream};
use super::devices::Devices;
use super::{names, threads};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use parking_lot::Mutex;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The maximum number of connections; later ones wait. Each kind has its own limit, so that HTTP
/// clients leave room for `roce top`.
const MOST_LOCAL: usize = 8;
const MOST_HTTP: usize = 16;

/// The pause after a failure to accept a connection, for instance because no descriptor is left.
const REST: Duration = Duration::from_millis(200);

/// The watch server. Dropping it ends its thread.
pub(super) struct Server {
    common: Arc<Common>,
    thread: Option<JoinHandle<()>>,
}

struct Common {
    devices: Devices,
    wake: EventFd,
    stop: AtomicBool,
    metrics: Mutex<Vec<Metrics>>,
}

/// An address at which the program asked for metrics.
struct Metrics {
    asked: SocketAddr,
    /// The listener, with its actual address; `None` if it could not be bound.
    listener: Option<(SocketAddr, Arc<TcpListener>)>,
}

impl Server {
    pub(super) fn start() -> io::Result<Self> {
        let (local, _) = names::listen()?;
        let common = Arc::new(Common {
            devices: Devices::new(),
            wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            stop: AtomicBool::new(false),
            metrics: Mutex::default(),
        });
        let for_thread = Arc::clone(&common);
        let thread = threads::spawn("roce-watch", move || for_thread.run(&local))?;
        Ok(Self {
            common,
            thread: Some(thread),
        })
    }

    pub(super) fn devices(&self) -> &Devices {
        &self.common.devices
    }

    /// Serves metrics at `asked` from now on. Returns the actual address, and whether it is new;
    /// `None` if the same address failed before.
    ///
    /// # Errors
    /// If the address can't be bound, at the first attempt.
    pub(super) fn offer_metrics(
        &self,
        asked: SocketAddr,
    ) -> io::Result<Option<(SocketAddr, bool)>> {
        let mut metrics = self.common.metrics.lock();
        if let Some(before) = metrics.iter().find(|one| one.asked == asked) {
            return Ok(before.listener.as_ref().map(|(at, _)| (*at, false)));
        }
        let bound = TcpListener::bind(asked).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, Arc::new(listener)))
        });
        let (result, listener) = match bound {
            Ok((at, listener)) => (Ok(Some((at, true))), Some((at, listener))),
            Err(error) => (Err(error), None),
        };
        metrics.push(Metrics { asked, listener });
        let _ = self.common.wake.write(1);
        result
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.common.stop.store(true, Ordering::Release);
        let _ = self.common.wake.write(1);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Common {
    fn run(&self, local: &UnixListener) {
        let mut answers = Answers::new(&self.devices);
        let mut connections: Vec<Connection> = Vec::new();
        let mut rests_until: Option<Instant> = None;
        while !self.stop.load(Ordering::Acquire) {
            let tcp: Vec<_> = self.tcp_listeners();
            let rests = rests_until.is_some();
            let listeners = tcp.iter().map(|one| one.as_fd()).chain([local.as_fd()]);
            let ends = connections.iter().map(Connection::until);
            let next = ends.chain(answers.old_at()).chain(rests_until).min();
            wait(&self.wake, listeners, &connections, rests, next);
            let _ = self.wake.read();

            let now = Instant::now();
            answers.forget_old(now);
            rests_until = rests_until.filter(|until| *until > now);
            connections.retain_mut(|one| one.go_on(now, &mut answers));
            if rests_until.is_none()
                && accept_all(local, &tcp, &mut connections, now, &mut answers).is_err()
            {
                rests_until = Some(now + REST);
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

/// Waits until there is something to do. Listeners are not polled while there is no room for more
/// connections.
fn wait<'a>(
    wake: &'a EventFd,
    listeners: impl Iterator<Item = BorrowedFd<'a>>,
    connections: &'a [Connection],
    rests: bool,
    next: Option<Instant>,
) {
    let (local, http) = count(connections);
    let mut polled = vec![PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
    let listeners: Vec<_> = listeners.collect();
    let last = listeners.len() - 1;
    for (index, listener) in listeners.into_iter().enumerate() {
        let has_room = if index == last {
            local < MOST_LOCAL
        } else {
            http < MOST_HTTP
        };
        if has_room && !rests {
            polled.push(PollFd::new(listener, PollFlags::POLLIN));
        }
    }
    polled.extend(
        connections
            .iter()
            .map(|one| PollFd::new(one.as_fd(), one.waits_for())),
    );
    // Rounded up, since poll counts in whole milliseconds.
    let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).as_millis() + 1);
    let timeout = timeout.and_then(|ms| PollTimeout::try_from(ms).ok());
    let _ = poll(&mut polled, timeout.unwrap_or(PollTimeout::NONE));
}

/// The number of local connections, and that of others.
fn count(connections: &[Connection]) -> (usize, usize) {
    let local = connections.iter().filter(|one| one.is_local()).count();
    (local, connections.len() - local)
}

/// Accepts waiting connections, as long as there is room.
///
/// # Errors
/// If the kernel can't provide a connection.
fn accept_all(
    local: &UnixListener,
    tcp: &[Arc<TcpListener>],
    connections: &mut Vec<Connection>,
    now: Instant,
    answers: &mut Answers<'_>,
) -> io::Result<()> {
    while count(connections).0 < MOST_LOCAL {
        let Some((stream, _)) = unless_none(local.accept())? else {
            break;
        };
        // Other users must not learn what this process does, or with whom.
        if may_watch(&stream) {
            stream.set_nonblocking(true)?;
            connections.push(Connection::new(Stream::Local(stream), now, answers));
            go_on_with_last(connections, now, answers);
        }
    }
    for listener in tcp {
        while count(connections).1 < MOST_HTTP {
            let Some((stream, _)) = unless_none(listener.accept())? else {
                break;
            };
            stream.set_nonblocking(true)?;
            connections.push(Connection::new(Stream::Http(stream), now, answers));
            go_on_with_last(connections, now, answers);
        }
    }
    Ok(())
}

/// Reads and writes the newest connection, and removes it if it is finished. It usually is, because
/// most answers fit into the socket's buffer.
fn go_on_with_last(connections: &mut Vec<Connection>, now: Instant, answers: &mut Answers<'_>) {
    if connections
        .last_mut()
        .is_some_and(|one| !one.go_on(now, answers))
    {
        connections.pop();
    }
}

/// It is not an error if no connection waits, or if the peer has closed it already.
fn unless_none<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
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
    let peer = getsockopt(stream, sockopt::PeerCredentials);
    peer.is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}
