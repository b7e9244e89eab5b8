//! An open device.

mod paths;
mod state;
#[cfg(test)]
mod stopping;

pub use paths::AddressOptions;

use crate::datapath::{self, Datapath, Layers};
use crate::device::Device;
use crate::error::{OpenError, StartError};
use crate::faults::Faults;
use crate::gid::GidTable;
use crate::runtime::{
    DeviceState, Engine, EventQueue, Injections, Monitor, PersistListener, Persister, Starter,
    port_limits, send_waiting_at_exit, spawn_driver,
};
use crate::settings::{OpenOptions, PrioritySettings};
use crate::tally;
use crate::watch::{self, WatchHandle};
use crate::why::{
    Explanation, FailedConnection, GatheredEvidence, KernelWatch, is_of_lost_packets,
};
use parking_lot::Mutex;
use roce_port::fault::FaultLayer;
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
    pub(crate) shared: Arc<DeviceState>,
    pub(crate) device: Device,
    /// The faults that it injects, with their seed.
    faults: Option<Faults>,
    pub(crate) injections: Option<Injections>,
    pub(crate) priorities: PrioritySettings,
    gids: Mutex<GidTable>,
    /// The connection manager, while it is in use. The module `cm` depends on this one, so the type
    /// is erased here.
    pub(crate) connections: Mutex<Weak<dyn Any + Send + Sync>>,
    driver: Option<JoinHandle<()>>,
    /// Shows the device to programs that watch the process.
    watch_handle: Option<WatchHandle>,
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
        let judge = options.judge()?;
        let injected = judge
            .iter()
            .flat_map(|judge| judge.faults().injections().to_vec());
        let network = options.network_faults()?;
        let faults = network.map(|network| injected.fold(Faults::from(network), Faults::inject));
        let mut injections = judge.map(|judge| Injections::new(judge, &mut nic));
        let (tap, why) = options.tap_and_log(device);
        let layers = Layers {
            faults: network
                .filter(|network| !network.is_faultless())
                .map(|network| FaultLayer::new(network, network.seed.unwrap_or_default())),
            gate: injections.as_ref().and_then(Injections::gate),
            tap,
        };
        let mut engine = Engine::new(nic, port, Arc::new(events), device.name());
        engine.why = why;
        engine.tally = tally::open();
        let starter = Starter::new(device, datapath_options, priorities.priorities, layers)
            .map_err(OpenError::system("making a socket"))?;
        let shared = Arc::new(DeviceState::new(engine, starter)?);
        let listener: Arc<dyn PersistListener> = shared.clone();
        shared.lock().persister = Some(Persister::new(Arc::downgrade(&listener)));
        let driver = spawn_driver(Arc::clone(&shared), Monitor::new(device), &device.name())
            .map_err(OpenError::system("starting the background thread"))?;
        if let Some(injections) = &mut injections {
            let started = injections.start(&shared);
            started.map_err(OpenError::system("starting the thread of timed faults"))?;
        }
        send_waiting_at_exit(&shared);
        let inner = Inner {
            watch_handle: watch::register(device, &shared, options.metrics),
            shared,
            device: device.clone(),
            faults,
            injections,
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

    /// Why a QP failed, as a completion that is not a success or an asynchronous event reports.
    /// `None` if it has not failed, or no longer exists.
    pub fn why(&self, qpn: Qpn) -> Option<Explanation> {
        let engine = self.inner.shared.lock();
        let failure = *engine.nic.failure(qpn)?;
        let kernel = engine.kernel.clone();
        drop(engine);
        // No packet would move meanwhile if the engine were locked.
        let kernel = kernel.as_deref().filter(|_| is_of_lost_packets(&failure));
        let view = kernel.and_then(KernelWatch::look);
        let engine = self.inner.shared.lock();
        engine.nic.failure(qpn)?;
        Some(engine.explain(failure, view.as_ref()))
    }

    /// The [code](crate::why::Cause::code) of why a QP failed.
    pub fn why_code(&self, qpn: Qpn) -> Option<u32> {
        let engine = self.inner.shared.lock();
        Some(engine.nic.failure(qpn)?.cause.code())
    }

    /// Adds to the explanation of a connection whose peer is silent what shows why packets get lost:
    /// the interface, the route, the peer's hardware address, and counters. Sends nothing.
    pub fn add_evidence(&self, failed: &mut FailedConnection) {
        let signs = self.inner.shared.lock().loss_signs();
        failed.add_evidence(&mut GatheredEvidence::new(signs));
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
        // Unregister the device before its state is dropped, so that a watcher never sees a device
        // that is being closed.
        self.watch_handle = None;
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.inner.device.name())
            .finish()
    }
}
