//! What an epoll instance of the program waits for on the sockets of this library.
//!
//! The kernel's instance holds all other descriptors, and sockets for as long as the kernel answers
//! for them.

use crate::errno::{Errno, Outcome, check};
use crate::socket::{Phase, Socket, lock};
use crate::{hidden, real};
use libc::epoll_event;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The data of this library's own descriptor in the kernel's instance: no address, no small number.
pub(crate) const KNOCK: u64 = u64::from_be_bytes(*b"roceKNCK");

/// A socket in an epoll instance.
pub(crate) struct Member {
    pub(crate) socket: Arc<Socket>,
    pub(crate) events: u32,
    pub(crate) data: u64,
    /// Whether the kernel's instance has the kernel's socket.
    pub(crate) in_kernel: bool,
    /// For `EPOLLET`: what was reported, and the calls of the program by then.
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

    /// What the kernel's instance gets for it.
    fn of_kernel(&self) -> epoll_event {
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
    /// Eventfds that no thread waits for.
    idle: Vec<c_int>,
    /// An eventfd in the kernel's instance, for threads that wait there.
    knock: Option<c_int>,
}

/// A thread that waits.
struct Waiting {
    /// Becomes readable when the set changes.
    changed: c_int,
    has_changed: bool,
}

/// An epoll instance.
#[derive(Default)]
pub(crate) struct Epoll {
    state: Mutex<State>,
    /// Threads that wait in the kernel, for nothing of this library's.
    in_kernel: AtomicUsize,
    /// Counts waits, so that sockets take turns.
    pub(crate) turn: AtomicU32,
}

/// While it exists, a thread waits in the kernel.
pub(crate) struct InKernel<'a>(&'a Epoll);

impl Drop for InKernel<'_> {
    fn drop(&mut self) {
        self.0.in_kernel.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Epoll {
    /// Called with the state locked: who changes it then wakes up the thread.
    pub(crate) fn enter_kernel(&self) -> InKernel<'_> {
        self.in_kernel.fetch_add(1, Ordering::SeqCst);
        InKernel(self)
    }

    /// The instance in a forked child, where `to_child` finds the child's socket.
    pub(crate) fn in_child(&self, mut to_child: impl FnMut(&Arc<Socket>) -> Arc<Socket>) -> Self {
        let child = Self::default();
        // A thread that the child does not have may hold the lock.
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
        let knock = eventfd()?;
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

    /// Forgets a descriptor that is closed. The kernel forgets its socket by itself.
    pub(crate) fn forget(&self, fd: c_int) {
        let mut state = self.state();
        let removed = state.members.remove(&fd);
        if removed.is_some() {
            self.note_change(&mut state);
        }
        drop(state);
        // This may close the rsocket, which can take a while.
        drop(removed);
    }

    /// This library answers for the socket from now on, and no longer the kernel.
    pub(crate) fn take_from_kernel(&self, epoll: c_int, fd: c_int) {
        let mut state = self.state();
        if let Some(member) = state.members.get_mut(&fd)
            && std::mem::take(&mut member.in_kernel)
        {
            let nothing = epoll_event { events: 0, u64: 0 };
            // It is there.
            let _ = control(epoll, libc::EPOLL_CTL_DEL, fd, nothing);
            self.note_change(&mut state);
        }
    }

    /// The kernel answers for the socket until this library does so again.
    pub(crate) fn return_to_kernel(&self, epoll: c_int, fd: c_int) {
        let mut state = self.state();
        if let Some(member) = state.members.get_mut(&fd)
            && !std::mem::replace(&mut member.in_kernel, true)
        {
            // If the kernel has no memory for it, nobody can be told.
            let _ = control(epoll, libc::EPOLL_CTL_ADD, fd, member.of_kernel());
            member.reported = 0;
            self.note_change(&mut state);
        }
    }

    /// The kernel answers for the socket from now on.
    pub(crate) fn give_to_kernel(&self, epoll: c_int, fd: c_int) {
        let mut state = self.state();
        let Some(member) = state.members.remove(&fd) else {
            return;
        };
        if !member.in_kernel {
            // If the kernel has no memory for it, nobody can be told.
            let _ = control(epoll, libc::EPOLL_CTL_ADD, fd, member.of_kernel());
        }
        self.note_change(&mut state);
        // Before the member, whose end may close the rsocket.
        drop(state);
    }

    /// Wakes up threads that wait, as a socket has changed its phase.
    pub(crate) fn wake(&self) {
        self.note_change(&mut self.state());
    }

    /// Wakes up threads that wait for a set which is now another.
    fn note_change(&self, state: &mut State) {
        state.wake_waiting();
        // A thread that is not in the kernel yet looks at the set before.
        if self.in_kernel.load(Ordering::SeqCst) > 0
            && let Some(knock) = state.knock
        {
            write(knock);
        }
    }

    /// Wakes up threads that wait for sockets of this library.
    pub(crate) fn wake_waiting(&self) {
        self.state().wake_waiting();
    }

    /// Wakes up the next thread that waits in the kernel.
    pub(crate) fn pass_on(&self) {
        if self.in_kernel.load(Ordering::SeqCst) > 0
            && let Some(knock) = self.state().knock
        {
            write(knock);
        }
    }
}

impl State {
    fn wake_waiting(&mut self) {
        for waiting in &mut self.waiting {
            if !std::mem::replace(&mut waiting.has_changed, true) {
                write(waiting.changed);
            }
        }
    }

    /// An eventfd that becomes readable when the set changes.
    pub(crate) fn start_waiting(&mut self) -> Outcome<c_int> {
        let fd = match self.idle.pop() {
            Some(fd) => fd,
            None => eventfd()?,
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
            let mut count = 0_u64;
            // SAFETY: there is room for the count. The descriptor does not block.
            unsafe { real::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
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

fn eventfd() -> Outcome<c_int> {
    // SAFETY: only numbers are passed.
    let made = unsafe { real::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    check(hidden::hide(made))
}

fn write(eventfd: c_int) {
    let one = 1_u64;
    // SAFETY: the value can be read. A counter that is full is readable, too.
    unsafe { real::write(eventfd, (&raw const one).cast(), size_of::<u64>()) };
}

fn control(epoll: c_int, operation: c_int, fd: c_int, mut event: epoll_event) -> Outcome<()> {
    // SAFETY: the event can be read.
    check(unsafe { real::epoll_ctl(epoll, operation, fd, &raw mut event) }).map(drop)
}
