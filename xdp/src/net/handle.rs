//! [`Net`]: the core together with its netlink connection to the kernel.

use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use roce_port::PortError;
use roce_stack::Instant;

use super::core::{Changes, Core, CoreConfig, Header, PathIndex, Resolution};
use super::event::PathKey;
use super::facts::{Link, OwnAddress};
use super::frame::Received;
use super::netlink::Netlink;
use super::reasons::{NetCounters, Refusal, RxDrop};

/// The maximum number of requests to the kernel before a path's first header. For an ordinary next
/// hop, there are two: the route and the neighbour. For another interface of this host, there are
/// three: the route, the interface's Ethernet address, and the route again.
const MAX_REQUESTS: usize = 3;

/// The state of an interface and its network, kept up to date through netlink. See the module's
/// documentation.
///
/// No call waits for the network. A request to the kernel takes microseconds, or longer while
/// another process holds the lock of the routing tables. Requests are made only when a destination
/// is new or the network has changed.
pub struct Net {
    core: Core,
    netlink: Netlink,
}

impl Net {
    /// Follows the interface of this index in the network namespace of the calling
    /// thread.
    ///
    /// # Errors
    /// If there is no such interface, if it isn't Ethernet, if a VLAN tag is requested but the
    /// interface is not a VLAN device, or if the kernel refuses a netlink socket.
    pub fn open(index: u32, config: CoreConfig, now: Instant) -> Result<Net, PortError> {
        let netlink = Netlink::open(index).map_err(|source| PortError {
            what: format!("following interface {index} by netlink"),
            source,
        })?;
        let core = Core::new(config, now);
        let mut net = Net { core, netlink };
        net.netlink.serve(&mut net.core);
        if net.core.is_gone() {
            return Err(net.gone_error(index));
        }
        let link = net.core.link().ok_or_else(|| PortError {
            what: format!("asking for interface {index}"),
            source: io::ErrorKind::InvalidData.into(),
        })?;
        if !link.ethernet {
            return Err(unsupported_error(link, "it is not an Ethernet interface"));
        }
        if let Err(Refusal::NoVlan) = config.tagging.check(link) {
            return Err(unsupported_error(
                link,
                "frames are to carry its VLAN's tag, but it is not a VLAN device",
            ));
        }
        Ok(net)
    }

    /// Handles pending events and returns the changes that affect frames. Never blocks. One call
    /// handles a bounded number of events. The descriptor stays readable if there are more.
    ///
    /// Makes a system call. Call it when [`Net::fd`] is readable and at [`Net::next_deadline`]; a
    /// caller that only spins calls it about every millisecond.
    ///
    /// # Errors
    /// If the interface is gone for good.
    pub fn poll(&mut self, now: Instant) -> Result<Changes, PortError> {
        self.core.tick(now);
        let passed = self.netlink.pass_events(&mut self.core);
        self.netlink.serve(&mut self.core);
        if self.core.is_gone() {
            let index = self.core.link().map_or(0, |link| link.index);
            return Err(self.gone_error(index));
        }
        passed.map_err(|source| PortError {
            what: "reading events by netlink".to_owned(),
            source,
        })?;
        Ok(self.core.take_changes())
    }

    /// The latest time for the next [`Net::poll`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.core.next_deadline()
    }

    /// A descriptor that is readable when [`Net::poll`] has work.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.netlink.fd()
    }

    /// The header of packets on this path. For a path in use, this is a table lookup. A new path is
    /// requested from the kernel at once.
    ///
    /// If the header waits for a next hop, the frame lacks only its destination's Ethernet address.
    /// Hold the frame in a [`Waiting`](super::Waiting), or drop it.
    ///
    /// # Errors
    /// The reason why nothing can be sent on this path. The refusal is counted.
    /// [`Refusal::is_transient`] tells whether it may end without intervention.
    #[inline(always)]
    pub fn header_for(&mut self, key: PathKey) -> Result<Header<'_>, Refusal> {
        let found = match self.core.find_ready(&key) {
            Some(found) => found,
            None => self.find(key)?,
        };
        self.core.header(found).ok_or(Refusal::RoutePending)
    }

    /// Finds a path, and requests its unknown parts from the kernel.
    #[inline(never)]
    fn find(&mut self, key: PathKey) -> Result<PathIndex, Refusal> {
        let mut found = self.core.find(key);
        for _ in 0..MAX_REQUESTS {
            if !self.core.has_requests() {
                break;
            }
            self.netlink.serve(&mut self.core);
            found = self.core.find(key);
        }
        found
    }

    /// The state of a next hop, for [`Waiting::release`](super::Waiting::release).
    pub fn resolution(&self, hop: IpAddr) -> Resolution {
        self.core.resolution(hop)
    }

    /// Parses a received frame, from the Ethernet header to the end (without its frame check
    /// sequence). The pieces of a frame must have been joined before.
    ///
    /// # Errors
    /// The reason why the frame is dropped. The drop is counted.
    #[inline]
    pub fn parse<'f>(&mut self, frame: &'f [u8]) -> Result<Received<'f>, RxDrop> {
        self.core.parse(frame)
    }

    /// Accepts frames to this multicast group from now on. The owner has to join the group, so that
    /// switches forward its frames.
    pub fn accept_group(&mut self, group: IpAddr) {
        self.core.accept_group(group);
    }

    /// Stops accepting frames to this multicast group.
    pub fn leave_group(&mut self, group: IpAddr) {
        self.core.leave_group(group);
    }

    /// The current link, once known.
    pub fn link(&self) -> Option<&Link> {
        self.core.link()
    }

    /// The interface's current addresses.
    pub fn addresses(&self) -> &[OwnAddress] {
        self.core.addresses()
    }

    /// Whether another interface of this host has this address. Returns `false` for link-local
    /// addresses, which are unique only on one link.
    pub fn is_others(&self, address: IpAddr) -> bool {
        self.core.is_others(address)
    }

    /// The counters.
    pub fn counters(&self) -> &NetCounters {
        self.core.counters()
    }

    fn gone_error(&self, index: u32) -> PortError {
        let name = self.core.link().map_or("", |link| &link.name);
        PortError {
            what: format!("interface {name} (index {index}) is gone"),
            source: io::Error::from_raw_os_error(libc::ENODEV),
        }
    }
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.core.fmt(f)
    }
}

fn unsupported_error(link: &Link, reason: &str) -> PortError {
    PortError {
        what: format!("sending frames on interface {}: {reason}", link.name),
        source: io::ErrorKind::Unsupported.into(),
    }
}
