//! The reasons why a packet is not sent or not accepted, with a counter for each.

/// Defines an enum of reasons with a name for each and a list of all.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* $variant,)+
        }

        impl $name {
            /// Every reason, in the order of their declaration.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// A name for tables: lower case, words joined by underscores.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

reasons! {
    /// Why there is no header for a destination. See [`Refusal::is_transient`].
    Refusal {
        /// The interface is gone.
        InterfaceGone = "tx_interface_gone",
        /// The interface is down or has no carrier.
        LinkDown = "tx_link_down",
        /// The source is not an address of the interface.
        SourceNotOurs = "tx_source_not_ours",
        /// The source address may not be used yet, because of duplicate address detection.
        SourceTentative = "tx_source_tentative",
        /// Source and destination belong to different address families.
        Families = "tx_families",
        /// The destination is unspecified, or a broadcast address.
        Destination = "tx_destination",
        /// The destination is an address of this machine, so packets to it do not go over the link.
        /// Addresses of other interfaces that are on the link are not refused.
        Local = "tx_local",
        /// No route leads to the destination over this interface.
        NoRoute = "tx_no_route",
        /// The route leads through a gateway, which does not forward RoCE v1 packets.
        OffLink = "tx_off_link",
        /// The route, or a rule, prohibits the packet.
        Prohibited = "tx_prohibited",
        /// The kernel has not answered the route request yet.
        RoutePending = "tx_route_pending",
        /// The next hop does not answer ARP or neighbour discovery.
        HostUnreachable = "tx_host_unreachable",
        /// A VLAN tag is requested, but the interface is not a VLAN device.
        NoVlan = "tx_no_vlan",
    }
}

impl Refusal {
    /// Whether the same packet may become sendable soon without intervention. A driver need not
    /// report such a refusal to its user.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Refusal::LinkDown
                | Refusal::SourceTentative
                | Refusal::RoutePending
                | Refusal::HostUnreachable
        )
    }
}

reasons! {
    /// Why a received frame is not delivered.
    RxDrop {
        /// The frame ends within the Ethernet header or a tag.
        Truncated = "rx_truncated",
        /// The destination is another Ethernet address.
        OtherMac = "rx_other_mac",
        /// The frame belongs to another VLAN, or has more than one tag.
        OtherVlan = "rx_other_vlan",
        /// The EtherType is neither IPv4, IPv6 nor RoCE v1.
        EtherType = "rx_ethertype",
        /// The frame is a RoCE v1 packet, and RoCE v1 is not enabled.
        RoceV1 = "rx_roce_v1",
        /// The GRH's version, next header or length is wrong.
        Grh = "rx_grh",
        /// The IPv4 header's version or lengths are wrong.
        Ipv4Header = "rx_ipv4_header",
        /// The IPv4 header's checksum is wrong.
        Ipv4Checksum = "rx_ipv4_checksum",
        /// The IPv4 header has options.
        Ipv4Options = "rx_ipv4_options",
        /// The packet is a fragment.
        Fragment = "rx_fragment",
        /// The IPv6 header's version or length is wrong.
        Ipv6Header = "rx_ipv6_header",
        /// The packet is not a UDP datagram, or has extension headers.
        NotUdp = "rx_not_udp",
        /// The datagram is for another UDP port.
        UdpPort = "rx_udp_port",
        /// The UDP length is wrong.
        UdpLength = "rx_udp_length",
        /// The source address is multicast, unspecified, loopback or broadcast.
        BadSource = "rx_bad_source",
        /// The destination is neither an address of the interface nor a group that
        /// was joined.
        OtherAddress = "rx_other_address",
    }
}

reasons! {
    /// Why a frame that waited for its neighbour's address was dropped.
    WaitDrop {
        /// Too many frames waited, for the same neighbour or in total, and this was the oldest of
        /// them.
        Overflow = "wait_overflow",
        /// The neighbour does not answer.
        HostUnreachable = "wait_host_unreachable",
        /// The frame waited too long.
        TooLate = "wait_too_late",
    }
}

/// Counters of refused packets, dropped frames and requests to the kernel. They only increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetCounters {
    refused: [u64; Refusal::ALL.len()],
    rx_dropped: [u64; RxDrop::ALL.len()],
    /// Requests to the kernel for the route to a destination.
    pub route_lookups: u64,
    /// Requests to the kernel for a neighbour in use.
    pub neighbour_requests: u64,
    /// The number of times that the kernel's buffer for events overflowed and all facts were
    /// requested again.
    pub overruns: u64,
    /// Messages from the kernel that could not be decoded.
    pub unparsed: u64,
    /// Requests that the kernel refused or did not answer.
    pub failed_requests: u64,
}

impl NetCounters {
    /// The number of headers refused for `reason`.
    pub fn refused(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }

    /// The number of received frames dropped for `reason`.
    pub fn rx_dropped(&self, reason: RxDrop) -> u64 {
        self.rx_dropped[reason as usize]
    }

    /// Every counter with its name, for tables.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let own = [
            ("net_route_lookups", self.route_lookups),
            ("net_neighbour_requests", self.neighbour_requests),
            ("net_overruns", self.overruns),
            ("net_unparsed", self.unparsed),
            ("net_failed_requests", self.failed_requests),
        ];
        let this = *self;
        let refused = Refusal::ALL
            .into_iter()
            .map(move |reason| (reason.name(), this.refused(reason)));
        let dropped = RxDrop::ALL
            .into_iter()
            .map(move |reason| (reason.name(), this.rx_dropped(reason)));
        own.into_iter().chain(refused).chain(dropped)
    }

    pub(super) fn refuse(&mut self, reason: Refusal) {
        self.refused[reason as usize] += 1;
    }

    pub(super) fn drop_received(&mut self, reason: RxDrop) {
        self.rx_dropped[reason as usize] += 1;
    }
}
