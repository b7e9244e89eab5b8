//! The parent's side of a fork: a thread that hands connections over to children.

use crate::errno::{Errno, Outcome};
use crate::link::{self, Message, What};
use crate::signals::Blocked;
use crate::socket::{Given, Phase, Socket, lock, lock_at_exit};
use crate::{forked, hidden, inside, parent, real, relay};
use libc::pollfd;
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
    /// A connection, whose rsocket stays for as long as it is here.
    Connection(Arc<Socket>),
    /// A listener, which this process may close.
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
    /// An eventfd that tells the thread of a new child, once there is a thread.
    knock: Option<c_int>,
}

static CHILDREN: Mutex<Children> = Mutex::new(Children {
    all: Vec::new(),
    knock: None,
});

/// Signalled when a child wants fewer connections than before.
static CHANGED: Condvar = Condvar::new();

/// Held while a connection is handed over, so that no other child gets a copy of it.
static HANDING_OVER: Mutex<()> = Mutex::new(());

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The locks that a fork holds.
pub(crate) fn held() -> (MutexGuard<'static, ()>, MutexGuard<'static, Children>) {
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

/// Serves a new child.
pub(crate) fn add(link: c_int, sockets: BTreeMap<u64, Inherited>) {
    let mut children = lock(&CHILDREN);
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    children.all.push(Child {
        number,
        link,
        sockets,
    });
    match children.knock {
        Some(knock) => write(knock),
        None => children.knock = start(),
    }
}

fn write(knock: c_int) {
    let one = 1_u64;
    // SAFETY: the value can be read.
    unsafe { real::write(knock, (&raw const one).cast(), size_of::<u64>()) };
}

fn start() -> Option<c_int> {
    // SAFETY: only numbers are passed.
    let made = unsafe { real::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    let knock = hidden::hide(made);
    let _blocked = Blocked::all();
    let _inside = inside::Inside::enter();
    let thread = std::thread::Builder::new().name(String::from("roce-children"));
    match thread.spawn(move || serve(knock)) {
        Ok(_) => Some(knock),
        Err(_) => {
            hidden::close(knock);
            None
        }
    }
}

fn serve(knock: c_int) {
    loop {
        let entry = |fd| pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut fds = vec![entry(knock)];
        fds.extend(lock(&CHILDREN).all.iter().map(|child| entry(child.link)));
        // SAFETY: the entries are there.
        if unsafe { real::poll(fds.as_mut_ptr(), fds.len() as _, -1) } < 0 {
            continue;
        }
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            if fd.fd == knock {
                let mut count = 0_u64;
                // SAFETY: there is room for the count.
                unsafe { real::read(knock, (&raw mut count).cast(), size_of::<u64>()) };
            } else {
                answer(fd.fd);
            }
        }
    }
}

fn answer(link: c_int) {
    let Ok((Message { what, id }, _)) = link::receive(link) else {
        return end(link);
    };
    let result = match what {
        What::Use | What::Keep => return hand_over(link, id, what == What::Use),
        What::Release => {
            drop(take(link, id));
            return CHANGED.notify_all();
        }
        What::Listen => stop_listening(link, id),
        What::Granted | What::Refused => Err(Errno(libc::EINVAL)),
    };
    let what = match result {
        Ok(()) => What::Granted,
        Err(_) => What::Refused,
    };
    // A child that has ended is noticed next.
    let _ = link::send(link, Message { what, id }, None);
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
    let what = match (&socket, started) {
        (Some(Inherited::Connection(socket)), Ok(_)) => {
            forked::leave_to_tcp(socket);
            What::Granted
        }
        _ => What::Refused,
    };
    // A child that has ended is noticed next.
    let _ = link::send(link, Message { what, id }, started.ok());
    if let Ok(of_child) = started {
        hidden::close(of_child);
    }
    CHANGED.notify_all();
}

/// Stops to listen over RDMA, unless this process accepts connections itself or another child does.
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
    if socket.as_ref().is_some_and(is_used) || is_there(given.to()) {
        return refused;
    }
    let is_of_parent = |socket: &Arc<Socket>| socket.phase() == Phase::ListenerOfParent;
    if socket.as_ref().is_some_and(is_of_parent) {
        match parent::ask(What::Listen, id) {
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

/// Whether a child is there that has not ended, even if that is not noticed yet.
fn is_there(number: u64) -> bool {
    let children = lock(&CHILDREN);
    let found = children.all.iter().find(|child| child.number == number);
    found.is_some_and(|child| {
        let mut entry = pollfd {
            fd: child.link,
            events: 0,
            revents: 0,
        };
        // SAFETY: the entry is there.
        unsafe { real::poll(&raw mut entry, 1, 0) == 0 }
    })
}

/// Waits, at the end of the process, until children have the connections that they inherited, or
/// until the limit.
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

/// A child has ended, or executed another program.
fn end(link: c_int) {
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
            given.ended(child.number);
        }
    }
    // This closes rsockets, which can take a while.
    drop(child);
}
