//! The lock around the engine.

use super::Engine;
use parking_lot::{Mutex, MutexGuard};
use std::hint::cold_path;
use std::ops::{Deref, DerefMut};
use std::thread;

/// The engine, behind its lock. A panic of a thread that holds it leaves the NIC in the middle of a
/// change, so the device is then stopped for good ([`Engine::stop`]).
pub(crate) struct EngineLock(Mutex<Engine>);

impl EngineLock {
    pub(crate) fn new(engine: Engine) -> Self {
        Self(Mutex::new(engine))
    }

    /// Locks, waiting for other threads.
    pub(crate) fn lock(&self) -> EngineGuard<'_> {
        EngineGuard::new(self.0.lock())
    }

    /// Locks, unless another thread has the lock.
    pub(crate) fn try_lock(&self) -> Option<EngineGuard<'_>> {
        self.0.try_lock().map(EngineGuard::new)
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

pub(crate) struct EngineGuard<'a> {
    engine: MutexGuard<'a, Engine>,
    /// Whether the thread was already unwinding when it locked the engine, for example in a
    /// destructor: its panic has then nothing to do with the engine.
    was_panicking: bool,
}

impl<'a> EngineGuard<'a> {
    fn new(engine: MutexGuard<'a, Engine>) -> Self {
        Self {
            engine,
            was_panicking: thread::panicking(),
        }
    }
}

impl Deref for EngineGuard<'_> {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for EngineGuard<'_> {
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for EngineGuard<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.was_panicking {
            cold_path();
            self.engine.stop();
        }
    }
}
