//! The counters of a port.

use std::io;

/// Why a queued packet was dropped instead of sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TxDrop {
    /// The packet is longer than the path's MTU (EMSGSIZE).
    TooLong,
    /// There is no route to the network (ENETUNREACH, ENETDOWN).
    NetworkUnreachable,
    /// The host does not answer ARP or neighbour discovery, or a router reports it as unreachable
    /// (EHOSTUNREACH, EHOSTDOWN).
    HostUnreachable,
    /// A packet filter or the system's policy forbids the packet (EPERM, EACCES).
    Forbidden,
    /// The peer answered that nothing listens at the port (ECONNREFUSED).
    Refused,
    /// The kernel rejected the combination of destination and source, such as a loopback source to
    /// a remote destination (EINVAL).
    Invalid,
    /// The source address no longer belongs to the machine (EADDRNOTAVAIL, ENODEV, ENXIO), or was
    /// removed from the port's list.
    AddressGone,
    /// The kernel had no memory, or the interface's queue overflowed (ENOBUFS, ENOMEM). The port
    /// doesn't retry: the kernel has already dropped the packet, and the transport's retransmission
    /// backs off, as a full queue needs. Management datagrams are also dropped if the socket's
    /// buffer stays full: hosts that do not answer may fill it.
    NoBuffer,
    /// The kernel could not segment the datagram. The port sent its first packet alone, and dropped
    /// the others. From then on, the socket sends each packet in a datagram of its own.
    NoSegmentation,
    /// An earlier datagram of the same flow was dropped. The IPv4 identification that this one's
    /// ICRC covers may therefore be wrong.
    Identification,
    /// Any other reason.
    Other,
}

impl TxDrop {
    /// Every reason, in the order of declaration.
    pub const ALL: [TxDrop; 11] = [
        TxDrop::TooLong,
        TxDrop::NetworkUnreachable,
        TxDrop::HostUnreachable,
        TxDrop::Forbidden,
        TxDrop::Refused,
        TxDrop::Invalid,
        TxDrop::AddressGone,
        TxDrop::NoBuffer,
        TxDrop::NoSegmentation,
        TxDrop::Identification,
        TxDrop::Other,
    ];

    /// The reason's name for tables, in snake case.
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
            TxDrop::Identification => "tx_identification",
            TxDrop::Other => "tx_other",
        }
    }

    /// The reason for a drop, from the error of the system call that sends.
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

/// The packets that a port has sent, received and dropped since it was created. Counters only
/// increase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Packets that the kernel accepted.
    pub tx_packets: u64,
    /// Bytes of these packets, from BTH to ICRC.
    pub tx_bytes: u64,
    /// Datagrams that carried these packets. With segmentation, there are fewer datagrams than
    /// packets.
    pub tx_datagrams: u64,
    /// The number of times that packets stayed queued because the kernel's buffer was full.
    pub tx_blocked: u64,
    /// Reservations refused because the port's queue was full.
    pub tx_queue_full: u64,
    /// Reservations refused because the port can never send the packet: it is too long or empty,
    /// its source address is not activated, or its destination belongs to another address family.
    pub tx_unsendable: u64,
    /// Sockets opened for flows.
    pub tx_flows_opened: u64,
    /// The number of times that the system refused a socket for a flow. The flow's packets then
    /// leave from port 4791.
    pub tx_flows_refused: u64,
    /// Packets that left from port 4791 because other flows use all sockets.
    pub tx_flows_full: u64,
    /// Datagrams that may have left with a wrong IPv4 identification in their ICRCs.
    pub tx_wrong_ids: u64,
    /// Bytes, from BTH to ICRC, that the kernel sent without a copy.
    pub tx_spliced_bytes: u64,
    /// Datagrams that the kernel refused to send without a copy.
    pub tx_splice_refused: u64,
    /// Packets delivered to the caller.
    pub rx_packets: u64,
    /// Bytes of these packets, from BTH to ICRC.
    pub rx_bytes: u64,
    /// Bundles that carried these packets: single datagrams, or consecutive datagrams in one
    /// buffer.
    pub rx_bundles: u64,
    /// Datagrams dropped because they were longer than the largest UDP datagram.
    pub rx_truncated: u64,
    /// Datagrams dropped because the kernel reported no source address.
    pub rx_no_source: u64,
    /// Packets dropped because they are for QPs of other processes. Each arrived in a bundle with
    /// packets for this process.
    pub rx_foreign: u64,
    /// The number of times that such a bundle made this process switch joining (`UDP_GRO`) off for
    /// a while, at all sockets of the address.
    pub rx_joining_paused: u64,
    /// Receive errors that the port ignored.
    pub rx_errors: u64,
    tx_dropped: [u64; TxDrop::ALL.len()],
}

impl UdpCounters {
    /// The number of queued packets dropped for `reason`.
    pub fn dropped(&self, reason: TxDrop) -> u64 {
        self.tx_dropped[reason as usize]
    }

    /// The number of queued packets dropped for any reason.
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
            ("tx_flows_opened", self.tx_flows_opened),
            ("tx_flows_refused", self.tx_flows_refused),
            ("tx_flows_full", self.tx_flows_full),
            ("tx_wrong_ids", self.tx_wrong_ids),
            ("tx_spliced_bytes", self.tx_spliced_bytes),
            ("tx_splice_refused", self.tx_splice_refused),
            ("rx_packets", self.rx_packets),
            ("rx_bytes", self.rx_bytes),
            ("rx_bundles", self.rx_bundles),
            ("rx_truncated", self.rx_truncated),
            ("rx_no_source", self.rx_no_source),
            ("rx_foreign", self.rx_foreign),
            ("rx_joining_paused", self.rx_joining_paused),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_reason() {
        for (errno, reason) in [
            (libc::EMSGSIZE, TxDrop::TooLong),
            (libc::ENETUNREACH, TxDrop::NetworkUnreachable),
            (libc::ENETDOWN, TxDrop::NetworkUnreachable),
            (libc::EHOSTUNREACH, TxDrop::HostUnreachable),
            (libc::EHOSTDOWN, TxDrop::HostUnreachable),
            (libc::EPERM, TxDrop::Forbidden),
            (libc::EACCES, TxDrop::Forbidden),
            (libc::ECONNREFUSED, TxDrop::Refused),
            (libc::EINVAL, TxDrop::Invalid),
            (libc::EADDRNOTAVAIL, TxDrop::AddressGone),
            (libc::ENODEV, TxDrop::AddressGone),
            (libc::ENXIO, TxDrop::AddressGone),
            (libc::ENOBUFS, TxDrop::NoBuffer),
            (libc::ENOMEM, TxDrop::NoBuffer),
            (libc::EIO, TxDrop::Other),
        ] {
            let found = TxDrop::of(&io::Error::from_raw_os_error(errno));
            assert_eq!(found, reason, "errno {errno}");
        }
    }
}
