//! The state machine that follows an interface and its network, without I/O.

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

/// The interval at which the core checks the neighbours in use.
const TICK: Duration = Duration::from_secs(1);

/// The maximum number of neighbours requested in one tick.
const REQUESTS_PER_TICK: usize = 64;

/// The configuration of a [`Core`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// Whether frames carry a VLAN tag.
    pub tagging: Tagging,
    /// The maximum number of paths (pairs of source and destination) to remember. The next use of a
    /// forgotten path costs a request to the kernel.
    pub max_paths: usize,
    /// Whether to accept frames of RoCE v1.
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

/// Changes in the network, grouped by the action that the caller must take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The link: MTU, Ethernet address, up or down.
    pub link: bool,
    /// The interface's addresses.
    pub addresses: bool,
    /// A next hop's Ethernet address was found, has changed, or was not found. Release the frames
    /// that wait for it.
    pub neighbours: bool,
}

/// The header for a packet, and the next hop whose address is still missing.
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    /// The header.
    pub template: &'a Template,
    /// The next hop whose Ethernet address the template lacks. The frame has to wait (see
    /// [`Waiting`](super::Waiting)) or be dropped.
    pub waits_for: Option<IpAddr>,
}

/// The state of an interface and of the network behind it.
///
/// The core does no I/O and reads no clock. Its owner
/// - passes in events with [`Core::handle`], and the time with [`Core::tick`], no later than
///   [`Core::next_deadline`];
/// - carries out [`Core::next_request`] and passes in the answer;
/// - gets headers with [`Core::find`], and [`Core::header`] with its result.
///
/// The core refuses all paths until [`Event::Link`] and [`Event::Addresses`] have each arrived
/// once.
#[derive(Debug)]
pub struct Core {
    config: CoreConfig,
    link: Option<Link>,
    gone: bool,
    own: Vec<OwnAddress>,
    /// The IP addresses of `own`, for comparison with received frames.
    addresses: Vec<IpAddr>,
    groups: Vec<IpAddr>,
    /// The host's other interfaces.
    others: Others,
    paths: Paths,
    hops: Hops,
    requests: VecDeque<Request>,
    changes: Changes,
    counters: NetCounters,
    /// Incremented by every event that may change where packets go.
    generation: u64,
    now: Instant,
    last_tick: Instant,
    /// Whether the next tick may have work.
    tick_has_work: bool,
}

impl Core {
    /// A core that has no information yet and requests the link and the addresses.
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
            last_tick: now,
            tick_has_work: false,
        }
    }

    /// Finds a path, for [`Core::header`]. The result is valid until the next call of a `&mut self`
    /// function. If the path is not known, [`Core::next_request`] requests it.
    ///
    /// # Errors
    /// Why nothing can be sent on the path, now or ever. The refusal is counted, except for
    /// [`Refusal::RoutePending`], because a caller that can wait for the kernel's answer retries.
    #[inline]
    pub fn find(&mut self, key: PathKey) -> Result<PathIndex, Refusal> {
        let found = match self.paths.find(key) {
            Some(at) if self.paths.at(at).generation == self.generation => self.result_for(at),
            Some(at) => self.reevaluate(at),
            None => {
                self.drop_unused_hops();
                let at = self.paths.add(key);
                self.reevaluate(at)
            }
        };
        self.tick_has_work = true;
        match found {
            Err(reason) if reason != Refusal::RoutePending => self.counters.refuse(reason),
            _ => {}
        }
        found
    }

    /// Finds a path on which a packet can be sent at once. Returns `None` if the caller must call
    /// [`Core::find`] instead, which requests the missing parts, or returns the refusal.
    #[inline]
    pub(super) fn find_ready(&mut self, key: &PathKey) -> Option<PathIndex> {
        let generation = self.generation;
        let (at, path) = self.paths.find_recent(key)?;
        let is_ready = path.generation == generation && path.is_resolved();
        if !is_ready || self.has_requests() {
            cold_path();
            return None;
        }
        self.tick_has_work = true;
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

    /// The result for a path whose verdict belongs to the current generation.
    #[inline]
    fn result_for(&mut self, at: usize) -> Result<PathIndex, Refusal> {
        match self.paths.at(at).verdict {
            Verdict::Open { resolved: true, .. } | Verdict::Open { hop: None, .. } => {
                Ok(PathIndex(at))
            }
            Verdict::Open { hop: Some(hop), .. } => self.use_unresolved(at, hop),
            Verdict::Refused(reason) => Err(reason),
            Verdict::Pending => Err(Refusal::RoutePending),
        }
    }

    /// Handles the use of a path whose next hop is not resolved. Requests the next hop if that is
    /// due.
    #[cold]
    fn use_unresolved(&mut self, at: usize, hop: IpAddr) -> Result<PathIndex, Refusal> {
        if self.hops.request_is_due(hop, self.now) {
            self.request(Request::Neighbour(hop));
        }
        match self.hops.resolution(hop) {
            Some(Resolution::Failed) => Err(Refusal::HostUnreachable),
            _ => Ok(PathIndex(at)),
        }
    }

    /// Determines the verdict of a path again. Requests the route from the kernel unless the
    /// verdict does not depend on it.
    #[cold]
    fn reevaluate(&mut self, at: usize) -> Result<PathIndex, Refusal> {
        let key = self.paths.at(at).key;
        let verdict = match self.check_key(key) {
            Ok(()) => self.verdict_without_route(key).unwrap_or_else(|| {
                self.request(Request::Route(key));
                Verdict::Pending
            }),
            Err(reason) => Verdict::Refused(reason),
        };
        let generation = self.generation;
        let path = self.paths.at_mut(at);
        path.verdict = verdict;
        path.generation = generation;
        self.result_for(at)
    }

    /// Checks the conditions that do not depend on routes.
    fn check_key(&self, PathKey { src, dst, .. }: PathKey) -> Result<(), Refusal> {
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

    /// The state of a next hop.
    pub fn resolution(&self, hop: IpAddr) -> Resolution {
        // Do not wait for a next hop that no path uses any more.
        self.hops.resolution(hop).unwrap_or(Resolution::Failed)
    }

    /// Parses a received frame, from the Ethernet header to the end. A frame that does not parse,
    /// or is not for this station, is dropped and counted.
    ///
    /// # Errors
    /// The reason why the frame is dropped.
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

    /// Accepts frames to this multicast group from now on.
    pub fn accept_group(&mut self, group: IpAddr) {
        if group.is_multicast() && !self.groups.contains(&group) {
            self.groups.push(group);
        }
    }

    /// Stops accepting frames to this multicast group.
    pub fn leave_group(&mut self, group: IpAddr) {
        self.groups.retain(|&other| other != group);
    }

    /// The current link, once known.
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

    /// The counters.
    pub fn counters(&self) -> &NetCounters {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut NetCounters {
        &mut self.counters
    }

    /// The next request to carry out; `None` if there is none.
    pub fn next_request(&mut self) -> Option<Request> {
        let request = self.requests.pop_front()?;
        match request {
            Request::Route(_) => self.counters.route_lookups += 1,
            Request::Neighbour(_) => self.counters.neighbour_requests += 1,
            Request::Link | Request::Addresses | Request::OtherLink(_) => {}
        }
        Some(request)
    }

    /// Whether a request waits for [`Core::next_request`].
    #[inline]
    pub fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// What has changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Advances the core's time to `now`. Once a second, it also checks the neighbours of paths in
    /// use, so that they don't go stale.
    pub fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if !self.tick_has_work || now.saturating_duration_since(self.last_tick) < TICK {
            return;
        }
        self.last_tick = now;
        self.tick_has_work = false;
        let mut requested = 0;
        for path in self.paths.iter_mut().filter(|path| path.used) {
            if requested == REQUESTS_PER_TICK {
                self.tick_has_work = true;
                break;
            }
            path.used = false;
            let Some(hop) = path.hop() else { continue };
            if self.hops.request_is_due(hop, now) {
                push_once(&mut self.requests, Request::Neighbour(hop));
                requested += 1;
            }
        }
    }

    /// The latest time for the next [`Core::tick`]; `None` if no path was used since the last one.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.tick_has_work.then(|| self.last_tick + TICK)
    }

    fn request(&mut self, request: Request) {
        push_once(&mut self.requests, request);
    }

    /// Forgets next hops that no path uses, once there are more next hops than `max_paths`.
    fn drop_unused_hops(&mut self) {
        if self.hops.len() > self.config.max_paths {
            let paths = &self.paths;
            self.hops
                .retain(|address| paths.iter().any(|path| path.hop() == Some(address)));
        }
    }
}

/// A path that [`Core::find`] found, for [`Core::header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathIndex(usize);

/// Adds a request unless it is already queued. The number of requests is therefore bounded by the
/// number of paths and next hops.
fn push_once(requests: &mut VecDeque<Request>, request: Request) {
    if !requests.contains(&request) {
        requests.push_back(request);
    }
}

#[cfg(test)]
mod tests;
