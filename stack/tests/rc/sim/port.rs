//! A port in memory: what the NIC commits waits in a list until the wire takes it.

use roce_stack::{IpCovered, ReserveError, RoceVersion, RxMeta, Transmit, TxMeta, TxSlot};
use roce_wire::Qpn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which header packets have in front of the BTH, and how much of it the receiving port
/// sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ip {
    V4,
    /// As through a socket: the identification counts up unseen.
    V4Hidden,
    V6,
    /// RoCE v1's GRH, with IPv4 addresses.
    Grh,
}

impl Ip {
    pub(crate) const ALL: [Ip; 4] = [Ip::V4, Ip::V4Hidden, Ip::V6, Ip::Grh];

    /// Those of RoCEv2. What is drawn from seeds is drawn among these: there are seeds
    /// that once found something.
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

/// A packet on its way.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) meta: RxMeta,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct SimPort {
    ip: Ip,
    next_id: u16,
    slot: Vec<u8>,
    reserved: Option<(TxMeta, IpCovered)>,
    pub(crate) out: Vec<Frame>,
    /// After how many packets it was told that none follows, each time.
    pub(crate) ends: Vec<usize>,
    committed: usize,
    /// How many packets `out` holds before the port is full.
    pub(crate) room: usize,
    /// Every packet is unsendable, as without a route.
    pub(crate) unsendable: bool,
    max_packet_bytes: usize,
}

pub(crate) const SRC_PORT: u16 = 0xc123;

impl SimPort {
    pub(crate) fn new(ip: Ip, max_packet_bytes: usize) -> Self {
        Self {
            ip,
            next_id: 0xfff0,
            slot: Vec::new(),
            reserved: None,
            out: Vec::new(),
            ends: Vec::new(),
            committed: 0,
            room: usize::MAX,
            unsendable: false,
            max_packet_bytes,
        }
    }

    fn next_covered(&mut self) -> IpCovered {
        match self.ip {
            Ip::V6 => return IpCovered::V6,
            Ip::Grh => return IpCovered::Grh,
            Ip::V4 | Ip::V4Hidden => {}
        }
        self.next_id = self.next_id.wrapping_add(1);
        IpCovered::V4 {
            id: self.next_id,
            flags_fragment: 0x4000,
        }
    }

    pub(crate) fn ip(&self) -> Ip {
        self.ip
    }

    /// What the receiving port says of a packet that this one sent.
    pub(crate) fn seen(&self, to: &TxMeta, ip: IpCovered) -> RxMeta {
        RxMeta {
            src: to.src,
            dst: to.dst,
            src_port: SRC_PORT,
            traffic_class: to.traffic_class,
            ip: if self.ip == Ip::V4Hidden {
                IpCovered::V4Hidden
            } else {
                ip
            },
        }
    }
}

impl Transmit for SimPort {
    fn reserve(
        &mut self,
        to: &TxMeta,
        _to_qp: Qpn,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        if self.out.len() >= self.room {
            return Err(ReserveError::Full);
        }
        if self.unsendable {
            return Err(ReserveError::Unsendable);
        }
        assert!(
            len <= self.max_packet_bytes,
            "a packet of {len} bytes, the port takes {}",
            self.max_packet_bytes
        );
        assert_eq!(to.version, self.ip.version());
        let ip = self.next_covered();
        self.reserved = Some((*to, ip));
        // Arbitrary contents, as the contract says: whoever forgets to write a byte
        // sends this one.
        self.slot.clear();
        self.slot.resize(len, 0xa5);
        Ok(TxSlot {
            bytes: &mut self.slot,
            src_port: SRC_PORT,
            ip,
        })
    }

    fn commit(&mut self) {
        let (to, ip) = self.reserved.take().expect("a reservation to commit");
        let meta = self.seen(&to, ip);
        self.committed += 1;
        self.out.push(Frame {
            meta,
            bytes: self.slot.clone(),
        });
    }

    fn commit_last(&mut self) {
        self.commit();
        self.ends.push(self.committed);
    }
}
