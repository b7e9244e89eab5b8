//! The switch in real time: frames from interfaces, through a fabric, to interfaces.

use crate::frame;
use crate::lag::Lag;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::{read, write};
use roce_sim::fabric::{Fabric, HostId, Step};
use roce_stack::{Duration, Instant};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time;

/// Frames of one host that are read before others have their turn.
const TURN: usize = 32;

/// The most bytes of a frame.
const MAX_FRAME: usize = 65_536;

/// Carries frames between hosts' interfaces.
#[derive(Debug)]
pub(crate) struct Emulator {
    fabric: Fabric,
    ports: Vec<Port>,
    began: time::Instant,
    lag: Lag,
    /// When the last turn ended.
    turned: Instant,
    buffer: Vec<u8>,
    /// Calls of the fabric that have come since the last turn.
    calls: Vec<u64>,
}

/// The events since the last call that the caller must handle.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The calls whose time has come.
    pub(crate) calls: Vec<u64>,
    /// Whether somebody woke it.
    pub(crate) woken: bool,
}

/// The interface of a host.
#[derive(Debug)]
struct Port {
    tap: OwnedFd,
    number: u16,
    /// Whether the link can take a frame.
    has_space: bool,
    /// Whether the host has sent some.
    is_readable: bool,
    /// The most bytes of a frame that a queue counts.
    frame_bytes: usize,
}

impl Emulator {
    /// Connects host `i` of the fabric with interface `i`.
    pub(crate) fn new(mut fabric: Fabric, taps: Vec<OwnedFd>, mtu: usize) -> Self {
        for host in 0..taps.len() {
            fabric.join(HostId(host), frame::EVERYONE);
        }
        let port = |(number, tap)| Port {
            tap,
            number,
            has_space: true,
            is_readable: false,
            frame_bytes: mtu,
        };
        Self {
            fabric,
            ports: (1..).zip(taps).map(port).collect(),
            began: time::Instant::now(),
            lag: Lag::default(),
            turned: Instant::ZERO,
            buffer: vec![0; MAX_FRAME],
            calls: Vec::new(),
        }
    }

    /// How late frames were.
    pub(crate) fn lag(&self) -> &Lag {
        &self.lag
    }

    /// The simulated network.
    pub(crate) fn fabric(&mut self) -> &mut Fabric {
        &mut self.fabric
    }

    /// The time of the fabric that the clock shows.
    fn now(&self) -> Instant {
        let ns = self.began.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Waits until there is something to do, at most until `wakes` is readable, and does it.
    pub(crate) fn turn(&mut self, wakes: &impl AsFd) -> io::Result<Turn> {
        self.handle_events();
        let mut woken = false;
        let mut idle = Duration::ZERO;
        if self.calls.is_empty() {
            let before = self.now();
            woken = self.wait(wakes)?;
            idle = self.now().saturating_duration_since(before);
            self.handle_events();
            for host in 0..self.ports.len() {
                if self.ports[host].is_readable {
                    self.read(host);
                }
            }
        }
        let now = self.now();
        self.lag
            .note_turn(now.saturating_duration_since(self.turned), idle);
        self.turned = now;
        Ok(Turn {
            calls: std::mem::take(&mut self.calls),
            woken,
        })
    }

    /// Lets everything happen whose time has come.
    fn handle_events(&mut self) {
        let now = self.now();
        while let Some(step) = self.fabric.step(now) {
            self.lag
                .note(now.saturating_duration_since(self.fabric.now()));
            match step {
                Step::Internal => {}
                Step::Call(token) => self.calls.push(token),
                Step::Host(host) => {
                    self.ports[host.0].has_space = true;
                    self.deliver(host);
                }
            }
        }
        self.fabric.advance(now);
    }

    fn deliver(&mut self, host: HostId) {
        let tap = &self.ports[host.0].tap;
        let to_interface = |bytes: &[u8]| {
            // A host that is down or has no memory loses it, as from a wire.
            let _ = write(tap, bytes);
        };
        while self.fabric.take(host, to_interface) {}
    }

    /// Waits until a host has sent frames, or the next event is due, or `wakes` is readable, which it
    /// returns.
    fn wait(&mut self, wakes: &impl AsFd) -> io::Result<bool> {
        let mut polled = vec![PollFd::new(wakes.as_fd(), PollFlags::POLLIN)];
        let of_ports = self.ports.iter().map(|port| {
            let events = match port.has_space {
                true => PollFlags::POLLIN,
                false => PollFlags::empty(),
            };
            PollFd::new(port.tap.as_fd(), events)
        });
        polled.extend(of_ports);
        let now = self.now();
        let timeout = self
            .fabric
            .next_event_at()
            .map(|at| at.saturating_duration_since(now))
            .map(TimeSpec::from);
        match ppoll(&mut polled, timeout, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let readable = |fd: &PollFd<'_>| {
            let found = fd.revents().unwrap_or(PollFlags::empty());
            found.contains(PollFlags::POLLIN)
        };
        let readable: Vec<bool> = polled.iter().map(readable).collect();
        for (port, is_readable) in self.ports.iter_mut().zip(&readable[1..]) {
            port.is_readable = *is_readable;
        }
        Ok(readable[0])
    }

    fn read(&mut self, host: usize) {
        for _ in 0..TURN {
            let port = &mut self.ports[host];
            port.has_space = self.fabric.has_space(HostId(host), port.frame_bytes);
            if !port.has_space {
                return;
            }
            // An error is EAGAIN, or the interface is down.
            let Ok(len) = read(&port.tap, &mut self.buffer) else {
                return;
            };
            if let Some(frame) = frame::parse(port.number, &self.buffer[..len]) {
                self.fabric.send(HostId(host), &frame);
            }
        }
    }
}
