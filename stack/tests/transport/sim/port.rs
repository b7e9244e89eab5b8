//! The port of the tests, in memory.

use roce_port::Port;
pub(crate) use roce_port::memory::{Frame, SRC_PORT};
use roce_port::memory::{MemoryIp, MemoryPort};
use roce_stack::{
    Acknowledged, Flow, Position, ReserveError, RoceVersion, Sequenced, Transmit, TxMeta, TxSlot,
};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{Deref, DerefMut};

/// The header in front of the BTH, and the part of it that the receiving port sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    /// As through a socket: the identification counts up, but is hidden.
    V4Hidden,
    V6,
    /// RoCE v1's GRH, with IPv4 addresses.
    Grh,
}

impl Ip {
    pub(crate) const ALL: [Ip; 4] = [Ip::V4, Ip::V4Hidden, Ip::V6, Ip::Grh];

    /// Those of RoCEv2. Seeds draw from these only, so that seeds that once found something keep
    /// their meaning.
    pub(crate) const ROCE_V2: [Ip; 3] = [Ip::V4, Ip::V4Hidden, Ip::V6];

    pub(crate) fn version(self) -> RoceVersion {
        match self {
            Ip::V4 | Ip::V4Hidden | Ip::V6 => RoceVersion::V2,
            Ip::Grh => RoceVersion::V1,
        }
    }

    /// The address of host `n`.
    pub(crate) fn address(self, n: u8) -> IpAddr {
        match self {
            Ip::V4 | Ip::V4Hidden | Ip::Grh => Ipv4Addr::new(10, 0, 0, n).into(),
            Ip::V6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n.into()).into(),
        }
    }
}

/// A port in memory that checks that the NIC keeps to the contract.
#[derive(Debug)]
pub(crate) struct SimPort {
    memory: MemoryPort,
    ip: Ip,
    /// The number of packets at each [`Transmit::commit_last`](roce_stack::Transmit::commit_last).
    pub(crate) ends: Vec<usize>,
    /// Whether it keeps the memory of packets whose arrival is reported.
    pub(crate) keeps: bool,
    /// The packets that it keeps, and the reports.
    pub(crate) memory_of_sent: KeptMemory,
    reserved: Option<(Flow, Option<Sequenced>)>,
}

/// The packets that a port keeps, and the reports about them.
#[derive(Debug, Default)]
pub(crate) struct KeptMemory {
    /// The places of the packets of each flow.
    pub(crate) kept: HashMap<Flow, Vec<Position>>,
    /// The place before which no packet of the flow may be sent any more.
    floor: HashMap<Flow, Position>,
    /// The last place of each flow that was sent.
    last: HashMap<Flow, Position>,
    /// All reports, in order.
    pub(crate) reports: Vec<(Flow, Acknowledged)>,
}

impl KeptMemory {
    fn sent(&mut self, flow: Flow, sequenced: Sequenced) {
        let Sequenced {
            position: at,
            is_retransmission,
        } = sequenced;
        let last = self.last.entry(flow).or_insert(at);
        assert!(
            !is_retransmission || at <= *last,
            "{at:?} of {flow:?} was not sent before: the last is {last:?}"
        );
        *last = at.max(*last);
        let floor = self.floor.get(&flow);
        assert!(
            floor.is_none_or(|floor| at >= *floor),
            "{at:?} of {flow:?} is sent although {floor:?} was acknowledged"
        );
        self.kept.entry(flow).or_default().push(at);
    }

    fn report(&mut self, flow: Flow, which: Acknowledged) {
        let kept = self.kept.get_mut(&flow).expect("the port keeps some of it");
        assert!(!kept.is_empty(), "the port keeps some of {flow:?}");
        match which {
            Acknowledged::Before(place) => {
                kept.retain(|at| *at >= place);
                let last = self.floor.insert(flow, place);
                assert!(last.is_none_or(|last| last < place), "{last:?}, {place:?}");
            }
            Acknowledged::All => {
                kept.clear();
                self.floor.remove(&flow);
                self.last.remove(&flow);
            }
        }
        self.reports.push((flow, which));
    }

    /// The number of packets that are kept.
    pub(crate) fn len(&self) -> usize {
        self.kept.values().map(Vec::len).sum()
    }
}

impl SimPort {
    pub(crate) fn new(ip: Ip, max_packet_bytes: usize) -> Self {
        let of_packets = match ip {
            Ip::V4 => MemoryIp::V4Numbered,
            Ip::V4Hidden => MemoryIp::V4Hidden,
            Ip::V6 => MemoryIp::V6,
            Ip::Grh => MemoryIp::Grh,
        };
        Self {
            memory: MemoryPort::new(of_packets, max_packet_bytes).poisoned(),
            ip,
            ends: Vec::new(),
            keeps: false,
            memory_of_sent: KeptMemory::default(),
            reserved: None,
        }
    }

    pub(crate) fn ip(&self) -> Ip {
        self.ip
    }
}

impl Deref for SimPort {
    type Target = MemoryPort;

    fn deref(&self) -> &MemoryPort {
        &self.memory
    }
}

impl DerefMut for SimPort {
    fn deref_mut(&mut self) -> &mut MemoryPort {
        &mut self.memory
    }
}

impl Transmit for SimPort {
    fn reserve(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        let max = self.memory.capabilities().max_packet_bytes;
        assert!(len <= max, "a packet of {len} bytes, the port takes {max}");
        assert_eq!(to.version, self.ip.version());
        self.reserved = None;
        let mut slot = self.memory.reserve(to, flow, sequenced, len)?;
        slot.kept = self.keeps && sequenced.is_some();
        self.reserved = Some((flow, sequenced));
        Ok(slot)
    }

    fn commit(&mut self) {
        let before = self.memory.counters().tx_packets;
        self.memory.commit();
        let after = self.memory.counters().tx_packets;
        assert_eq!(after, before + 1, "there is a reservation to commit");
        if let Some((flow, Some(sequenced))) = self.reserved
            && self.keeps
        {
            self.memory_of_sent.sent(flow, sequenced);
        }
    }

    fn commit_last(&mut self) {
        self.commit();
        let packets = self.memory.counters().tx_packets;
        self.ends
            .push(usize::try_from(packets).expect("not that many"));
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.memory_of_sent.report(flow, which);
    }
}
