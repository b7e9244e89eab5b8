//! The counters of the NIC. Every dropped packet has a reason, and every reason has a counter.

use crate::labelled::labelled;
use core::fmt;
use core::ops::Index;

labelled! {
    /// Why a received packet was dropped.
    DropReason {
        /// Not a well-formed transport packet.
        Malformed = "malformed",
        /// The ICRC does not match.
        BadIcrc = "bad_icrc",
        /// No QP has the destination number.
        UnknownQp = "unknown_qp",
        /// The packet's IP addresses are not those of the QP's path.
        WrongPeer = "wrong_peer",
        /// From the peer, but with another version of RoCE than the QP's path: the two ends use
        /// GID indices of different types.
        WrongVersion = "wrong_version",
        /// From the peer's address, but not from the UDP source port of its packets in order, while
        /// somebody guesses PSNs: see [`Stat::PsnGuesses`].
        WrongSourcePort = "wrong_source_port",
        /// The partition key is not the QP's.
        WrongPKey = "wrong_pkey",
        /// The opcode belongs to another transport service than the QP's.
        WrongTransport = "wrong_transport",
        /// A request to an XRC initiator, or a response to an XRC target.
        WrongDirection = "wrong_direction",
        /// The QP's state does not allow the packet.
        WrongState = "wrong_state",
        /// A request ahead of the expected PSN, because a packet before it was lost. The QP did not
        /// keep it, or kept it and dropped it later.
        OutOfSequence = "out_of_sequence",
        /// A request or response ahead of the expected PSN of which an earlier copy is kept.
        DuplicateOutOfOrder = "duplicate_out_of_order",
        /// A request ahead of the expected PSN of which two copies arrived that differ. One of them
        /// is forged or damaged, so neither is executed.
        OutOfOrderDisputed = "out_of_order_disputed",
        /// A request or response that was kept ahead of the expected PSN, while its QP made no
        /// progress for a second.
        OutOfOrderExpired = "out_of_order_expired",
        /// A duplicate request that can't be answered any more: the responder no longer has its
        /// result, or its memory is no longer accessible.
        StaleDuplicate = "stale_duplicate",
        /// An acknowledgement of a packet that was never sent.
        GhostAck = "ghost_ack",
        /// A response that was received before.
        DuplicateResponse = "duplicate_response",
        /// A response that fits no outstanding request.
        UnexpectedResponse = "unexpected_response",
        /// An out-of-order response that was not kept.
        ResponseGap = "response_gap",
        /// The datagram's Q_Key is not the QP's. (UD.)
        WrongQKey = "wrong_qkey",
        /// A multicast to a group that no QP is attached to, or a group and a QPN that don't belong
        /// together. (UD.)
        NoGroup = "no_group",
        /// A middle or last packet that continues no message in progress: the message was abandoned
        /// or never begun, or is of another operation. (UC.)
        OutOfPlace = "out_of_place",
        /// The payload's length does not fit its place in the message. (UC, UD.)
        BadLength = "bad_length",
        /// No receive was posted for the message. (UC, UD.)
        NoReceive = "no_receive",
        /// The posted receive is too small for the message. (UC, UD.)
        ReceiveTooSmall = "receive_too_small",
        /// Remote key, rights or bounds did not allow the WRITE. (UC.)
        AccessDenied = "access_denied",
        /// A management datagram for which the inbox of QP1 had no room. (QP1.)
        MadsFull = "mads_full",
        /// An operation that this stack does not support yet.
        Unsupported = "unsupported",
        /// An empty datagram: a peer checks whether this port is open.
        Empty = "empty",
    }
}

labelled! {
    /// Other counters.
    Stat {
        /// Packets received for a QP of this NIC with a correct ICRC, including those that were
        /// dropped later.
        RxPackets = "rx_packets",
        /// Payload bytes of the packets received, without those of management datagrams.
        RxBytes = "rx_bytes",
        /// Packets sent.
        TxPackets = "tx_packets",
        /// Payload bytes of the packets sent, without those of management datagrams.
        TxBytes = "tx_bytes",
        /// Packets received for QP1, the QP of management datagrams. [`Stat::RxPackets`] includes
        /// them.
        RxMads = "rx_mads",
        /// Management datagrams sent. [`Stat::TxPackets`] includes them.
        TxMads = "tx_mads",
        /// Packets retransmitted.
        Retransmitted = "retransmitted",
        /// Local ACK timeouts.
        Timeouts = "timeouts",
        /// Spurious local ACK timeouts: everything had arrived.
        SpuriousTimeouts = "spurious_timeouts",
        /// Responses that were late compared with the measured round trip, though the local ACK
        /// timeout had not expired. The requester retransmitted a packet to get each of them.
        LateAnswers = "late_answers",
        /// Acknowledgements received.
        AcksReceived = "acks_received",
        /// Acknowledgements sent.
        AcksSent = "acks_sent",
        /// Requests and responses ahead of the expected PSN that were kept.
        OutOfOrderKept = "out_of_order_kept",
        /// NAKs for a PSN sequence error received.
        SequenceNaksReceived = "sequence_naks_received",
        /// NAKs for a PSN sequence error sent.
        SequenceNaksSent = "sequence_naks_sent",
        /// RNR NAKs received.
        RnrNaksReceived = "rnr_naks_received",
        /// RNR NAKs sent.
        RnrNaksSent = "rnr_naks_sent",
        /// Missing responses that were detected by later packets.
        ImpliedNaks = "implied_naks",
        /// Other NAKs received.
        FatalNaksReceived = "fatal_naks_received",
        /// Other NAKs sent.
        FatalNaksSent = "fatal_naks_sent",
        /// Duplicate requests received.
        DuplicateRequests = "duplicate_requests",
        /// Packets whose PSN is so far from those in use that the peer can't have sent them: somebody
        /// guesses PSNs. (RC, XRC.)
        PsnGuesses = "psn_guesses",
        /// Messages that arrived only in part. (UC.)
        UnfinishedMessages = "unfinished_messages",
        /// Packets received with the ECN mark "congestion experienced".
        EcnMarked = "ecn_marked",
        /// Congestion notification packets received from peers.
        CnpsReceived = "cnps_received",
        /// Congestion notification packets sent.
        CnpsSent = "cnps_sent",
        /// Marked packets for which no CNP was sent, because one had just been sent.
        CnpsSuppressed = "cnps_suppressed",
        /// Packets that the port could not send at all.
        Unsendable = "unsendable",
    }
}

/// The values of all counters of a NIC.
///
/// ```
/// # use roce_stack::{Counters, DropReason, Stat};
/// let counters = Counters::default();
/// assert_eq!(counters[Stat::Retransmitted], 0);
/// assert_eq!(counters[DropReason::BadIcrc], 0);
/// assert_eq!(counters.get("drop_bad_icrc"), Some(0));
/// for (name, value) in counters.iter() {
///     println!("{name} {value}");
/// }
/// ```
#[derive(Clone)]
pub struct Counters {
    drops: [u64; DropReason::ALL.len()],
    stats: [u64; Stat::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            drops: [0; DropReason::ALL.len()],
            stats: [0; Stat::ALL.len()],
        }
    }
}

impl Counters {
    /// The number of packets that were dropped for this reason.
    pub fn drops(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// The value of a counter.
    pub fn stat(&self, stat: Stat) -> u64 {
        self.stats[stat as usize]
    }

    /// The sum of all drops.
    pub fn total_drops(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Name and value of every counter, drops first (their names begin with `drop_`).
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let drops = DropReason::ALL
            .iter()
            .map(|r| (format!("drop_{}", r.label()), self.drops(*r)));
        let stats = Stat::ALL
            .iter()
            .map(|s| (s.label().to_owned(), self.stat(*s)));
        drops.chain(stats)
    }

    /// The value of the counter with this name, as in [`Counters::iter`].
    pub fn get(&self, name: &str) -> Option<u64> {
        match name.strip_prefix("drop_") {
            Some(label) => {
                let mut reasons = DropReason::ALL.iter();
                let reason = reasons.find(|reason| reason.label() == label)?;
                Some(self.drops(*reason))
            }
            None => {
                let stat = Stat::ALL.iter().find(|stat| stat.label() == name)?;
                Some(self.stat(*stat))
            }
        }
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    pub(crate) fn count(&mut self, stat: Stat) {
        self.add(stat, 1);
    }

    pub(crate) fn add(&mut self, stat: Stat, n: u64) {
        self.stats[stat as usize] += n;
    }
}

impl Index<Stat> for Counters {
    type Output = u64;

    fn index(&self, stat: Stat) -> &u64 {
        &self.stats[stat as usize]
    }
}

impl Index<DropReason> for Counters {
    type Output = u64;

    fn index(&self, reason: DropReason) -> &u64 {
        &self.drops[reason as usize]
    }
}

/// The counters that are not zero, as `name value`, separated by commas.
impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, value) in self.iter().filter(|(_, value)| *value != 0) {
            write!(f, "{separator}{name} {value}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted = self.iter().filter(|(_, value)| *value != 0);
        f.debug_map().entries(counted).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_found_by_its_name() {
        let mut counters = Counters::default();
        counters.add(Stat::CnpsSent, 3);
        counters.drop(DropReason::Empty);
        for (name, value) in counters.iter() {
            assert_eq!(counters.get(&name), Some(value), "{name}");
        }
        assert_eq!(counters.get("drop_nothing"), None);
        assert_eq!(
            (counters[Stat::CnpsSent], counters[DropReason::Empty]),
            (3, 1)
        );
        assert_eq!(counters.to_string(), "drop_empty 1, cnps_sent 3");
        let shown = format!("{counters:?}");
        assert_eq!(shown, r#"{"drop_empty": 1, "cnps_sent": 3}"#);
    }
}
