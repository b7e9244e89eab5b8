//! Two network namespaces joined by a veth pair, with a `Net` for the interface in one of them.

use std::net::IpAddr;
use std::time::{Duration as Patience, Instant as Clock};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roce_stack::{Duration, Instant, RoceVersion};
use roce_xdp::net::{Changes, CoreConfig, Mac, Net, PathKey, Refusal};
use testkit::{Namespace, namespaces_or_skip};

/// The time that a test waits for an event before it fails.
const TIMEOUT: Patience = Patience::from_secs(30);

pub(crate) const FAR_MAC: Mac = [2, 0, 0, 0, 0x90, 2];

/// A host: a network namespace in which commands must succeed.
pub(crate) struct Host(Namespace);

impl Host {
    /// See [`Namespace::path`].
    pub(crate) fn path(&self) -> String {
        self.0.path()
    }

    /// Runs `work` in a thread in this namespace.
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.enter(work)
    }

    /// Runs `ip` in this namespace and returns its output. Spaces separate the arguments.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        let output = self.0.run(&format!("ip {arguments}"));
        output.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Runs several `ip` commands in this namespace, one per line.
    pub(crate) fn ip_batch(&self, lines: &str) {
        self.0.run_with(&["ip", "-batch", "-"], lines).expect("ip");
    }

    /// Sets a network variable of the kernel (sysctl) in this namespace.
    pub(crate) fn set(&self, variable: &str, value: &str) {
        self.0.set(variable, value).expect("a variable");
    }
}

/// Interface `near` with 10.90.0.1, fd90::1 and fe80::1 in one namespace; `far` with
/// 10.90.0.2, fd90::2 and fe80::2 in another, which also has 10.91.0.1 and fd91::1 and
/// routes to them.
pub(crate) struct Lab {
    pub(crate) near: Host,
    pub(crate) far: Host,
    started: Clock,
}

impl Lab {
    /// Creates a lab. Returns `None`, after a message on stderr, if this process may not create
    /// one.
    pub(crate) fn new_or_skip() -> Option<Lab> {
        let [near, far] = namespaces_or_skip()?.map(Host);
        near.ip("link add near address 02:00:00:00:90:01 type veth \
                 peer name far address 02:00:00:00:90:02");
        near.ip(&format!("link set far netns {}", far.path()));
        for (namespace, interface, host) in [(&near, "near", 1), (&far, "far", 2)] {
            namespace.ip("link set lo up");
            namespace.ip(&format!("link set {interface} addrgenmode none"));
            namespace.ip(&format!("address add 10.90.0.{host}/24 dev {interface}"));
            for prefix in ["fd90", "fe80"] {
                namespace.ip(&format!(
                    "address add {prefix}::{host}/64 dev {interface} nodad"
                ));
            }
            namespace.ip(&format!("link set {interface} up"));
        }
        far.ip("address add 10.91.0.1/32 dev lo");
        far.ip("address add fd91::1/128 dev lo");
        near.ip("route add 10.91.0.0/16 via 10.90.0.2");
        near.ip("route add fd91::/64 via fd90::2");
        // Make the kernel give up missing neighbours sooner.
        near.set("ipv4/neigh/near/retrans_time_ms", "50");
        near.set("ipv6/neigh/near/retrans_time_ms", "50");
        Some(Lab {
            near,
            far,
            started: Clock::now(),
        })
    }

    pub(crate) fn now(&self) -> Instant {
        let elapsed = u64::try_from(self.started.elapsed().as_nanos()).expect("no such age");
        Instant::from_nanos(elapsed)
    }

    /// The interface `near`, up.
    pub(crate) fn net(&self) -> Net {
        self.net_with(CoreConfig::default())
    }

    pub(crate) fn net_with(&self, config: CoreConfig) -> Net {
        let mut net = self.open("near", config).expect("an Ethernet interface");
        self.until(&mut net, |net| net.link().is_some_and(|link| link.up));
        net
    }

    pub(crate) fn open(
        &self,
        interface: &str,
        config: CoreConfig,
    ) -> Result<Net, roce_port::PortError> {
        let shown = self.near.ip(&format!("-o link show dev {interface}"));
        let index = shown.split(':').next().expect("an index");
        let index = index.parse().expect("a number");
        let now = self.now();
        self.near.inside(|| Net::open(index, config, now))
    }

    /// Waits for events of the kernel, as a driver does, until `done` returns true.
    #[track_caller]
    pub(crate) fn until(&self, net: &mut Net, done: impl Fn(&mut Net) -> bool) -> Changes {
        let start = Clock::now();
        let mut all = Changes::default();
        while !done(net) {
            let left = TIMEOUT.checked_sub(start.elapsed());
            assert!(
                left.is_some(),
                "the condition is not met within {TIMEOUT:?}: {net:?}"
            );
            let now = self.now();
            let wait = net.next_deadline().map_or(Duration::from_secs(1), |at| {
                at.saturating_duration_since(now)
            });
            let millis = u16::try_from(wait.as_millis().min(1000)).expect("at most 1000") + 1;
            let mut fds = [PollFd::new(net.fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::from(millis)).expect("poll");
            let changes = net.poll(self.now()).expect("the interface is there");
            all.link |= changes.link;
            all.addresses |= changes.addresses;
            all.neighbours |= changes.neighbours;
        }
        all
    }

    /// Waits until packets from one address to another have this destination on the
    /// link.
    #[track_caller]
    pub(crate) fn until_sent_to(&self, net: &mut Net, src: &str, dst: &str, mac: Mac) {
        self.until(net, |net| lead(net, src, dst) == Ok(Lead::To(mac)));
    }

    /// Waits until packets from one address to another are refused for this reason.
    #[track_caller]
    pub(crate) fn until_refused(&self, net: &mut Net, src: &str, dst: &str, reason: Refusal) {
        self.until(net, |net| lead(net, src, dst) == Err(reason));
    }
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// To this Ethernet address.
    To(Mac),
    /// To a next hop with an unknown Ethernet address.
    WaitsFor(IpAddr),
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The path of RoCEv2 packets from one address to another.
pub(crate) fn path(src: &str, dst: &str) -> PathKey {
    PathKey {
        src: ip(src),
        dst: ip(dst),
        version: RoceVersion::V2,
    }
}

/// The current destination of packets from one address to another.
pub(crate) fn lead(net: &mut Net, src: &str, dst: &str) -> Result<Lead, Refusal> {
    let header = net.header_for(path(src, dst))?;
    Ok(match header.waits_for {
        Some(hop) => Lead::WaitsFor(hop),
        None => Lead::To(header.template.dst()),
    })
}

/// The largest transport packet on a path.
pub(crate) fn longest(net: &mut Net, src: &str, dst: &str) -> usize {
    let header = net.header_for(path(src, dst)).expect("a way there");
    header.template.max_transport()
}
