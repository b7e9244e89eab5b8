//! An open device.

use crate::cm;
use crate::completion::CompletionChannel;
use crate::completion::CompletionQueue;
use crate::datapath::{self, Datapath, XdpQueue};
use crate::device::Device;
use crate::error::{ConnectError, OpenError, StartError};
use crate::events::{AsyncEvents, MAX_EVENTS};
use crate::gid::{Gid, GidEntry, GidTable};
use crate::memory::DeviceMemory;
use crate::pd::ProtectionDomain;
use crate::qp::AddressOptions;
use crate::qp::XrcDomain;
use crate::runtime::Announcements;
use crate::runtime::DeviceClock;
use crate::runtime::Engine;
use crate::runtime::Monitor;
use crate::runtime::driver;
use crate::runtime::start::{self, Starter};
use crate::settings::OpenOptions;
use crate::settings::PrioritySettings;
use crate::tally;
use crate::watch::{self, Opened, Registration};
use nix::sys::eventfd::{EfdFlags, EventFd};
use parking_lot::{Mutex, MutexGuard};
use roce_port::fault::{FaultLayer, FaultSpec};
use roce_port::{Port, PortError};
use roce_stack::{
    BufferRange, Counters, Event, Instant, Nic, NicConfig, QpnPart, RoceVersion, TxMeta,
};
use std::hint::cold_path;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// An open device. Cheap to clone; the device is closed when the last clone and all
/// objects made from it are gone.
#[derive(Clone)]
pub struct Context {
    pub(crate) inner: Arc<Inner>,
}

/// What a context and its objects share; stops the background thread at the end.
pub(crate) struct Inner {
    pub(crate) shared: Arc<Shared>,
    pub(crate) device: Device,
    pub(crate) priorities: PrioritySettings,
    gids: Mutex<GidTable>,
    /// The connection manager, while somebody has it.
    pub(crate) connections: cm::Slot,
    driver: Option<JoinHandle<()>>,
    /// Whoever watches the process is told of the device.
    watched: Option<Registration>,
}

impl Inner {
    /// The GID table as of now, and the addresses that it was made from. If the system does not
    /// tell the interface's addresses, it has those that it had.
    fn gids_now(&self) -> (MutexGuard<'_, GidTable>, Vec<IpAddr>) {
        let mut table = self.gids.lock();
        if let Ok(addresses) = self.device.addresses() {
            table.follow(&addresses);
        }
        let addresses = table.addresses();
        (table, addresses)
    }
}

/// What the background thread sees of it.
pub(crate) struct Shared {
    pub(crate) engine: Mutex<Engine>,
    /// Wakes the background thread.
    pub(crate) wake: EventFd,
    pub(crate) driver_sleeps: AtomicBool,
    pub(crate) stop: AtomicBool,
    next_cq: AtomicU64,
    pub(crate) clock: DeviceClock,
    /// When an application thread last drove the NIC: nanoseconds as the stack counts
    /// them, plus one; 0 for never, or when it said that it will wait now.
    last_call: AtomicU64,
    calls: AtomicU64,
    /// What has been started. Its part of the QP numbers is free for others once the engine's
    /// port is closed, so it comes after the engine.
    pub(crate) starter: Starter,
}

impl Shared {
    /// An application thread is about to drive the NIC. What time it is: the clock
    /// is read once a call.
    pub(crate) fn note_call(&self) -> Instant {
        let now = self.now();
        self.last_call.store(now.as_nanos() + 1, Ordering::Relaxed);
        // Not one atomic step: that would cost each call more than the count is worth.
        self.calls.store(self.calls() + 1, Ordering::Relaxed);
        self.wake_sleeping_driver();
        now
    }

    /// For an application thread that posts: the time, and the engine.
    pub(crate) fn lock_to_post(&self) -> (Instant, MutexGuard<'_, Engine>) {
        let now = self.note_call();
        let mut engine = self.engine.lock();
        self.wake_sleeping_driver();
        (engine.at(now), engine)
    }

    /// To be called with the engine locked, too: since the call was noted, this thread may have
    /// lost its processor for so long that the background thread fell asleep. That says so
    /// before it takes the lock to look for work. So either it sees what is posted now, or it
    /// is seen here that it sleeps, perhaps until a packet comes that nothing sends.
    fn wake_sleeping_driver(&self) {
        if self.driver_sleeps.load(Ordering::Relaxed) {
            cold_path();
            if self.driver_sleeps.swap(false, Ordering::SeqCst) {
                self.wake_driver();
            }
        }
    }

    /// An application thread stops driving and waits: the background thread's turn.
    pub(crate) fn hand_over(&self) {
        self.last_call.store(0, Ordering::Relaxed);
        self.wake_driver();
    }

    /// How often application threads have called so far, about: of calls at the same
    /// time, some may not count.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn application_called_within(&self, span: Duration) -> bool {
        let last = self.last_call.load(Ordering::Relaxed);
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        last != 0 && self.now().as_nanos().saturating_sub(last) < span
    }

    /// The time as the stack counts it.
    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Which QP numbers are this context's, once something has needed some.
    pub(crate) fn part(&self) -> Option<QpnPart> {
        self.starter.part()
    }

    pub(crate) fn wake_driver(&self) {
        // Full means that it is about to wake already.
        let _ = self.wake.write(1);
    }

    pub(crate) fn clear_wake(&self) {
        let _ = self.wake.read();
    }

    /// Drives the NIC, unless another thread is at it. Returns whether anything
    /// happened.
    pub(crate) fn drive(&self) -> bool {
        let now = self.note_call();
        self.engine.try_lock().is_some_and(|mut engine| {
            self.wake_sleeping_driver();
            engine.progress(now)
        })
    }

    /// The engine, for a change that has to be made now.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock()
    }
}

impl Context {
    pub(crate) fn open(device: &Device, options: &OpenOptions) -> Result<Self, OpenError> {
        let system = |what| move |source| OpenError::System { what, source };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| std::io::Error::other(error.to_string()))
            .map_err(system("drawing a random seed for keys and QP numbers"))?;
        let priorities = *options.priority_settings();
        let datapath_options = *options.datapath_options();
        let port = datapath::idle(device, &datapath_options);
        let (max_packet_bytes, window_bytes) = start::limits(&port, &datapath_options);
        let mut nic = Nic::new(&NicConfig {
            seed,
            max_packet_bytes,
            window_bytes,
        });
        nic.set_congestion(options.congestion_settings());
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = EventFd::from_value_and_flags(0, flags)
            .map_err(std::io::Error::from)
            .map_err(system("making an eventfd"))?;
        let events = Announcements::new(MAX_EVENTS).map_err(system("making an eventfd"))?;
        let mut engine = Engine::new(nic, port, options.fault_layer()?, Arc::new(events));
        engine.capture = options.port_capture(device);
        engine.tally = tally::open();
        let shared = Arc::new(Shared {
            engine: Mutex::new(engine),
            wake,
            driver_sleeps: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            next_cq: AtomicU64::new(1),
            clock: DeviceClock::start().map_err(system("reading the clock"))?,
            last_call: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            starter: Starter::new(device, datapath_options, priorities.priorities)
                .map_err(system("making a socket"))?,
        });
        let driver = driver::spawn(Arc::clone(&shared), Monitor::new(device), &device.name())
            .map_err(system("starting the background thread"))?;
        let opened = Opened {
            device: device.name(),
            interface: device.interface().name.clone(),
            shared: Arc::clone(&shared),
        };
        let inner = Inner {
            watched: watch::register(opened, options.metrics_address()),
            shared,
            device: device.clone(),
            priorities,
            gids: Mutex::new(GidTable::new(
                &device.known_addresses(),
                datapath_options.roce_v1,
            )),
            connections: cm::Slot::default(),
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

    /// How its packets get to the network and back, and why not otherwise; `None` until its
    /// datapath has started. [`Device::datapath`] says what would be taken.
    ///
    /// Opening a device touches no interface. The datapath starts with the first address that
    /// is needed: by [`Context::path`], a QP that goes to RTR, a listener, or a multicast group.
    /// It runs until the device is closed.
    pub fn datapath(&self) -> Option<&Datapath> {
        self.inner.shared.starter.datapath()
    }

    /// Starts the datapath, unless it has started already. What needs it starts it anyway: this
    /// is for programs that want to know beforehand. The calling thread's network namespace
    /// must be the device's.
    ///
    /// # Errors
    /// If the datapath that was asked for can't be had, or no part of the QP numbers is free.
    pub fn start(&self) -> Result<&Datapath, StartError> {
        let shared = &self.inner.shared;
        shared.start(&mut shared.lock())
    }

    /// The GID table as of now; it follows the interface's addresses. An entry keeps
    /// its index as long as it is there.
    pub fn gids(&self) -> Vec<GidEntry> {
        self.inner.gids_now().0.entries()
    }

    /// The index of the GID table's entry for one of the device's addresses, by RoCEv2 if there is
    /// one of that.
    ///
    /// # Errors
    /// [`ConnectError::UnknownAddress`] if the device does not have the address; it says which
    /// ones it has.
    pub fn gid_index(&self, address: IpAddr) -> Result<u8, ConnectError> {
        let entries = self.gids();
        let ours = entries.iter().filter(|entry| entry.gid.ip() == address);
        let best = ours.min_by_key(|entry| entry.version != RoceVersion::V2);
        best.map(|entry| entry.index)
            .ok_or_else(|| ConnectError::UnknownAddress {
                address,
                known: entries.iter().map(|entry| entry.gid.ip()).collect(),
            })
    }

    /// Memory of the device: `len` zero bytes, at most
    /// [`MAX_DEVICE_MEMORY_BYTES`](crate::MAX_DEVICE_MEMORY_BYTES).
    ///
    /// # Errors
    /// If that is more than there can be.
    pub fn alloc_device_memory(&self, len: usize) -> Result<DeviceMemory, BufferRange> {
        DeviceMemory::new(len)
    }

    /// A new protection domain.
    pub fn alloc_pd(&self) -> ProtectionDomain {
        ProtectionDomain::new(self.clone())
    }

    /// A new XRC domain.
    pub fn create_xrcd(&self) -> XrcDomain {
        XrcDomain::new(self.clone())
    }

    /// A completion queue with room for `capacity` completions, to be polled.
    pub fn create_cq(&self, capacity: usize) -> CompletionQueue {
        let id = self.inner.shared.next_cq.fetch_add(1, Ordering::Relaxed);
        CompletionQueue::new(self.clone(), roce_stack::CqId(id), capacity, None)
    }

    /// A completion queue whose events go to `channel`.
    pub fn create_cq_with_channel(
        &self,
        capacity: usize,
        channel: &CompletionChannel,
    ) -> CompletionQueue {
        let id = self.inner.shared.next_cq.fetch_add(1, Ordering::Relaxed);
        CompletionQueue::new(self.clone(), roce_stack::CqId(id), capacity, Some(channel))
    }

    /// A channel on which completion queues announce completions.
    ///
    /// # Errors
    /// If the operating system has no descriptor left.
    pub fn create_channel(&self) -> Result<CompletionChannel, OpenError> {
        CompletionChannel::new(self.clone()).map_err(|source| OpenError::System {
            what: "making an eventfd",
            source,
        })
    }

    /// The asynchronous events, such as a QP's failure, to be waited for.
    pub fn async_events(&self) -> AsyncEvents {
        let queue = Arc::clone(&self.inner.shared.lock().events);
        AsyncEvents::new(self.clone(), queue)
    }

    /// Takes the next asynchronous event, if there is one already.
    pub fn poll_event(&self) -> Option<Event> {
        let queue = Arc::clone(&self.inner.shared.lock().events);
        queue.poll()
    }

    /// Drives the NIC once: sends, receives, sees to timers. Programs that watch
    /// memory for what a peer writes call it while they do. Returns whether anything
    /// happened.
    pub fn drive(&self) -> bool {
        self.inner.shared.drive()
    }

    /// Says that the calling thread will not drive the NIC for a while: the background
    /// thread does from now on, without waiting to see whether the application calls
    /// again. For programs that wait on descriptors themselves.
    pub fn hand_over(&self) {
        self.inner.shared.hand_over();
    }

    /// What the NIC has counted so far.
    pub fn counters(&self) -> Counters {
        self.inner.shared.lock().nic.counters().clone()
    }

    /// What the port has counted so far, by name; with faults, what they did, too.
    pub fn port_counters(&self) -> Vec<(&'static str, u64)> {
        self.inner.shared.lock().each_port_counter()
    }

    /// Where this process's metrics are to be had, if that was asked for
    /// ([`OpenOptions::metrics`]) and the address was free.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.watched.as_ref()?.metrics()
    }

    /// The queues that AF_XDP uses, each with what it has counted so far; none with UDP
    /// sockets.
    pub fn xdp_queues(&self) -> Vec<XdpQueue> {
        self.inner.shared.lock().port.xdp_queues()
    }

    /// The faults that packets suffer here, if there are any, with their seed.
    pub fn faults(&self) -> Option<FaultSpec> {
        let engine = self.inner.shared.lock();
        engine.faults.as_ref().map(FaultLayer::spec)
    }

    /// The port's failure, if it failed for good (its interface went away).
    pub fn failure(&self) -> Option<String> {
        self.inner
            .shared
            .lock()
            .failure
            .as_ref()
            .map(PortError::to_string)
    }

    /// The GID at an index and what carries its packets, and the addresses that the
    /// interface has.
    pub(crate) fn gid_at(
        &self,
        index: u8,
    ) -> Result<(Gid, RoceVersion, Vec<IpAddr>), ConnectError> {
        let (table, addresses) = self.inner.gids_now();
        match table.get(index) {
            Some((gid, version)) => Ok((gid, version, addresses)),
            None => Err(ConnectError::UnknownGid {
                index,
                known: table.entries().iter().map(|entry| entry.index).collect(),
            }),
        }
    }

    /// Makes the addresses of all GIDs usable: a UD QP that is not bound to one of them
    /// takes what is sent to any. Returns how many are.
    ///
    /// # Errors
    /// If none can be used, the reason of the last.
    pub fn activate_all(&self) -> Result<usize, ConnectError> {
        // The datapath starts even without an address: a listener at all addresses also listens at
        // those that come later.
        drop(self.inner.shared.lock_started()?);
        let mut last = None;
        let mut usable = 0;
        for entry in self.gids() {
            match self.activate(entry.index) {
                Ok(_) => usable += 1,
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if usable == 0 => Err(error),
            _ => Ok(usable),
        }
    }

    /// Makes the address behind a GID index usable and returns it, with what carries its
    /// packets.
    pub(crate) fn activate(&self, index: u8) -> Result<(IpAddr, RoceVersion), ConnectError> {
        let (gid, version, addresses) = self.gid_at(index)?;
        let address = gid.ip();
        let mut engine = self.inner.shared.lock_started()?;
        if !engine.port.carries(version) {
            return Err(ConnectError::NotCarried { index, version });
        }
        engine.port.set_addresses(addresses);
        engine.port.activate(address)?;
        drop(engine);
        // The background thread has one more socket to watch.
        self.inner.shared.wake_driver();
        Ok((address, version))
    }

    /// The path from the GID at an index to a remote one, made usable: the index decides
    /// the version of RoCE. Time to live or hop limit 0 takes the usual one. The traffic
    /// class is what the device's [settings](PrioritySettings::traffic_class) make of the
    /// given one, with service level 0.
    ///
    /// # Errors
    /// If the table has no such entry, its address can't be used, this datapath does not
    /// carry its version of RoCE, or the other GID can't be reached by it.
    pub fn path(
        &self,
        index: u8,
        remote: Gid,
        traffic_class: u8,
        hop_limit: u8,
    ) -> Result<TxMeta, ConnectError> {
        let options = AddressOptions {
            traffic_class,
            hop_limit,
            ..AddressOptions::default()
        };
        self.path_with(index, remote, &options)
    }

    /// As [`Context::path`], with a service level.
    ///
    /// # Errors
    /// As there.
    // rule: A16-gid-types
    pub fn path_with(
        &self,
        index: u8,
        remote: Gid,
        options: &AddressOptions,
    ) -> Result<TxMeta, ConnectError> {
        let (src, version) = self.activate(index)?;
        let path = self.path_from(src, version, remote, options);
        self.inner.shared.lock().port.check(&path)?;
        Ok(path)
    }

    /// As [`Context::path_with`], for what may never be sent on: does not start the datapath. If
    /// that starts later, the local address is made usable then.
    pub(crate) fn path_for_later(
        &self,
        index: u8,
        remote: Gid,
        options: &AddressOptions,
    ) -> Result<TxMeta, ConnectError> {
        let (gid, version, _) = self.gid_at(index)?;
        // Only the datapath tells whether it carries RoCE v1.
        if version == RoceVersion::V2 && self.inner.shared.use_when_started(gid.ip()) {
            return Ok(self.path_from(gid.ip(), version, remote, options));
        }
        self.path_with(index, remote, options)
    }

    fn path_from(
        &self,
        src: IpAddr,
        version: RoceVersion,
        remote: Gid,
        options: &AddressOptions,
    ) -> TxMeta {
        let (level, class) = (options.service_level, options.traffic_class);
        TxMeta {
            src,
            dst: remote.ip(),
            traffic_class: self.inner.priorities.traffic_class(level, class),
            hop_limit: options.hop_limit,
            version,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake_driver();
        if let Some(driver) = self.driver.take() {
            let _ = driver.join();
        }
        // Before the device itself goes: nobody must find it half gone.
        self.watched = None;
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.inner.device.name())
            .finish()
    }
}
