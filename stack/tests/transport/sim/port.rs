//! The port of the tests, in memory.

use roce_port::Port;
pub(crate) use roce_port::memory::{Frame, SRC_PORT};
use roce_port::memory::{MemoryIp, MemoryPort};
use roce_stack::{
    Acknowledged, Flow, ReserveError, RoceVersion, Sequenced, Transmit, TxMeta, TxSlot,
};
use roce_wire::Qpn;
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

/// The most packets in a run: fewer than most messages of the tests have.
const MAX_RUN: usize = 3;

/// A run of packets that is reserved.
#[derive(Clone, Copy, Debug)]
struct Run {
    to: TxMeta,
    flow: Flow,
    sequenced: Option<Sequenced>,
    len: usize,
}

/// A port in memory that checks that the NIC keeps to the contract.
#[derive(Debug)]
pub(crate) struct SimPort {
    memory: MemoryPort,
    ip: Ip,
    /// The bytes of the reserved run.
    bytes: Vec<u8>,
    run: Option<Run>,
    /// There is no room for packets to this QP, whatever room others have.
    pub(crate) full_for: Option<Qpn>,
    /// The number of packets at each [`Transmit::commit_last`](roce_stack::Transmit::commit_last).
    pub(crate) ends: Vec<usize>,
    /// All reports of acknowledged packets, in order.
    pub(crate) reports: Vec<(Flow, Acknowledged)>,
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
            bytes: Vec::new(),
            run: None,
            full_for: None,
            ends: Vec::new(),
            reports: Vec::new(),
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
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        let max = self.memory.capabilities().max_packet_bytes;
        assert!(len <= max, "a packet of {len} bytes, the port takes {max}");
        assert_eq!(to.version, self.ip.version());
        self.run = None;
        if self.full_for == Some(flow.to_qp) {
            return Err(ReserveError::Full);
        }
        if count == 1 {
            return self.memory.reserve_run(to, flow, sequenced, len, 1);
        }
        let room = self.memory.max_queued.saturating_sub(self.memory.out.len());
        let TxSlot {
            src_port, ip, kept, ..
        } = self.memory.reserve_run(to, flow, sequenced, len, 1)?;
        self.run = Some(Run {
            to: *to,
            flow,
            sequenced,
            len,
        });
        self.bytes.clear();
        self.bytes.resize(count.min(room).min(MAX_RUN) * len, 0xa5);
        Ok(TxSlot {
            bytes: &mut self.bytes,
            src_port,
            ip,
            kept,
        })
    }

    fn has_room_for_others(&self) -> bool {
        self.full_for.is_some()
    }

    fn commit(&mut self) {
        if let Some(mut run) = self.run.take() {
            for packet in self.bytes.chunks_exact(run.len) {
                let slot = self
                    .memory
                    .reserve_run(&run.to, run.flow, run.sequenced, run.len, 1);
                slot.expect("room for the run")
                    .bytes
                    .copy_from_slice(packet);
                self.memory.commit();
                if let Some(sequenced) = &mut run.sequenced {
                    sequenced.position = sequenced.position.plus(1);
                }
            }
            return;
        }
        let before = self.memory.counters().tx_packets;
        self.memory.commit();
        let after = self.memory.counters().tx_packets;
        assert_eq!(after, before + 1, "there is a reservation to commit");
    }

    fn commit_last(&mut self) {
        self.commit();
        let packets = self.memory.counters().tx_packets;
        self.ends
            .push(usize::try_from(packets).expect("not that many"));
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.memory.acknowledged(flow, which);
        self.reports.push((flow, which));
    }
}
