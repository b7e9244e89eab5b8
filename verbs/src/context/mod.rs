//! An open device.

#[cfg(feature = "faults")]
mod injecting;
#[cfg_attr(not(feature = "observe"), path = "unobserved.rs")]
mod observing;
mod paths;
mod state;
#[cfg(test)]
mod stopping;

pub(crate) use observing::{ShownWaits, show_wait_for_program};
pub use paths::AddressOptions;

use crate::datapath::{self, Datapath, Layers};
use crate::device::Device;
use crate::error::{OpenError, StartError};
use crate::gid::GidTable;
use crate::runtime::{
    DeviceState, Engine, EventQueue, Injector, Monitor, PersistListener, Persister, Starter,
    port_limits, send_waiting_at_exit, spawn_driver,
};
use crate::settings::{OpenOptions, PrioritySettings};
use parking_lot::Mutex;
use roce_stack::{Nic, NicConfig};
use roce_wire::Qpn;
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// The maximum number of asynchronous events that are queued for the application. If the queue is
/// full, a new event replaces the oldest.
const MAX_EVENTS: usize = 4096;

/// An open device. Cheap to clone. The device is closed when the last clone and all objects made
/// from it are dropped.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

/// The state that a context and its objects share. Dropping it stops the background thread.
pub(crate) struct Inner {
    /// Dropped first: a watcher never sees a device that is being closed.
    observing: observing::Observing,
    #[cfg(feature = "faults")]
    injecting: injecting::Injecting,
    /// Makes the device fail on purpose.
    pub(crate) injector: Option<Arc<dyn Injector>>,
    pub(crate) shared: Arc<DeviceState>,
    pub(crate) device: Device,
    pub(crate) priorities: PrioritySettings,
    gids: Mutex<GidTable>,
    /// The connection manager, while it is in use. The module `cm` depends on this one, so the type
    /// is erased here.
    pub(crate) connections: Mutex<Weak<dyn Any + Send + Sync>>,
    driver: Option<JoinHandle<()>>,
}

impl Context {
    fn open(device: &Device, options: &OpenOptions) -> Result<Self, OpenError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(OpenError::system(
                "drawing a random seed for keys and QP numbers",
            ))?;
        let priorities = options.priorities;
        let datapath_options = options.datapath;
        let port = datapath::placeholder(device, &datapath_options);
        let (max_packet_bytes, window_bytes) = port_limits(&*port, &datapath_options);
        let mut nic = Nic::new(&NicConfig {
            seed,
            max_packet_bytes,
            window_bytes,
        });
        nic.set_congestion(&options.congestion);
        // For the explanation of a failure: docs/adr/0053-flight-recorder.md.
        nic.record_events(true);
        let events = EventQueue::new(MAX_EVENTS).map_err(OpenError::system("making a timerfd"))?;
        let (layers, injector) = (Layers::default(), None);
        #[cfg(feature = "faults")]
        let (mut injecting, layers) = injecting::Injecting::begin(options, &mut nic, layers)?;
        #[cfg(feature = "faults")]
        let injector = injecting.injector().or(injector);
        let engine = Engine::new(nic, port, Arc::new(events));
        let (mut observing, layers, engine) =
            observing::Observing::begin(device, options, layers, engine);
        let starter = Starter::new(device, datapath_options, priorities.priorities, layers)
            .map_err(OpenError::system("making a socket"))?;
        let shared = Arc::new(DeviceState::new(engine, starter)?);
        let listener: Arc<dyn PersistListener> = shared.clone();
        shared.lock().persister = Some(Persister::new(Arc::downgrade(&listener)));
        let driver = spawn_driver(Arc::clone(&shared), Monitor::new(device), &device.name())
            .map_err(OpenError::system("starting the background thread"))?;
        #[cfg(feature = "faults")]
        injecting.start(&shared)?;
        send_waiting_at_exit(&shared);
        observing.show(&shared, device, options);
        let inner = Inner {
            observing,
            #[cfg(feature = "faults")]
            injecting,
            injector,
            shared,
            device: device.clone(),
            priorities,
            gids: Mutex::new(GidTable::new(
                &device.known_addresses(),
                datapath_options.roce_v1,
            )),
            connections: Mutex::new(Weak::<()>::new()),
            driver: Some(driver),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// How the device's packets get to the network and back, and why that way was chosen. `None`
    /// until the datapath has started. [`Device::datapath`] predicts the choice.
    ///
    /// Opening a device touches no interface. The datapath starts when an address is first needed:
    /// by [`Context::path`], a QP that goes to RTR, a listener, or a multicast group. It runs until
    /// the device is closed.
    pub fn datapath(&self) -> Option<&Datapath> {
        self.inner.shared.starter.datapath()
    }

    /// Starts the datapath, unless it has started already. Calls that need it also start it, so
    /// only a program that wants to know early whether it can start calls this. The calling
    /// thread's network namespace must be the device's.
    ///
    /// # Errors
    /// If the requested datapath is not available, no range of QP numbers is free, or the device has
    /// stopped for good.
    pub fn start(&self) -> Result<&Datapath, StartError> {
        let shared = &self.inner.shared;
        shared.start(&mut shared.lock())
    }

    /// The [code](roce_stack::Cause::code) of why a QP failed.
    pub fn why_code(&self, qpn: Qpn) -> Option<u32> {
        let engine = self.inner.shared.lock();
        Some(engine.nic.failure(qpn)?.cause.code())
    }

    /// Drives the NIC once: sends, receives, and handles timers. A program that polls memory for a
    /// peer's writes calls this in its loop. Returns whether anything happened.
    pub fn drive(&self) -> bool {
        self.inner.shared.drive()
    }

    /// Leaves the NIC to the background thread, which drives it from now on without first waiting
    /// for further calls by the application. For programs that wait on descriptors themselves.
    pub fn hand_over(&self) {
        self.inner.shared.hand_over();
    }
}

impl Device {
    /// Opens the device with the environment's settings. [`OpenOptions`] can set them in the
    /// program.
    ///
    /// One lock guards all state of a [`Context`]. Threads that communicate at the same time should
    /// each open the device: contexts share UDP port 4791, but they have separate locks.
    ///
    /// # Errors
    /// If the operating system refuses a thread or a descriptor, or an environment variable is
    /// malformed.
    pub fn open(&self) -> Result<Context, OpenError> {
        OpenOptions::from_env()?.open(self)
    }
}

impl OpenOptions {
    /// Opens the device. This touches no interface: see [`Context::datapath`].
    ///
    /// # Errors
    /// If the operating system refuses a thread or a descriptor.
    pub fn open(&self, device: &Device) -> Result<Context, OpenError> {
        Context::open(device, self)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake_driver();
        if let Some(driver) = self.driver.take() {
            let _ = driver.join();
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.inner.device.name())
            .finish()
    }
}
