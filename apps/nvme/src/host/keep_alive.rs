//! Keep-alive: a thread tells the controller that the host is alive.

use super::admin::AdminQueue;
use crate::Error;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The thread, which ends when this value is dropped.
#[derive(Debug)]
pub(super) struct KeepAlive {
    /// Closing the channel ends the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Why the controller could not be told.
    failure: Arc<Mutex<Option<Error>>>,
}

impl KeepAlive {
    /// Sends a keep-alive command at once and then twice in each `timeout`.
    pub(super) fn start(admin: Arc<Mutex<AdminQueue>>, timeout: Duration) -> io::Result<Self> {
        let (stop, stopped) = channel();
        let failure = Arc::new(Mutex::new(None));
        let found = Arc::clone(&failure);
        let tell = move || {
            while stopped.recv_timeout(timeout / 2) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = admin.lock().keep_alive() {
                    *found.lock() = Some(error);
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("nvme-keep-alive".to_owned())
            .spawn(tell)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            failure,
        })
    }

    /// Why the controller could not be told that the host is alive, the first time that this is
    /// asked after it happened.
    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }
}

impl Drop for KeepAlive {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, there is nothing left to do here.
            let _ = thread.join();
        }
    }
}
