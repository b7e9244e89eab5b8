//! The agent, and how its messages reach QP1.

use super::EventSink;
use super::claim::service_id_u32;
use super::inbox::Inbox;
use super::routes::Routes;
use crate::context::{Context, ShownWaits};
use crate::error::OpenError;
use crate::runtime::{DeviceState, Engine, MadListener, RequestFate, RequestJudge};
use parking_lot::{Mutex, MutexGuard};
use roce_cm::{
    Addresses, Agent, Config, Duration, Event, Instant, MAD_LEN, Path, QpnRange, RejectReason,
    ServiceId,
};
use roce_stack::{MadError, QpAttributes, QpState, ReceivedMad, RoceVersion, TxMeta};
use roce_wire::cm::{CmMad, CmMessage};
use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// The maximum number of paths that are remembered as using RoCE v1.
const MAX_V1_PATHS: usize = 4096;

/// The interval at which paths with connections are checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The most connections of a device that are shown to watchers.
const MAX_SHOWN: usize = 16;

/// The number of connections to end in one batch. The messages of a batch fit in QP1's queue.
const FORGET_BATCH: usize = 64;
/// The number of attempts to empty the send queues, and the pause between two attempts.
const SEND_TRIES: u32 = 20;
const SEND_PAUSE: Duration = Duration::from_millis(1);

/// The peers that the agent wants to have watched, and the paths that it wants to have checked.
pub(super) struct PeersAndChecks {
    /// The processes that hold the QPs of peers.
    pub(super) peers: Vec<(IpAddr, QpnRange)>,
    /// The paths to hosts that must be checked.
    pub(super) checks: Vec<Path>,
}

/// State that the manager and its thread share.
pub(super) struct Core {
    pub(super) state: Mutex<State>,
    inbox: Arc<Inbox>,
    sink: Mutex<Option<Arc<EventSink>>>,
    routes: Routes,
    pub(super) shared: Arc<DeviceState>,
}

type Message = (Path, [u8; MAD_LEN]);

pub(super) struct State {
    pub(super) agent: Agent,
    /// Decides about requests, if some are to fail.
    request_judge: Option<Box<dyn RequestJudge>>,
    /// Paths on which the last datagram arrived over RoCE v1. Answers use the same version.
    v1_paths: HashSet<Path>,
    /// A message of the agent for which QP1 had no room. It goes out before the agent's next one.
    unsent: Option<Message>,
}

impl Core {
    /// Opens QP1 of the device.
    pub(super) fn open(context: &Context) -> Result<Self, OpenError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(|error| io::Error::other(error.to_string()))
            .map_err(OpenError::system(
                "drawing a random seed for communication IDs",
            ))?;
        let shared = Arc::clone(&context.inner.shared);
        // `QpnRange::FIRST` is a placeholder. `lock_state` replaces it with the device's QPN range,
        // which is known before any message is sent or received.
        let mut config = Config::new(seed, QpnRange::FIRST, context.device().guid());
        config.check_every = Some(CHECK_EVERY);
        let inbox =
            Inbox::new().map_err(OpenError::system("making a descriptor to wake a thread"))?;
        let inbox = Arc::new(inbox);
        {
            let mut engine = shared.lock();
            if engine.mad_listener.is_some() {
                // The previous manager has not closed QP1 yet.
                close_general_services(&mut engine);
            }
            if let Some(steering) = engine.port.steering() {
                steering.open_general_services().map_err(OpenError::system(
                    "steering management datagrams to this process",
                ))?;
            }
            engine.nic.open_general_services();
            engine.mad_listener = Some(Arc::clone(&inbox) as Arc<dyn MadListener>);
        }
        let injector = context.inner.injector.as_ref();
        let request_judge = injector.and_then(|injector| injector.request_judge());
        Ok(Self {
            state: Mutex::new(State {
                agent: Agent::new(config),
                request_judge,
                v1_paths: HashSet::new(),
                unsent: None,
            }),
            inbox,
            sink: Mutex::new(None),
            routes: Routes::default(),
            shared,
        })
    }

    /// Ends the thread, and closes QP1 unless another manager has taken it over.
    pub(super) fn close(&self) {
        self.inbox.stop();
        let mut engine = self.shared.lock();
        let own = Arc::clone(&self.inbox) as Arc<dyn MadListener>;
        let listener = engine.mad_listener.as_ref();
        if listener.is_some_and(|listener| Arc::ptr_eq(listener, &own)) {
            engine.mad_listener = None;
            close_general_services(&mut engine);
        }
    }

    pub(super) fn set_sink(&self, sink: EventSink) {
        *self.sink.lock() = Some(Arc::new(sink));
        self.inbox.set_has_sink();
    }

    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    pub(super) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(super) fn now(&self) -> Instant {
        self.shared.now()
    }

    /// Shows the connections that are not established to watchers, until the value is dropped.
    pub(super) fn show_waits(self: &Arc<Self>, context: &Context) -> ShownWaits {
        let core = Arc::downgrade(self);
        context.show_waits(move || {
            let core = core.upgrade();
            core.map_or_else(Vec::new, |core| {
                let agent = &core.state.lock().agent;
                agent.pending().take(MAX_SHOWN).collect()
            })
        })
    }

    /// Locks the agent, and makes it draw communication IDs from the device's range.
    fn lock_state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if let Some(range) = self.shared.qpn_range() {
            state.agent.draw_ids_from(range);
        }
        state
    }

    /// See [`super::ConnectionManager::with`].
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Agent, Instant) -> R) -> R {
        let mut state = self.lock_state();
        let now = self.now();
        let result = f(&mut state.agent, now);
        self.drain_agent(&mut state, now);
        if state.agent.has_peer_or_check() {
            self.inbox.request_agent_call();
        }
        result
    }

    /// Takes the management datagrams that have arrived.
    pub(super) fn take_mads(&self) -> Vec<ReceivedMad> {
        let mut engine = self.shared.lock();
        std::iter::from_fn(|| engine.nic.poll_mad()).collect()
    }

    /// Takes the peers to watch and the paths to check from the agent.
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
            let all_done = self.with(|agent, now| agent.forget_some(now, FORGET_BATCH));
            self.flush_sends();
            if all_done {
                break;
            }
        }
    }

    fn flush_sends(&self) {
        for _ in 0..SEND_TRIES {
            let mut state = self.lock_state();
            self.send(&mut state, self.now());
            let has_unsent = state.unsent.is_some();
            drop(state);
            let mut engine = self.shared.lock();
            engine.send(self.now());
            if !has_unsent && !engine.nic.wants_to_send() && engine.port.queued() == 0 {
                break;
            }
            drop(engine);
            std::thread::sleep(SEND_PAUSE);
        }
    }

    /// Hands the agent the datagrams that have arrived, and lets it handle its timeouts.
    pub(super) fn handle_mads(&self, received: &[ReceivedMad]) {
        let mut state = self.lock_state();
        let now = self.now();
        let mut events = Vec::new();
        for mad in received {
            let path = Path {
                local: mad.path.src,
                remote: mad.path.dst,
            };
            state.note_version(path, mad.path.version);
            state.receive(now, path, &mad.mad, &mut events);
        }
        for (local, service) in state.agent.expired_held(now) {
            if self.has_another_server(local, service) {
                state.agent.drop_held(local, service);
            }
        }
        state.agent.handle_timeouts(now);
        self.inbox.add_agent_output(events, state.next_timeout(now));
        self.drain_agent(&mut state, now);
    }

    /// Whether another process now takes requests for the service.
    fn has_another_server(&self, local: IpAddr, service: ServiceId) -> bool {
        let mut engine = self.shared.lock();
        let steering = engine.port.steering();
        let interface = steering.map(|steering| steering.interface_index());
        drop(engine);
        interface.is_some_and(|index| roce_udp::is_served(local, index, service_id_u32(service)))
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

    /// Delivers `event` to its listener or connection, and returns it if it belongs to neither. If
    /// the peer ends a connection, answers the peer and moves the QP to ERR: outstanding requests
    /// complete as flushed.
    fn route(&self, event: Event) -> Option<Event> {
        if let Event::Requested { .. } = event {
            return self.routes().deliver_request(event).unwrap_or_else(|id| {
                let reason = RejectReason::NO_RESOURCES;
                // The peer may have given up.
                let _ = self.with(|agent, now| agent.reject(now, id, reason, &[]));
                None
            });
        }
        let id = event.connection();
        let Some(qp) = self.routes().qp_of(&event) else {
            return Some(event);
        };
        if let Event::DisconnectRequested { .. } = event {
            // The connection may be over already.
            let _ = self.with(|agent, now| agent.disconnect(now, id, &[]));
        }
        if let Event::DisconnectRequested { .. } | Event::Disconnected { .. } = event
            && let Some(qp) = qp
        {
            // The program may have moved it to RESET.
            let _ = qp.modify(&QpAttributes {
                state: Some(QpState::Err),
                ..QpAttributes::default()
            });
        }
        self.routes().deliver(event);
        None
    }

    /// Sends the agent's messages, and takes its events and deadline. Follows each call of the
    /// agent.
    fn drain_agent(&self, state: &mut State, now: Instant) {
        let events = std::iter::from_fn(|| state.agent.poll_event()).collect();
        self.send(state, now);
        self.inbox.add_agent_output(events, state.next_timeout(now));
    }

    fn send(&self, state: &mut State, now: Instant) {
        let Some(first) = state.take_message() else {
            return;
        };
        let mut engine = self.shared.lock();
        state.send_messages(first, |meta, mad| {
            // The peer flushes what is outstanding. So the acknowledgements that it waits for leave before the
            // message, even those that wait for a device of this host to answer.
            if ends_connection(mad) {
                engine.send_all(now);
            }
            if !is_full(engine.nic.send_mad(meta, mad)) {
                return true;
            }
            engine.send(now);
            !is_full(engine.nic.send_mad(meta, mad))
        });
        engine.send(now);
        let has_unsent = engine.has_work() || engine.port.queued() > 0;
        drop(engine);
        if has_unsent {
            self.shared.wake_driver();
        }
    }

    /// Steers requests for the service to this process from now on.
    pub(super) fn serve(&self, local: Addresses, service: ServiceId) -> io::Result<()> {
        let mut engine = self.shared.lock();
        match engine.port.steering() {
            Some(steering) => steering.serve(local, service_id_u32(service)),
            // A port without steering receives all requests.
            None => Ok(()),
        }
    }

    pub(super) fn stop_serving(&self, local: Addresses, service: ServiceId) {
        let mut engine = self.shared.lock();
        if let Some(steering) = engine.port.steering() {
            steering.stop_serving(local, service_id_u32(service));
        }
    }
}

fn close_general_services(engine: &mut Engine) {
    engine.nic.close_general_services();
    if let Some(steering) = engine.port.steering() {
        steering.close_general_services();
    }
}

/// Whether QP1 had no room for a message. Without QP1, the message is lost like any other datagram.
fn is_full(sent: Result<(), MadError>) -> bool {
    matches!(sent, Err(MadError::Full { .. }))
}

/// Whether a message is a DREQ or a DREP.
fn ends_connection(mad: &[u8; MAD_LEN]) -> bool {
    let message = CmMad::parse(mad).map(|mad| mad.message);
    matches!(message, Ok(CmMessage::Dreq(_) | CmMessage::Drep(_)))
}

impl State {
    /// Hands `send` the agent's messages from `first` on, until it returns that there is no room for one.
    /// That one is kept, and the agent keeps those after it: some messages are sent only once.
    fn send_messages(
        &mut self,
        first: Message,
        mut send: impl FnMut(TxMeta, &[u8; MAD_LEN]) -> bool,
    ) {
        let mut next = Some(first);
        while let Some((path, mad)) = next {
            if !send(self.tx_meta(path), &mad) {
                self.unsent = Some((path, mad));
                return;
            }
            next = self.take_message();
        }
    }

    fn take_message(&mut self) -> Option<Message> {
        self.unsent.take().or_else(|| self.agent.poll_transmit())
    }

    /// When the thread must call the agent, or try again to send a message.
    fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let resumes = self.unsent.as_ref().map(|_| now + SEND_PAUSE);
        [resumes, self.agent.next_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Hands the agent a datagram, or injects a fault into a request. `events` gets what
    /// happened before a request that is rejected.
    fn receive(&mut self, now: Instant, path: Path, mad: &[u8], events: &mut Vec<Event>) {
        let judge = self.request_judge.as_mut();
        match judge.and_then(|judge| judge.decide(path.remote, mad)) {
            None => self.agent.receive(now, path, mad),
            Some(RequestFate::Ignored) => {}
            Some(RequestFate::Reject(reason)) => {
                events.extend(std::iter::from_fn(|| self.agent.poll_event()));
                self.agent.receive(now, path, mad);
                while let Some(event) = self.agent.poll_event() {
                    match event {
                        Event::Requested { connection, .. } => {
                            // The request has just arrived, so it can be refused.
                            let _ = self
                                .agent
                                .reject(now, connection, RejectReason(reason), &[]);
                        }
                        other => events.push(other),
                    }
                }
            }
        }
    }

    fn note_version(&mut self, path: Path, version: RoceVersion) {
        match version {
            RoceVersion::V2 if self.v1_paths.is_empty() => {}
            RoceVersion::V2 => {
                self.v1_paths.remove(&path);
            }
            RoceVersion::V1 if self.v1_paths.len() < MAX_V1_PATHS => {
                self.v1_paths.insert(path);
            }
            RoceVersion::V1 => {}
        }
    }

    // rule: A16-gid-types
    fn tx_meta(&self, path: Path) -> TxMeta {
        let version = if self.v1_paths.contains(&path) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use roce_cm::{DatagramRequest, PortSpace};
    use roce_wire::PKey;

    fn path(last: u8) -> Path {
        Path {
            local: IpAddr::from([192, 0, 2, 100]),
            remote: IpAddr::from([192, 0, 2, last]),
        }
    }

    /// Sends what `state` has, with room for `room` messages. Returns the receivers' last bytes.
    fn send(state: &mut State, mut room: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        if let Some(first) = state.take_message() {
            state.send_messages(first, |meta, _| {
                let has_room = room > 0;
                if has_room && let IpAddr::V4(dst) = meta.dst {
                    room -= 1;
                    sent.push(dst.octets()[3]);
                }
                has_room
            });
        }
        sent
    }

    /// A full outbox drops nothing: the agent does not repeat an RTU or a REJ unless its peer does.
    #[test]
    fn messages_that_find_the_outbox_full_are_sent_later_in_their_order() {
        let mut state = State {
            agent: Agent::new(Config::new([1; 32], QpnRange::FIRST, 1)),
            request_judge: None,
            v1_paths: HashSet::new(),
            unsent: None,
        };
        let now = Instant::ZERO;
        for last in 1..=5 {
            let request = DatagramRequest {
                service: ServiceId::ip(PortSpace::Udp, 7),
                source_port: 1,
                pkey: PKey::DEFAULT,
                private: Vec::new(),
            };
            let queued = state.agent.resolve_datagram(now, path(last), &request);
            queued.expect("a message");
        }
        assert_eq!(send(&mut state, 2), [1, 2]);
        assert_eq!(state.next_timeout(now), Some(now + SEND_PAUSE));
        assert!(send(&mut state, 0).is_empty());
        assert_eq!(send(&mut state, 1), [3]);
        assert_eq!(send(&mut state, 9), [4, 5]);
        assert_eq!(state.next_timeout(now), state.agent.next_timeout());
        assert_ne!(state.next_timeout(now), Some(now + SEND_PAUSE));
        assert!(send(&mut state, 9).is_empty());
    }
}
