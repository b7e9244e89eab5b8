//! The parent's side of a fork: a thread hands connections over to children.

use crate::errno::{Errno, Outcome};
use crate::link::{self, Message, Op};
use crate::signals::Blocked;
use crate::socket::{Given, Phase, Socket, lock, lock_at_exit};
use crate::{eventfd, hidden, inside, poll_set, rdmacm, real, relay, say, settings};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A forked child that may still want sockets.
pub(crate) struct Child {
    /// Never 0.
    number: u64,
    link: c_int,
    /// By [`Socket::id`].
    sockets: BTreeMap<u64, Inherited>,
}

/// The sockets that a child inherited.
pub(crate) enum Inherited {
    /// A connection. This reference keeps its rsocket open.
    Connection(Arc<Socket>),
    /// A listener. This process may close it.
    Listener(Weak<Socket>, Arc<Given>),
}

impl Inherited {
    pub(crate) fn new(socket: &Arc<Socket>) -> Self {
        match socket.phase() {
            Phase::Connected => Self::Connection(socket.clone()),
            _ => Self::Listener(Arc::downgrade(socket), socket.given.clone()),
        }
    }
}

#[derive(Default)]
pub(crate) struct Children {
    pub(crate) all: Vec<Child>,
    /// An eventfd that announces a new child to the thread; `None` before the thread runs.
    knock: Option<c_int>,
}

static CHILDREN: Mutex<Children> = Mutex::new(Children {
    all: Vec::new(),
    knock: None,
});

/// Signalled when a child wants fewer connections than before.
static CHANGED: Condvar = Condvar::new();

/// Held while a connection is handed over, so that no other child inherits a copy.
static HANDING_OVER: Mutex<()> = Mutex::new(());

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Takes the locks that a fork holds.
pub(crate) fn lock_for_fork() -> (MutexGuard<'static, ()>, MutexGuard<'static, Children>) {
    (lock(&HANDING_OVER), lock(&CHILDREN))
}

impl Children {
    /// In the child: closes its copies of the parent's descriptors.
    pub(crate) fn forget(&mut self) {
        for child in self.all.drain(..) {
            hidden::close(child.link);
            // Other threads of the parent may have used them.
            std::mem::forget(child.sockets);
        }
        if let Some(knock) = self.knock.take() {
            hidden::close(knock);
        }
    }
}

/// Serves a new child. Without a descriptor or a thread for that, the child finds its connections
/// closed.
pub(crate) fn add(link: c_int, sockets: BTreeMap<u64, Inherited>) {
    let mut children = lock(&CHILDREN);
    let knock = match children.knock.map_or_else(start, Ok) {
        Ok(knock) => knock,
        Err(error) => {
            drop(children);
            say::once(&format!(
                "a forked child cannot use the connections over RDMA of its parent: {}",
                error.text()
            ));
            return hidden::close(link);
        }
    };
    children.knock = Some(knock);
    children.all.push(Child {
        number: NUMBERS.fetch_add(1, Ordering::Relaxed),
        link,
        sockets,
    });
    eventfd::signal(knock);
}

/// Starts the thread, and returns the eventfd that announces children to it.
fn start() -> Outcome<c_int> {
    let knock = eventfd::create()?;
    let _blocked = Blocked::all();
    let _inside = inside::Inside::enter();
    let thread = std::thread::Builder::new().name(String::from("roce-children"));
    match thread.spawn(move || serve(knock)) {
        Ok(_) => Ok(knock),
        Err(_) => {
            hidden::close(knock);
            Err(Errno(libc::EAGAIN))
        }
    }
}

fn serve(knock: c_int) {
    loop {
        let mut fds = vec![poll_set::entry(knock, libc::POLLIN)];
        let links = |child: &Child| poll_set::entry(child.link, libc::POLLIN);
        fds.extend(lock(&CHILDREN).all.iter().map(links));
        // SAFETY: the entries are there.
        if unsafe { real::poll(fds.as_mut_ptr(), fds.len() as _, -1) } < 0 {
            continue;
        }
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            if fd.fd == knock {
                eventfd::clear(knock);
            } else {
                answer(fd.fd);
            }
        }
    }
}

fn answer(link: c_int) {
    let Ok((Message { op, id }, _)) = link::receive(link) else {
        return remove_ended(link);
    };
    let result = match op {
        Op::Use | Op::Keep => return hand_over(link, id, op == Op::Use),
        Op::Release => {
            drop(take(link, id));
            return CHANGED.notify_all();
        }
        Op::Listen => stop_listening(link, id),
        Op::Granted | Op::Refused => Err(Errno(libc::EINVAL)),
    };
    let op = match result {
        Ok(()) => Op::Granted,
        Err(_) => Op::Refused,
    };
    // A child that has ended is noticed next.
    let _ = link::send(link, Message { op, id }, None);
}

fn take(link: c_int, id: u64) -> Option<Inherited> {
    let mut children = lock(&CHILDREN);
    let mut all = children.all.iter_mut();
    let child = all.find(|child| child.link == link)?;
    child.sockets.remove(&id)
}

fn hand_over(link: c_int, id: u64, is_used: bool) {
    let _handing_over = lock(&HANDING_OVER);
    let socket = take(link, id);
    let started = match &socket {
        Some(Inherited::Connection(socket)) => relay::start(socket, is_used),
        _ => Err(Errno(libc::ENOENT)),
    };
    let op = match (&socket, started) {
        (Some(Inherited::Connection(socket)), Ok(_)) => {
            leave_to_tcp(socket);
            Op::Granted
        }
        _ => Op::Refused,
    };
    // A child that has ended is noticed next.
    let _ = link::send(link, Message { op, id }, started.ok());
    if let Ok(of_child) = started {
        hidden::close(of_child);
    }
    CHANGED.notify_all();
}

/// Stops listening over RDMA, unless this process or another child accepts connections.
fn stop_listening(link: c_int, id: u64) -> Outcome<()> {
    let refused = Err(Errno(libc::EADDRINUSE));
    let children = lock(&CHILDREN);
    let Some(child) = children.all.iter().find(|child| child.link == link) else {
        return refused;
    };
    let number = child.number;
    let Some(Inherited::Listener(socket, given)) = child.sockets.get(&id) else {
        return refused;
    };
    let (socket, given) = (socket.upgrade(), given.clone());
    drop(children);
    let is_used = |socket: &Arc<Socket>| socket.is_used.load(Ordering::Acquire);
    if socket.as_ref().is_some_and(is_used) || is_alive(given.to()) {
        return refused;
    }
    let is_of_parent = |socket: &Arc<Socket>| socket.phase() == Phase::ListenerOfParent;
    if socket.as_ref().is_some_and(is_of_parent) {
        match link::ask(Op::Listen, id) {
            Ok(_) | Err(Errno(libc::EPIPE)) => {}
            Err(error) => return Err(error),
        }
    }
    given.give(number);
    if let Some(socket) = socket {
        socket.drop_rsocket();
    }
    Ok(())
}

/// Whether a child runs. Detects an exit even before the thread has handled it.
fn is_alive(number: u64) -> bool {
    let children = lock(&CHILDREN);
    let found = children.all.iter().find(|child| child.number == number);
    found.is_some_and(|child| {
        let mut entry = poll_set::entry(child.link, 0);
        // SAFETY: the entry is there.
        unsafe { real::poll(&raw mut entry, 1, 0) == 0 }
    })
}

/// Waits at exit until children have taken over or released the connections that they inherited, but
/// at most `limit`.
pub(crate) fn wait_for_all(limit: Duration) {
    let Some(mut children) = lock_at_exit(&CHILDREN) else {
        return;
    };
    let until = Instant::now() + limit;
    while children.all.iter().any(Child::may_want_a_connection) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        let waited = CHANGED.wait_timeout(children, left);
        children = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

impl Child {
    fn may_want_a_connection(&self) -> bool {
        let mut sockets = self.sockets.values();
        sockets.any(|socket| matches!(socket, Inherited::Connection(_)))
    }
}

/// Removes a child that has exited or executed another program.
fn remove_ended(link: c_int) {
    let mut children = lock(&CHILDREN);
    let Some(index) = children.all.iter().position(|child| child.link == link) else {
        return;
    };
    let child = children.all.swap_remove(index);
    drop(children);
    CHANGED.notify_all();
    hidden::close(child.link);
    for socket in child.sockets.values() {
        if let Inherited::Listener(_, given) = socket {
            given.clear(child.number);
        }
    }
    // Closes rsockets, which can take a while.
    drop(child);
}

/// Makes the listener that accepted `connection` refuse further ones over RDMA, so that clients fall
/// back to TCP immediately. A forked child uses the connection, and relaying it takes several times as
/// long as TCP.
fn leave_to_tcp(connection: &Socket) {
    let Some(listener) = connection.listener.upgrade() else {
        return;
    };
    if settings::get().is_only || listener.is_left_to_tcp.swap(true, Ordering::AcqRel) {
        return;
    }
    let shut = rdmacm::shutdown(listener.rs(), libc::SHUT_RD);
    if let (Ok(()), Ok(at)) = (shut, rdmacm::own_name(listener.rs())) {
        say::once(&format!(
            "a forked child uses a connection that was accepted at {at}: further connections use TCP"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// In a process of its own, because the limit is the process's.
    #[test]
    fn a_child_that_cannot_be_served_finds_its_link_closed() {
        const IN_CHILD: &str = "TEST_WITHOUT_DESCRIPTORS";
        if std::env::var_os(IN_CHILD).is_none() {
            let name = "children::tests::a_child_that_cannot_be_served_finds_its_link_closed";
            let mut own = Command::new(std::env::current_exe().expect("this program"));
            let run = own.args(["--exact", name]).env(IN_CHILD, "1").output();
            let run = run.expect("a process");
            let said = String::from_utf8_lossy(&run.stdout);
            assert!(run.status.success() && said.contains("1 passed"), "{run:?}");
            return;
        }
        let [of_parent, of_child] = link::control_pair().expect("a pair");
        let limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the limit can be read.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
        assert_eq!(set, 0);
        add(of_parent, BTreeMap::new());
        assert!(lock(&CHILDREN).all.is_empty(), "nothing serves it");
        assert_eq!(link::receive(of_child), Err(Errno(libc::EPIPE)));
    }
}
