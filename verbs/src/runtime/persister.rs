//! Threads that make memory durable, so that the threads that drive the NIC need not wait.

use parking_lot::{Condvar, Mutex};
use roce_stack::{Persist, Persisted};
use roce_trust::signals;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::Duration;

/// The most threads of an open device. Each waits for one file at a time.
const MAX_THREADS: usize = 16;

/// How long a thread waits for more work before it ends.
const LINGER: Duration = Duration::from_secs(1);

/// The device, which the results are for.
pub(crate) trait PersistListener: Send + Sync {
    /// Continues with what waited for durable memory.
    fn finish_persist(&self, done: Persisted);
}

/// The threads of an open device. There is none until one is needed.
pub(crate) struct Persister {
    device: Weak<dyn PersistListener>,
    work: Mutex<Work>,
    /// Wakes an idle thread.
    more: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    waiting: VecDeque<Persist>,
    threads: usize,
    idle: usize,
}

impl Persister {
    pub(crate) fn new(device: Weak<dyn PersistListener>) -> Arc<Self> {
        Arc::new(Self {
            device,
            work: Mutex::default(),
            more: Condvar::new(),
        })
    }

    /// Takes over a request. Returns it if there is no thread to run it.
    pub(super) fn submit(self: &Arc<Self>, persist: Persist) -> Result<(), Persist> {
        let mut work = self.work.lock();
        if work.idle <= work.waiting.len() && work.threads < MAX_THREADS {
            let persister = Arc::clone(self);
            let thread = Builder::new().name("roce-persist".to_owned());
            match signals::spawn(thread, move || persister.run()) {
                Ok(_) => work.threads += 1,
                Err(_) if work.threads == 0 => return Err(persist),
                Err(_) => {}
            }
        }
        work.waiting.push_back(persist);
        self.more.notify_one();
        Ok(())
    }

    /// Runs requests, until none has come for a while, or the device is closed.
    fn run(&self) {
        // Its own work takes microseconds, and a peer waits for it.
        let _ = roce_udp::prefer_short_turns();
        while let Some(persist) = self.next() {
            let done = persist.run();
            let Some(device) = self.device.upgrade() else {
                break;
            };
            device.finish_persist(done);
        }
    }

    /// The next request. `None` if the thread shall end; it is then no longer counted.
    fn next(&self) -> Option<Persist> {
        let mut work = self.work.lock();
        work.idle += 1;
        let mut timed_out = false;
        loop {
            if let Some(persist) = work.waiting.pop_front() {
                work.idle -= 1;
                return Some(persist);
            }
            if timed_out || self.device.strong_count() == 0 {
                work.idle -= 1;
                work.threads -= 1;
                return None;
            }
            timed_out = self.more.wait_for(&mut work, LINGER).timed_out();
        }
    }
}
