//! The state machine: what is known of the network, without any I/O.

use std::collections::VecDeque;
use std::hint::cold_path;
use std::net::IpAddr;

use roce_stack::{Duration, Instant};

use super::event::{Event, NeighbourState, PathKey, Request};
use super::facts::{Link, OwnAddress, Tagging};
use super::frame::{Received, Station, parse_usual};
use super::reasons::{NetCounters, Refusal, RxDrop};
use super::template::Template;
use paths::{Paths, Verdict};

mod follow;
mod hops;
mod others;
mod paths;

use hops::Hops;
pub use hops::Resolution;
use others::Others;

/// How often it is looked after neighbours in use.
const TICK: Duration = Duration::from_secs(1);

/// At most so many neighbours are asked for in one tick.
const ASKS_PER_TICK: usize = 64;

/// What a [`Core`] is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// Whether frames carry a VLAN's tag.
    pub tagging: Tagging,
    /// How many paths (pairs of source and destination) are remembered. A path that
    /// was forgotten costs a question to the kernel when it is used again.
    pub max_paths: usize,
    /// Whether frames of RoCE v1 are taken.
    pub roce_v1: bool,
}

impl Default for CoreConfig {
    fn default() -> Self {
        CoreConfig {
            tagging: Tagging::None,
            max_paths: 4096,
            roce_v1: false,
        }
    }
}

/// What of the network has changed, for whom it concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The link: MTU, Ethernet address, up or down.
    pub link: bool,
    /// The interface's addresses.
    pub addresses: bool,
    /// A next hop's Ethernet address was found, has changed, or was not found: look
    /// after the frames that wait for it.
    pub neighbours: bool,
}

/// A header for a packet, or what it still lacks.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The header.
    pub template: &'a Template,
    /// The next hop whose Ethernet address the template lacks: the frame has to wait
    /// (see [`Waiting`](super::Waiting)), or is dropped.
    pub waits_for: Option<IpAddr>,
}

/// What is known of an interface and of the network behind it.
///
/// It does no I/O and reads no clock. Whoever owns it
/// - tells it what happens, by [`Core::handle`], and the time, by [`Core::tick`], not
///   later than [`Core::next_deadline`];
/// - does what [`Core::next_request`] asks for, and tells it the answer;
/// - asks it for headers: [`Core::find`], and [`Core::header`] with what that returned.
///
/// Until [`Event::Link`] and [`Event::Addresses`] came for the first time it refuses
/// everything.
#[derive(Debug)]
pub struct Core {
    config: CoreConfig,
    link: Option<Link>,
    gone: bool,
    own: Vec<OwnAddress>,
    /// The addresses of `own` alone, to compare received frames with.
    addresses: Vec<IpAddr>,
    groups: Vec<IpAddr>,
    /// The host's other interfaces.
    others: Others,
    paths: Paths,
    hops: Hops,
    requests: VecDeque<Request>,
    changes: Changes,
    counters: NetCounters,
    /// Counts what may lead packets elsewhere.
    generation: u64,
    now: Instant,
    ticked: Instant,
    /// Whether there may be something to do at the next tick.
    busy: bool,
}

impl Core {
    /// A core that knows nothing yet and asks for link and addresses.
    pub fn new(config: CoreConfig, now: Instant) -> Core {
        Core {
            config,
            link: None,
            gone: false,
            own: Vec::new(),
            addresses: Vec::new(),
            groups: Vec::new(),
            others: Others::default(),
            paths: Paths::new(config.max_paths),
            hops: Hops::default(),
            requests: VecDeque::from([Request::Link, Request::Addresses]),
            changes: Changes::default(),
            counters: NetCounters::default(),
            generation: 1,
            now,
            ticked: now,
            busy: false,
        }
    }

    /// Where the path is, for [`Core::header`]. An answer is good until the next call
    /// of any other function that changes this. If the path is not known,
    /// [`Core::next_request`] asks for it.
    ///
    /// # Errors
    /// Why nothing can be sent on it, now or ever. Counted, except for
    /// [`Refusal::RoutePending`]: whoever can wait for the kernel's answer asks again.
    #[inline]
    pub fn find(&mut self, key: PathKey) -> Result<PathIndex, Refusal> {
        let found = match self.paths.find(key) {
            Some(at) if self.paths.at(at).generation == self.generation => self.settled(at),
            Some(at) => self.lookup(at),
            None => {
                self.drop_unused_hops();
                let at = self.paths.add(key);
                self.lookup(at)
            }
        };
        self.busy = true;
        match found {
            Err(reason) if reason != Refusal::RoutePending => self.counters.refuse(reason),
            _ => {}
        }
        found
    }

    /// Where a path is by which a packet can be sent at once; nothing if
    /// [`Core::find`] has to say why not, or something is to be done.
    #[inline]
    pub(super) fn find_ready(&mut self, key: &PathKey) -> Option<PathIndex> {
        let generation = self.generation;
        let (at, path) = self.paths.find_recent(key)?;
        let is_ready = path.generation == generation && path.is_resolved();
        if !is_ready || self.has_requests() {
            cold_path();
            return None;
        }
        self.busy = true;
        Some(PathIndex(at))
    }

    /// The header of a path.
    #[inline]
    pub fn header(&self, path: PathIndex) -> Option<Header<'_>> {
        match &self.paths.at(path.0).verdict {
            Verdict::Open {
                template,
                hop,
                resolved,
            } => Some(Header {
                template,
                waits_for: hop.filter(|_| !resolved),
            }),
            Verdict::Pending | Verdict::Refused(_) => None,
        }
    }

    /// What can be said of a path that is as new as everything else.
    #[inline]
    fn settled(&mut self, at: usize) -> Result<PathIndex, Refusal> {
        match self.paths.at(at).verdict {
            Verdict::Open { resolved: true, .. } | Verdict::Open { hop: None, .. } => {
                Ok(PathIndex(at))
            }
            Verdict::Open { hop: Some(hop), .. } => self.unresolved(at, hop),
            Verdict::Refused(reason) => Err(reason),
            Verdict::Pending => Err(Refusal::RoutePending),
        }
    }

    /// A path whose next hop is not known is asked for, if it is time to.
    #[cold]
    fn unresolved(&mut self, at: usize, hop: IpAddr) -> Result<PathIndex, Refusal> {
        if self.hops.is_to_be_asked(hop, self.now) {
            self.request(Request::Neighbour(hop));
        }
        match self.hops.resolution(hop) {
            Some(Resolution::Failed) => Err(Refusal::HostUnreachable),
            _ => Ok(PathIndex(at)),
        }
    }

    /// Judges a path anew as far as that goes without the kernel, and asks the kernel
    /// for the rest.
    #[cold]
    fn lookup(&mut self, at: usize) -> Result<PathIndex, Refusal> {
        let key = self.paths.at(at).key;
        let verdict = match self.judge(key) {
            Ok(()) => self.without_route(key).unwrap_or_else(|| {
                self.request(Request::Route(key));
                Verdict::Pending
            }),
            Err(reason) => Verdict::Refused(reason),
        };
        let generation = self.generation;
        let path = self.paths.at_mut(at);
        path.verdict = verdict;
        path.generation = generation;
        self.settled(at)
    }

    /// What is wrong with a path whatever the routes.
    fn judge(&self, PathKey { src, dst, .. }: PathKey) -> Result<(), Refusal> {
        if self.gone {
            return Err(Refusal::InterfaceGone);
        }
        let link = self.link.as_ref().filter(|link| link.up);
        let link = link.ok_or(Refusal::LinkDown)?;
        if src.is_ipv4() != dst.is_ipv4() {
            return Err(Refusal::Families);
        }
        if dst.is_unspecified() || dst == IpAddr::from([255; 4]) {
            return Err(Refusal::Destination);
        }
        if dst.is_loopback() {
            return Err(Refusal::Local);
        }
        self.config.tagging.check(link)?;
        match self.own.iter().find(|own| own.address == src) {
            None => Err(Refusal::SourceNotOurs),
            Some(own) if !own.usable => Err(Refusal::SourceTentative),
            Some(_) => Ok(()),
        }
    }

    /// What is known of a next hop.
    pub fn resolution(&self, hop: IpAddr) -> Resolution {
        // One that no path leads by any more is not waited for.
        self.hops.resolution(hop).unwrap_or(Resolution::Failed)
    }

    /// Takes a received frame apart, from the Ethernet header to the end. What does not
    /// parse, or is not to this station, is dropped and counted.
    ///
    /// # Errors
    /// The reason of the drop.
    #[inline]
    pub fn parse<'f>(&mut self, frame: &'f [u8]) -> Result<Received<'f>, RxDrop> {
        if let (Some(link), Tagging::None) = (&self.link, self.config.tagging)
            && let Some(received) = parse_usual(&link.mac, &self.addresses, frame)
        {
            return Ok(received);
        }
        cold_path();
        self.parse_any(frame)
    }

    #[inline(never)]
    fn parse_any<'f>(&mut self, frame: &'f [u8]) -> Result<Received<'f>, RxDrop> {
        let link = self.link.as_ref();
        let station = Station {
            mac: link.map_or([0; 6], |link| link.mac),
            vlan: link
                .and_then(|link| self.config.tagging.tag(link))
                .map(|(tag, _)| tag),
            addresses: &self.addresses,
            groups: &self.groups,
            roce_v1: self.config.roce_v1,
        };
        let parsed = station.parse(frame);
        if let Err(reason) = parsed {
            self.counters.drop_received(reason);
        }
        parsed
    }

    /// From now on, frames to this multicast group are taken.
    pub fn accept_group(&mut self, group: IpAddr) {
        if group.is_multicast() && !self.groups.contains(&group) {
            self.groups.push(group);
        }
    }

    /// Ends what [`Core::accept_group`] began.
    pub fn leave_group(&mut self, group: IpAddr) {
        self.groups.retain(|&other| other != group);
    }

    /// The link as it is, once known.
    pub fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Whether the interface is gone for good.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// The interface's addresses.
    pub fn addresses(&self) -> &[OwnAddress] {
        &self.own
    }

    /// Whether another interface of this host has this address.
    pub fn is_others(&self, address: IpAddr) -> bool {
        self.others.interface_of(address).is_some()
    }

    /// What was counted.
    pub fn counters(&self) -> &NetCounters {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut NetCounters {
        &mut self.counters
    }

    /// What is to be done next; nothing if all is done.
    pub fn next_request(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        match request {
            Request::Route(_) => self.counters.route_lookups += 1,
            Request::Neighbour(_) => self.counters.neighbour_requests += 1,
            Request::Link | Request::Addresses | Request::OtherLink(_) => {}
        }
        Some(request)
    }

    /// Whether something is to be done.
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What has changed since this was last asked.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Tells the time. Does nothing most of the time; once a second it looks after
    /// the neighbours of paths in use, so that they don't go stale.
    pub fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !self.busy || now.saturating_duration_since(self.ticked) < TICK {
            return;
        }
        self.ticked = now;
        self.busy = false;
        let mut asks = 0;
        for path in self.paths.iter_mut().filter(|path| path.used) {
            if asks == ASKS_PER_TICK {
                self.busy = true;
                break;
            }
            path.used = false;
            let Some(hop) = path.hop() else { continue };
            if self.hops.is_to_be_asked(hop, now) {
                push_once(&mut self.requests, Request::Neighbour(hop));
                asks += 1;
            }
        }
    }

    /// When [`Core::tick`] should be called at the latest; never, if nothing was sent.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.busy.then(|| self.ticked + TICK)
    }

    fn request(&mut self, request: Request) {
        push_once(&mut self.requests, request);
    }

    /// Forgets next hops that no path leads by, when there are more of them than there
    /// can be paths.
    fn drop_unused_hops(&mut self) {
        if self.hops.len() > self.config.max_paths {
            let paths = &self.paths;
            self.hops
                .retain(|address| paths.iter().any(|path| path.hop() == Some(address)));
        }
    }
}

/// A path that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathIndex(usize);

/// Asks for something that is not asked for already. So there are never more requests
/// than paths and next hops.
fn push_once(requests: &mut VecDeque<Request>, request: Request) {
    if !requests.contains(&request) {
        requests.push_back(request);
    }
}

#[cfg(test)]
mod tests;
