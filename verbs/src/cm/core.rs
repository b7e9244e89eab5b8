//! The agent, and how its messages reach QP1.

use super::EventSink;
use super::bell::Bell;
use super::claim::service_word;
use super::routes::Routes;
use crate::context::Context;
use crate::error::OpenError;
use crate::runtime::{DeviceState, MadListener};
use parking_lot::{Mutex, MutexGuard};
use roce_cm::{Addresses, Agent, Config, Duration, Event, Instant, Path, QpnRange, ServiceId};
use roce_port::Port;
use roce_stack::{ReceivedMad, RoceVersion, TxMeta};
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The maximum number of paths that are remembered as using RoCE v1.
const MOST_V1: usize = 4096;

/// The interval at which paths with connections are checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The number of connections to end at a time: their messages fit in QP1's queue.
const FORGOTTEN_AT_A_TIME: usize = 64;
/// The number of attempts to send what a full queue holds back, and the pause between them.
const SEND_TRIES: u32 = 20;
const SEND_PAUSE: Duration = Duration::from_millis(1);

/// What the agent asks its owner to watch and check.
pub(super) struct PeersAndChecks {
    /// The processes that hold the QPs of peers.
    pub(super) peers: Vec<(IpAddr, QpnRange)>,
    /// The paths to hosts that must be checked.
    pub(super) checks: Vec<Path>,
}

/// State that the manager and its thread share.
pub(super) struct Core {
    state: Mutex<State>,
    bell: Arc<Bell>,
    sink: Mutex<Option<Arc<EventSink>>>,
    routes: Routes,
    shared: Arc<DeviceState>,
}

struct State {
    agent: Agent,
    /// Paths on which the last datagram came by RoCE v1. Answers use the same version.
    v1: HashSet<Path>,
}

impl Core {
    /// Opens QP1 of the device.
    pub(super) fn open(context: &Context) -> Result<Self, OpenError> {
        let system = |what| move |source| OpenError::System { what, source };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| io::Error::other(error.to_string()))
            .map_err(system("drawing a random seed for communication IDs"))?;
        let shared = Arc::clone(&context.inner.shared);
        // `QpnRange::FIRST` is a placeholder. `lock_state` replaces it with the device's part of the
        // QP numbers, which is known before any message is sent or received.
        let mut config = Config::new(seed, QpnRange::FIRST, context.device().guid());
        config.check_every = Some(CHECK_EVERY);
        let bell = Bell::new().map_err(system("making a descriptor to wake a thread"))?;
        let bell = Arc::new(bell);
        {
            let mut engine = shared.lock();
            if engine.mad_listener.is_some() {
                // Another manager is still ending.
                engine.nic.close_general_services();
                if let Some(steering) = engine.port.steering() {
                    steering.close_general_services();
                }
            }
            if let Some(steering) = engine.port.steering() {
                steering
                    .open_general_services()
                    .map_err(system("steering management datagrams to this process"))?;
            }
            engine.nic.open_general_services();
            engine.mad_listener = Some(Arc::clone(&bell) as Arc<dyn MadListener>);
        }
        Ok(Self {
            state: Mutex::new(State {
                agent: Agent::new(config),
                v1: HashSet::new(),
            }),
            bell,
            sink: Mutex::new(None),
            routes: Routes::default(),
            shared,
        })
    }

    /// Ends the thread, and closes QP1 unless another manager has taken it over.
    pub(super) fn close(&self) {
        self.bell.stop();
        let mut engine = self.shared.lock();
        let own = Arc::clone(&self.bell) as Arc<dyn MadListener>;
        let listener = engine.mad_listener.as_ref();
        if listener.is_some_and(|listener| Arc::ptr_eq(listener, &own)) {
            engine.mad_listener = None;
            engine.nic.close_general_services();
            if let Some(steering) = engine.port.steering() {
                steering.close_general_services();
            }
        }
    }

    pub(super) fn set_sink(&self, sink: EventSink) {
        *self.sink.lock() = Some(Arc::new(sink));
        self.bell.has_sink();
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn bell(&self) -> &Bell {
        &self.bell
    }

    pub(super) fn now(&self) -> Instant {
        self.shared.now()
    }

    /// Locks the agent, and makes it draw communication IDs from the device's part.
    fn lock_state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if let Some(part) = self.shared.part() {
            state.agent.draw_ids_from(part);
        }
        state
    }

    /// See [`super::ConnectionManager::with`].
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Agent, Instant) -> R) -> R {
        let mut state = self.lock_state();
        let now = self.now();
        let result = f(&mut state.agent, now);
        self.settle(&mut state, now);
        if state.agent.has_peer_or_check() {
            self.bell.call_agent();
        }
        result
    }

    /// Takes the management datagrams that have arrived.
    pub(super) fn take_mads(&self) -> Vec<ReceivedMad> {
        let mut engine = self.shared.lock();
        let came: Vec<_> = std::iter::from_fn(|| engine.nic.poll_mad()).collect();
        if let Some(tally) = &mut engine.tally {
            came.iter().for_each(|_| tally.note_mad());
        }
        came
    }

    /// Takes what the agent asks its owner to watch and check.
    pub(super) fn peers_and_checks(&self) -> PeersAndChecks {
        let agent = &mut self.lock_state().agent;
        PeersAndChecks {
            peers: std::iter::from_fn(|| agent.poll_peer()).collect(),
            checks: std::iter::from_fn(|| agent.poll_check()).collect(),
        }
    }

    /// Ends all connections, and sends each peer one message, without waiting for an answer.
    pub(super) fn forget_all(&self) {
        loop {
            let were_all = self.with(|agent, now| agent.forget_some(now, FORGOTTEN_AT_A_TIME));
            self.send_what_waits();
            if were_all {
                break;
            }
        }
    }

    fn send_what_waits(&self) {
        for _ in 0..SEND_TRIES {
            let mut engine = self.shared.lock();
            engine.send(self.now());
            if !engine.nic.wants_to_send() && engine.port.queued() == 0 {
                break;
            }
            drop(engine);
            std::thread::sleep(SEND_PAUSE);
        }
    }

    /// Hands the agent the datagrams that have arrived, and lets it handle its timeouts.
    pub(super) fn work(&self, came: &[ReceivedMad]) {
        let mut state = self.lock_state();
        let now = self.now();
        for mad in came {
            let path = Path {
                local: mad.path.src,
                remote: mad.path.dst,
            };
            state.note_version(path, mad.path.version);
            state.agent.receive(now, path, &mad.mad);
        }
        for (local, service) in state.agent.expired_held(now) {
            if self.has_another_server(local, service) {
                state.agent.drop_held(local, service);
            }
        }
        state.agent.handle_timeouts(now);
        self.settle(&mut state, now);
    }

    /// Whether another process now takes requests for the service.
    fn has_another_server(&self, local: IpAddr, service: ServiceId) -> bool {
        let mut engine = self.shared.lock();
        let steering = engine.port.steering();
        let interface = steering.map(|steering| steering.interface_index());
        drop(engine);
        interface.is_some_and(|index| roce_udp::is_served(local, index, service_word(service)))
    }

    /// Delivers `event` to its listener or connection, or else to the sink.
    pub(super) fn deliver(&self, event: Event) {
        let Some(event) = self.route(event) else {
            return;
        };
        let sink = self.sink.lock().clone();
        if let Some(sink) = sink {
            sink(event);
        }
    }

    /// After each call of the agent: sends its messages and takes its events.
    fn settle(&self, state: &mut State, now: Instant) {
        let events = std::iter::from_fn(|| state.agent.poll_event()).collect();
        self.send(state, now);
        self.bell.settle(events, state.agent.next_timeout());
    }

    fn send(&self, state: &mut State, now: Instant) {
        let Some(mut next) = state.agent.poll_transmit() else {
            return;
        };
        let mut engine = self.shared.lock();
        loop {
            let (path, mad) = next;
            // A message that finds no room is lost like any other datagram: the agent retransmits
            // it.
            let _ = engine.nic.send_mad(state.way(path), &mad);
            match state.agent.poll_transmit() {
                Some(more) => next = more,
                None => break,
            }
        }
        engine.send(now);
        let is_left = engine.has_work() || engine.port.queued() > 0;
        drop(engine);
        if is_left {
            self.shared.wake_driver();
        }
    }

    /// Steers requests for the service to this process from now on.
    pub(super) fn serve(&self, local: Addresses, service: ServiceId) -> io::Result<()> {
        let mut engine = self.shared.lock();
        match engine.port.steering() {
            Some(steering) => steering.serve(local, service_word(service)),
            // A port without steering receives all requests.
            None => Ok(()),
        }
    }

    pub(super) fn stop_serving(&self, local: Addresses, service: ServiceId) {
        let mut engine = self.shared.lock();
        if let Some(steering) = engine.port.steering() {
            steering.stop_serving(local, service_word(service));
        }
    }
}

impl State {
    fn note_version(&mut self, path: Path, version: RoceVersion) {
        match version {
            RoceVersion::V2 if self.v1.is_empty() => {}
            RoceVersion::V2 => {
                self.v1.remove(&path);
            }
            RoceVersion::V1 if self.v1.len() < MOST_V1 => {
                self.v1.insert(path);
            }
            RoceVersion::V1 => {}
        }
    }

    // rule: A16-gid-types
    fn way(&self, path: Path) -> TxMeta {
        let version = if self.v1.contains(&path) {
            RoceVersion::V1
        } else {
            RoceVersion::V2
        };
        TxMeta {
            src: path.local,
            dst: path.remote,
            traffic_class: 0,
            hop_limit: 0,
            version,
        }
    }
}
