//! The interest list of an epoll instance, for the sockets of this library.
//!
//! The kernel's instance holds all other descriptors, and sockets while the kernel answers for them.

use crate::errno::{Errno, Outcome, check};
use crate::socket::{Phase, Socket, lock};
use crate::{eventfd, hidden, real};
use libc::epoll_event;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The data of this library's own descriptor in the kernel's instance. Unlikely as a pointer or a
/// descriptor of the program.
pub(crate) const KNOCK: u64 = u64::from_be_bytes(*b"roceKNCK");

/// A socket in an epoll instance.
pub(crate) struct Member {
    pub(crate) socket: Arc<Socket>,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// Whether the kernel's instance has the kernel's socket.
    pub(crate) in_kernel: bool,
    /// For `EPOLLET`: the reported events, and the program's calls by then.
    pub(crate) reported: u32,
    pub(crate) reads: u32,
    pub(crate) full: u32,
    /// For `EPOLLONESHOT`: whether an event was reported.
    pub(crate) is_disarmed: bool,
}

impl Member {
    fn new(socket: Arc<Socket>, event: epoll_event, in_kernel: bool) -> Self {
        Self {
            reads: socket.reads.load(Ordering::Relaxed),
            full: socket.full.load(Ordering::Relaxed),
            socket,
            events: event.events,
            data: event.u64,
            in_kernel,
            reported: 0,
            is_disarmed: false,
        }
    }

    /// The event to register with the kernel's instance.
    fn kernel_event(&self) -> epoll_event {
        let events = match self.is_disarmed {
            true => libc::EPOLLONESHOT as u32,
            false => self.events,
        };
        epoll_event {
            events,
            u64: self.data,
        }
    }

    /// Whether this library answers for it.
    pub(crate) fn is_ours(&self) -> bool {
        self.socket.phase() != Phase::Fresh
    }
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) members: BTreeMap<c_int, Member>,
    /// The threads that wait for sockets of this library.
    waiting: Vec<Waiting>,
    /// Eventfds for reuse.
    idle: Vec<c_int>,
    /// An eventfd in the kernel's instance, for threads that wait there.
    knock: Option<c_int>,
}

/// A waiting thread.
struct Waiting {
    /// Becomes readable when the set changes.
    changed: c_int,
    has_changed: bool,
}

/// An epoll instance.
#[derive(Default)]
pub(crate) struct Epoll {
    state: Mutex<State>,
    /// The number of threads that wait in the kernel only.
    in_kernel: AtomicUsize,
    /// Counts waits, so that sockets take turns.
    pub(crate) turn: AtomicU32,
}

/// Counts a thread as waiting in the kernel until dropped.
pub(crate) struct InKernel<'a>(&'a Epoll);

impl Drop for InKernel<'_> {
    fn drop(&mut self) {
        self.0.in_kernel.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Epoll {
    /// The caller holds the state's lock, so that later changes wake up the thread.
    pub(crate) fn enter_kernel(&self) -> InKernel<'_> {
        self.in_kernel.fetch_add(1, Ordering::SeqCst);
        InKernel(self)
    }

    /// The instance for a forked child. `to_child` maps the parent's sockets to the child's.
    pub(crate) fn in_child(&self, mut to_child: impl FnMut(&Arc<Socket>) -> Arc<Socket>) -> Self {
        let child = Self::default();
        // A thread that the child lacks may hold the lock.
        if let Ok(state) = self.state.try_lock() {
            let mut of_child = lock(&child.state);
            of_child.knock = state.knock;
            for (fd, member) in &state.members {
                let event = epoll_event {
                    events: member.events,
                    u64: member.data,
                };
                let copy = Member::new(to_child(&member.socket), event, member.in_kernel);
                of_child.members.insert(*fd, copy);
            }
        }
        child
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// `EPOLL_CTL_ADD` of a socket.
    pub(crate) fn add(
        &self,
        epoll: c_int,
        fd: c_int,
        socket: Arc<Socket>,
        event: epoll_event,
    ) -> Outcome<()> {
        let mut state = self.state();
        if state.members.contains_key(&fd) {
            return Err(Errno(libc::EEXIST));
        }
        let in_kernel = matches!(socket.phase(), Phase::Fresh | Phase::Listening);
        if in_kernel {
            control(epoll, libc::EPOLL_CTL_ADD, fd, event)?;
        }
        if state.knock.is_none() {
            state.knock = Some(Self::add_knock(epoll)?);
        }
        state
            .members
            .insert(fd, Member::new(socket, event, in_kernel));
        self.note_change(&mut state);
        Ok(())
    }

    fn add_knock(epoll: c_int) -> Outcome<c_int> {
        let knock = eventfd::create()?;
        let event = epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET) as u32,
            u64: KNOCK,
        };
        control(epoll, libc::EPOLL_CTL_ADD, knock, event).inspect_err(|_| hidden::close(knock))?;
        Ok(knock)
    }

    /// `EPOLL_CTL_MOD`.
    pub(crate) fn modify(&self, epoll: c_int, fd: c_int, event: epoll_event) -> Outcome<()> {
        let mut state = self.state();
        let Some(member) = state.members.get_mut(&fd) else {
            return Err(Errno(libc::ENOENT));
        };
        if member.in_kernel {
            control(epoll, libc::EPOLL_CTL_MOD, fd, event)?;
        }
        *member = Member::new(member.socket.clone(), event, member.in_kernel);
        self.note_change(&mut state);
        Ok(())
    }

    /// `EPOLL_CTL_DEL`.
    pub(crate) fn delete(&self, epoll: c_int, fd: c_int) -> Outcome<()> {
        let mut state = self.state();
        let Some(member) = state.members.remove(&fd) else {
            return Err(Errno(libc::ENOENT));
        };
        self.note_change(&mut state);
        drop(state);
        if member.in_kernel {
            let nothing = epoll_event { events: 0, u64: 0 };
            control(epoll, libc::EPOLL_CTL_DEL, fd, nothing)?;
        }
        Ok(())
    }

    /// Removes a closed descriptor. The kernel removes its own socket.
    pub(crate) fn forget(&self, fd: c_int) {
        let mut state = self.state();
        let removed = state.members.remove(&fd);
        if removed.is_some() {
            self.note_change(&mut state);
        }
        drop(state);
        // May close the rsocket, which can take a while.
        drop(removed);
    }

    /// Removes the socket from the kernel's instance: this library answers from now on.
    pub(crate) fn take_from_kernel(&self, epoll: c_int, fd: c_int) {
        let mut state = self.state();
        if let Some(member) = state.members.get_mut(&fd)
            && std::mem::take(&mut member.in_kernel)
        {
            let nothing = epoll_event { events: 0, u64: 0 };
            // Cannot fail: the kernel has it.
            let _ = control(epoll, libc::EPOLL_CTL_DEL, fd, nothing);
            self.note_change(&mut state);
        }
    }

    /// Returns the socket to the kernel's instance until this library takes it again.
    pub(crate) fn return_to_kernel(&self, epoll: c_int, fd: c_int) {
        let mut state = self.state();
        if let Some(member) = state.members.get_mut(&fd)
            && !std::mem::replace(&mut member.in_kernel, true)
        {
            // An out-of-memory error cannot be reported to anyone.
            let _ = control(epoll, libc::EPOLL_CTL_ADD, fd, member.kernel_event());
            member.reported = 0;
            self.note_change(&mut state);
        }
    }

    /// Gives the socket to the kernel for good.
    pub(crate) fn give_to_kernel(&self, epoll: c_int, fd: c_int) {
        let mut state = self.state();
        let Some(member) = state.members.remove(&fd) else {
            return;
        };
        if !member.in_kernel {
            // An out-of-memory error cannot be reported to anyone.
            let _ = control(epoll, libc::EPOLL_CTL_ADD, fd, member.kernel_event());
        }
        self.note_change(&mut state);
        // Unlock before `member` is dropped, which may close the rsocket.
        drop(state);
    }

    /// Wakes up waiting threads after a socket has changed its phase.
    pub(crate) fn wake(&self) {
        self.note_change(&mut self.state());
    }

    /// Wakes up waiting threads after the interest list has changed.
    fn note_change(&self, state: &mut State) {
        state.wake_waiting();
        self.knock(state);
    }

    /// Wakes up a thread that waits in the kernel. One that is about to wait there checks the list
    /// first.
    fn knock(&self, state: &State) {
        if self.in_kernel.load(Ordering::SeqCst) > 0
            && let Some(knock) = state.knock
        {
            eventfd::signal(knock);
        }
    }

    /// Wakes up threads that wait for sockets of this library.
    pub(crate) fn wake_waiting(&self) {
        self.state().wake_waiting();
    }

    /// Wakes up the next thread that waits in the kernel.
    pub(crate) fn wake_next_in_kernel(&self) {
        self.knock(&self.state());
    }
}

impl State {
    fn wake_waiting(&mut self) {
        for waiting in &mut self.waiting {
            if !std::mem::replace(&mut waiting.has_changed, true) {
                eventfd::signal(waiting.changed);
            }
        }
    }

    /// Returns an eventfd that becomes readable when the list changes.
    pub(crate) fn start_waiting(&mut self) -> Outcome<c_int> {
        let fd = match self.idle.pop() {
            Some(fd) => fd,
            None => eventfd::create()?,
        };
        self.waiting.push(Waiting {
            changed: fd,
            has_changed: false,
        });
        Ok(fd)
    }

    pub(crate) fn stop_waiting(&mut self, fd: c_int) {
        let is_it = |waiting: &mut Waiting| waiting.changed == fd;
        if self
            .waiting
            .extract_if(.., is_it)
            .any(|waiting| waiting.has_changed)
        {
            eventfd::clear(fd);
        }
        self.idle.push(fd);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for fd in self.idle.drain(..).chain(self.knock.take()) {
            hidden::close(fd);
        }
    }
}

fn control(epoll: c_int, operation: c_int, fd: c_int, mut event: epoll_event) -> Outcome<()> {
    // SAFETY: the event can be read.
    check(unsafe { real::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(drop)
}
