//! Many connections at once over a network that loses, duplicates, delays and reorders, from seeds.
//! `ROCE_CM_SEEDS` sets the number of seeds. A failure message names the seed.

use crate::world::{DATAGRAMS, Host, SERVICE, acceptance, at, connect_request, datagram_request};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use roce_cm::{
    ConnectionId, DatagramAcceptance, Duration, Event, Instant, Path, QKey, Qpn, RejectReason,
};
use std::collections::BTreeMap;

/// An owner's state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    Requested,
    Replied,
    Accepted,
    Established,
    Ending,
    EndAsked,
    Closed,
    Gone,
}

/// The owner's next step after its delay.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Connect,
    Lookup,
    Answer,
    Disconnect,
    Forget,
}

/// The outcome of one connection on one side.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The name that both sides use for it.
    tag: u8,
    stage: Stage,
    was_established: bool,
    was_forgotten: bool,
    is_active: bool,
}

#[derive(Debug)]
enum Next {
    Deliver {
        to: usize,
        path: Path,
        mad: Box<[u8; 256]>,
    },
    Do {
        host: usize,
        deed: Deed,
        id: Option<ConnectionId>,
    },
}

struct World {
    seed: u64,
    now: Instant,
    rng: ChaCha8Rng,
    hosts: [Host; 2],
    known: [BTreeMap<ConnectionId, Known>; 2],
    lookups: [BTreeMap<ConnectionId, bool>; 2],
    agenda: BTreeMap<(Instant, u64), Next>,
    entries: u64,
    tags: u8,
    loss_percent: u64,
    polite: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let loss_percent = [0, 10, 20, 50][rng.next_u64() as usize % 4];
        let mut hosts = [Host::new(1), Host::new(2)];
        for host in &mut hosts {
            for service in [SERVICE, DATAGRAMS] {
                host.agent
                    .listen(at(0), service, None, 4)
                    .expect("nobody listens");
            }
        }
        let mut world = Self {
            seed,
            now: at(0),
            rng,
            hosts,
            known: Default::default(),
            lookups: Default::default(),
            agenda: BTreeMap::new(),
            entries: 0,
            tags: 0,
            loss_percent,
            polite: loss_percent <= 20 && seed.is_multiple_of(2),
        };
        for host in [0, 1] {
            for _ in 0..5 {
                world.later(5000, host, Deed::Connect, None);
            }
            world.later(5000, host, Deed::Lookup, None);
        }
        world
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.next_u64() % n
    }

    fn enter(&mut self, at: Instant, next: Next) {
        self.entries += 1;
        self.agenda.insert((at, self.entries), next);
    }

    fn later(&mut self, within_ms: u64, host: usize, deed: Deed, id: Option<ConnectionId>) {
        let at = self.now + Duration::from_millis(self.below(within_ms));
        self.enter(at, Next::Do { host, deed, id });
    }

    /// Runs until nothing is left to do.
    fn run(&mut self) {
        loop {
            let timer = |host: &Host| host.agent.next_timeout();
            let timers = self.hosts.iter().filter_map(timer).min();
            let entry = self.agenda.keys().next().copied();
            match (timers, entry) {
                (Some(timer), Some(key)) if key.0 <= timer => self.next(key),
                (None, Some(key)) => self.next(key),
                (Some(timer), _) => {
                    self.now = timer;
                    for host in &mut self.hosts {
                        host.agent.handle_timeouts(timer);
                    }
                }
                (None, None) => return,
            }
            self.settle();
        }
    }

    fn next(&mut self, key: (Instant, u64)) {
        self.now = key.0;
        match self.agenda.remove(&key).expect("it is on the agenda") {
            Next::Deliver { to, path, mad } => {
                self.hosts[to].agent.receive(self.now, path, &mad[..]);
            }
            Next::Do { host, deed, id } => self.act(host, deed, id),
        }
    }

    /// Sends pending MADs, and delivers pending events to the owners.
    fn settle(&mut self) {
        for host in [0, 1] {
            for sent in self.hosts[host].sent() {
                let path = Path {
                    local: sent.path.remote,
                    remote: sent.path.local,
                };
                let copies = 1 + usize::from(self.below(10) == 0);
                for _ in 0..copies {
                    if self.below(100) < self.loss_percent {
                        continue;
                    }
                    // No packet lives longer than the agents' configured lifetime.
                    let at = self.now + Duration::from_millis(self.below(250));
                    let mad = Box::new(sent.mad);
                    self.enter(
                        at,
                        Next::Deliver {
                            to: 1 - host,
                            path,
                            mad,
                        },
                    );
                }
            }
            for event in self.hosts[host].events() {
                self.hear(host, event);
            }
        }
    }

    fn act(&mut self, host: usize, deed: Deed, id: Option<ConnectionId>) {
        let path = self.hosts[host].path_to(&self.hosts[1 - host]);
        let now = self.now;
        let Some(id) = id else {
            if matches!(deed, Deed::Lookup) {
                let lookup =
                    self.hosts[host]
                        .agent
                        .resolve_datagram(now, path, &datagram_request());
                self.lookups[host].insert(lookup.expect("it fits"), false);
                return;
            }
            self.tags += 1;
            let mut request = connect_request();
            request.qpn = Qpn::from_bits(0x100 + u32::from(self.tags));
            request.private = vec![self.tags];
            let id = self.hosts[host].agent.connect(now, path, &request);
            let id = id.expect("it fits");
            self.learn(host, id, self.tags, Stage::Asked, true);
            if !self.polite && self.below(5) == 0 {
                self.later(4000, host, Deed::Forget, Some(id));
            }
            return;
        };
        if self.lookups[host].contains_key(&id) {
            let acceptance = DatagramAcceptance {
                qpn: Qpn::from_bits(0x77),
                qkey: QKey(7),
                private: Vec::new(),
            };
            let told = self.hosts[host].agent.accept_datagram(now, id, &acceptance);
            return told.expect("it waits");
        }
        let impolite = !self.polite && self.below(5) == 0;
        let known = self.known[host].get_mut(&id).expect("it was told of");
        let agent = &mut self.hosts[host].agent;
        match (deed, known.stage) {
            (Deed::Forget, stage) if stage != Stage::Gone => {
                agent.forget(now, id);
                known.was_forgotten = true;
                known.stage = Stage::Gone;
            }
            (Deed::Answer, Stage::Requested | Stage::Replied) if impolite => {
                agent
                    .reject(now, id, RejectReason::CONSUMER, &[])
                    .expect("it waits");
                known.stage = Stage::Gone;
            }
            (Deed::Answer, Stage::Requested) => {
                let mut acceptance = acceptance();
                acceptance.qpn = Qpn::from_bits(0x200 + u32::from(known.tag));
                agent.accept(now, id, &acceptance).expect("it waits");
                known.stage = Stage::Accepted;
            }
            (Deed::Answer, Stage::Replied) => {
                agent.ready(now, id, &[]).expect("it waits");
                self.is_established(host, id);
            }
            (Deed::Disconnect, Stage::Established) => {
                agent.disconnect(now, id, &[]).expect("it is established");
                known.stage = Stage::Ending;
            }
            (Deed::Disconnect, Stage::EndAsked) => {
                agent.disconnect(now, id, &[]).expect("it was asked for");
                known.stage = Stage::Closed;
            }
            _ => {}
        }
    }

    fn learn(&mut self, host: usize, id: ConnectionId, tag: u8, stage: Stage, is_active: bool) {
        let known = Known {
            tag,
            stage,
            was_established: false,
            was_forgotten: false,
            is_active,
        };
        let seed = self.seed;
        let before = self.known[host].values().find(|known| known.tag == tag);
        assert!(
            before.is_none(),
            "seed {seed}: {tag} comes twice: {before:?}"
        );
        self.known[host].insert(id, known);
    }

    fn is_established(&mut self, host: usize, id: ConnectionId) {
        let known = self.known[host].get_mut(&id).expect("it was told of");
        known.stage = Stage::Established;
        known.was_established = true;
        let deed = if self.polite || self.below(4) > 0 {
            Deed::Disconnect
        } else {
            Deed::Forget
        };
        // In a polite run, owners disconnect only after all connections are established.
        let at = self.now + Duration::from_secs(if self.polite { 100 } else { 0 });
        let at = at + Duration::from_millis(self.below(10_000));
        let id = Some(id);
        self.enter(at, Next::Do { host, deed, id });
    }

    /// Handles an event for an owner. Fails if the event is not legal in the connection's stage.
    fn hear(&mut self, host: usize, event: Event) {
        use Stage::*;
        let id = event.connection();
        let seed = self.seed;
        match &event {
            Event::Requested { request, .. } => {
                self.learn(host, id, request.private[0], Requested, false);
                return self.later(3000, host, Deed::Answer, Some(id));
            }
            Event::DatagramRequested { .. } => {
                self.lookups[host].insert(id, true);
                return self.later(3000, host, Deed::Answer, Some(id));
            }
            Event::DatagramReplied { .. } | Event::DatagramRejected { .. } => {
                let was_over = self.lookups[host].insert(id, true);
                return assert_eq!(was_over, Some(false), "seed {seed}: {event:?}");
            }
            Event::Unreachable { .. } if self.lookups[host].contains_key(&id) => {
                let was_over = self.lookups[host].insert(id, true);
                return assert_eq!(was_over, Some(false), "seed {seed}: {event:?}");
            }
            _ => {}
        }
        let known = self.known[host].get_mut(&id);
        let known = known.unwrap_or_else(|| panic!("seed {seed}: {event:?} of nothing"));
        let stage = known.stage;
        known.stage = match (&event, stage) {
            (Event::Replied { .. }, Asked) => Replied,
            (Event::Established { .. }, Accepted) => Established,
            (Event::Rejected { .. }, Asked | Requested | Replied | Accepted) => Gone,
            (Event::Unreachable { .. }, Asked | Accepted) => Gone,
            (Event::DisconnectRequested { .. }, Established) => EndAsked,
            (Event::Disconnected { .. }, Established | Ending) => Closed,
            (Event::TimeWaitOver { .. }, Closed) => Gone,
            _ => panic!("seed {seed}: {event:?} after {stage:?}"),
        };
        match known.stage {
            Replied => self.later(3000, host, Deed::Answer, Some(id)),
            Established => self.is_established(host, id),
            EndAsked => self.later(3000, host, Deed::Disconnect, Some(id)),
            _ => {}
        }
    }

    /// No state is left, and both sides agree on the outcome.
    fn check(&self) {
        let seed = self.seed;
        for host in [0, 1] {
            assert_eq!(self.hosts[host].agent.connections(), 0, "seed {seed}");
            for (id, known) in &self.known[host] {
                assert_eq!(known.stage, Stage::Gone, "seed {seed}: {id:?} {known:?}");
            }
            assert!(self.lookups[host].values().all(|over| *over), "seed {seed}");
        }
        for active in self.known.iter().flat_map(BTreeMap::values) {
            if !active.is_active {
                continue;
            }
            let is_other = |known: &&Known| !known.is_active && known.tag == active.tag;
            let passive = self.known.iter().flat_map(BTreeMap::values).find(is_other);
            let has_passive = passive.is_some_and(|passive| passive.was_established);
            if has_passive || self.polite {
                assert!(
                    active.was_established,
                    "seed {seed}: {active:?} {passive:?}"
                );
            }
            if self.polite {
                assert!(has_passive, "seed {seed}: {active:?} {passive:?}");
            }
        }
    }
}

// shows: 12.9-repeat, 12.9-repeated-req, 12.9-repeated-rep, 12.9-repeated-dreq
#[test]
fn both_sides_agree_however_bad_the_network_is() {
    let seeds = std::env::var("ROCE_CM_SEEDS");
    let seeds = seeds.map_or(200, |seeds| {
        seeds.parse().expect("ROCE_CM_SEEDS is a number")
    });
    for seed in 0..seeds {
        let mut world = World::new(seed);
        world.run();
        world.check();
    }
}

#[test]
fn one_seed_gives_one_run() {
    let end = |seed| {
        let mut world = World::new(seed);
        world.run();
        let counters = world.hosts.map(|host| *host.agent.counters());
        (world.now, world.entries, counters)
    };
    assert_eq!(end(3), end(3));
    assert_ne!(end(3), end(5));
}
