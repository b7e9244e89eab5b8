//! What a port counts.

use std::io;

/// Why packets that were queued never left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxDrop {
    /// Longer than the path's MTU (EMSGSIZE).
    TooLong,
    /// No route to the network (ENETUNREACH, ENETDOWN).
    NetworkUnreachable,
    /// The host does not answer to ARP or neighbour discovery, or a router says
    /// it is unreachable (EHOSTUNREACH, EHOSTDOWN).
    HostUnreachable,
    /// A packet filter or the system's policy forbids it (EPERM, EACCES).
    Forbidden,
    /// The peer answered that nobody listens (ECONNREFUSED).
    Refused,
    /// The kernel took destination and source together for nonsense, such as a
    /// loopback source to a distant destination (EINVAL).
    Invalid,
    /// The source address isn't the machine's any more (EADDRNOTAVAIL, ENODEV,
    /// ENXIO), or was taken from the port's list.
    AddressGone,
    /// The kernel had no memory, or the interface's queue overflowed (ENOBUFS,
    /// ENOMEM). Not tried again from here: whoever says so has dropped it
    /// already, and the transport's retransmission backs off, as a full queue
    /// needs.
    NoBuffer,
    /// The rest of a datagram that the interface turned out not to segment. From
    /// then on the socket sends each packet by itself.
    NoSegmentation,
    /// Any other reason.
    Other,
}

impl TxDrop {
    /// Every reason, in the order of their declaration.
    pub const ALL: [TxDrop; 10] = [
        TxDrop::TooLong,
        TxDrop::NetworkUnreachable,
        TxDrop::HostUnreachable,
        TxDrop::Forbidden,
        TxDrop::Refused,
        TxDrop::Invalid,
        TxDrop::AddressGone,
        TxDrop::NoBuffer,
        TxDrop::NoSegmentation,
        TxDrop::Other,
    ];

    /// A name for tables: lower case, words joined by underscores.
    pub fn name(self) -> &'static str {
        match self {
            TxDrop::TooLong => "tx_too_long",
            TxDrop::NetworkUnreachable => "tx_network_unreachable",
            TxDrop::HostUnreachable => "tx_host_unreachable",
            TxDrop::Forbidden => "tx_forbidden",
            TxDrop::Refused => "tx_refused",
            TxDrop::Invalid => "tx_invalid",
            TxDrop::AddressGone => "tx_address_gone",
            TxDrop::NoBuffer => "tx_no_buffer",
            TxDrop::NoSegmentation => "tx_no_segmentation",
            TxDrop::Other => "tx_other",
        }
    }

    /// The reason behind an error of a sending system call.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => TxDrop::TooLong,
            Some(libc::ENETUNREACH | libc::ENETDOWN) => TxDrop::NetworkUnreachable,
            Some(libc::EHOSTUNREACH | libc::EHOSTDOWN) => TxDrop::HostUnreachable,
            Some(libc::EPERM | libc::EACCES) => TxDrop::Forbidden,
            Some(libc::ECONNREFUSED) => TxDrop::Refused,
            Some(libc::EINVAL) => TxDrop::Invalid,
            Some(libc::EADDRNOTAVAIL | libc::ENODEV | libc::ENXIO) => TxDrop::AddressGone,
            Some(libc::ENOBUFS | libc::ENOMEM) => TxDrop::NoBuffer,
            _ => TxDrop::Other,
        }
    }
}

/// What a port has done and dropped since it was made. Numbers only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Packets that the kernel took.
    pub tx_packets: u64,
    /// Their bytes, BTH to ICRC.
    pub tx_bytes: u64,
    /// Datagrams that they left in; fewer than packets by what segmentation saves.
    pub tx_datagrams: u64,
    /// Times that the kernel had no room and the rest stayed queued.
    pub tx_blocked: u64,
    /// Reservations refused because the port's queue was full.
    pub tx_queue_full: u64,
    /// Reservations refused because the packet can never be sent: too long,
    /// empty, from an address that was not activated, or to another family.
    pub tx_unsendable: u64,
    /// Packets handed out.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Datagrams, or bundles of datagrams, that they came in.
    pub rx_bundles: u64,
    /// Datagrams dropped because they were longer than any can be.
    pub rx_truncated: u64,
    /// Datagrams dropped because the kernel told no source address.
    pub rx_no_source: u64,
    /// Packets dropped because they are for QPs of other processes, and came in one bundle
    /// with some for ours.
    pub rx_foreign: u64,
    /// Errors of receiving that were passed over.
    pub rx_errors: u64,
    tx_dropped: [u64; TxDrop::ALL.len()],
}

impl UdpCounters {
    /// How many queued packets were dropped for `reason`.
    pub fn dropped(&self, reason: TxDrop) -> u64 {
        self.tx_dropped[reason as usize]
    }

    /// How many queued packets were dropped for any reason.
    pub fn dropped_in_all(&self) -> u64 {
        self.tx_dropped.iter().sum()
    }

    pub(crate) fn drop_packets(&mut self, reason: TxDrop, packets: usize) {
        self.tx_dropped[reason as usize] += packets as u64;
    }

    /// Every counter with its name, for tables.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let own = [
            ("tx_packets", self.tx_packets),
            ("tx_bytes", self.tx_bytes),
            ("tx_datagrams", self.tx_datagrams),
            ("tx_blocked", self.tx_blocked),
            ("tx_queue_full", self.tx_queue_full),
            ("tx_unsendable", self.tx_unsendable),
            ("rx_packets", self.rx_packets),
            ("rx_bytes", self.rx_bytes),
            ("rx_bundles", self.rx_bundles),
            ("rx_truncated", self.rx_truncated),
            ("rx_no_source", self.rx_no_source),
            ("rx_foreign", self.rx_foreign),
            ("rx_errors", self.rx_errors),
        ];
        let dropped = self.tx_dropped;
        own.into_iter().chain(
            TxDrop::ALL
                .into_iter()
                .map(move |reason| (reason.name(), dropped[reason as usize])),
        )
    }
}
