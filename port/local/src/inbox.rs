//! The lanes that other devices have offered.

use crate::doorbell::{Doorbell, Doorbells};
use crate::ring::Receiver;
use roce_port::Offers;
use std::any::Any;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A lane that leads to this device.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) ring: Receiver,
    /// The address of this device.
    pub(crate) at: IpAddr,
    /// Whether the sender is gone, so that no more packets come.
    pub(crate) has_ended: Arc<AtomicBool>,
    /// Rung by the sender.
    pub(crate) doorbell: Doorbell,
    _place: Place,
}

/// Takes lanes for a device, until the device's port picks them up.
#[derive(Debug)]
pub struct Inbox {
    waiting: Mutex<Vec<Incoming>>,
    /// The number of those that wait.
    count: AtomicUsize,
    /// The number of places left.
    places: Arc<AtomicUsize>,
    doorbells: Doorbells,
    wants_icrc: bool,
}

impl Inbox {
    pub(crate) fn new(wants_icrc: bool, most: usize) -> io::Result<Self> {
        Ok(Self {
            waiting: Mutex::default(),
            count: AtomicUsize::new(0),
            places: Arc::new(AtomicUsize::new(most)),
            doorbells: Doorbells::new()?,
            wants_icrc,
        })
    }

    pub(crate) fn doorbells(&self) -> &Doorbells {
        &self.doorbells
    }

    /// Whether lanes wait to be picked up.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// The lanes that were offered since the last call.
    #[inline]
    pub(crate) fn pick_up(&self) -> Vec<Incoming> {
        if !self.has_any() {
            return Vec::new();
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *waiting)
    }
}

impl Offers for Inbox {
    fn take(&self, at: IpAddr, file: OwnedFd) -> Option<(Box<dyn Any + Send>, OwnedFd)> {
        let place = Place::take(&self.places)?;
        let ring = Receiver::open(file.as_fd(), self.wants_icrc).ok()?;
        if ring.source().is_ipv6() != at.is_ipv6() {
            return None;
        }
        let (doorbell, descriptor) = self.doorbells.add().ok()?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let incoming = Incoming {
            ring,
            at,
            has_ended: Arc::clone(&has_ended),
            doorbell,
            _place: place,
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(incoming);
        self.count.store(waiting.len(), Ordering::Release);
        drop(waiting);
        self.doorbells.ring();
        Some((Box::new(Ended(has_ended)), descriptor))
    }
}

/// The place of a lane, given back when dropped.
#[derive(Debug)]
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(places: &Arc<AtomicUsize>) -> Option<Self> {
        let one_less = |left: usize| left.checked_sub(1);
        let taken = places.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        taken.ok().map(|_| Self(Arc::clone(places)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes, when it is dropped, that the sender of a lane is gone.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
