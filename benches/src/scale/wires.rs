//! The wire between the two NICs: ports in memory, or UDP sockets.

use super::RECEIVE_BUFFER;
use super::bounded::BoundedPort;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use roce_port::{Port, PortError};
use roce_stack::{Flow, ReserveError, RoceVersion, RxMeta, Sequenced, Transmit, TxMeta, TxSlot};
use roce_udp::{UdpCounters, UdpPort, UdpPortConfig};
use std::net::{IpAddr, Ipv4Addr};

/// The ports of both NICs, 0 and 1.
pub trait Wires {
    /// The shortest Local ACK Timeout of the QPs, as the specification encodes it. One thread drives
    /// both NICs, so a turn of many QPs delays every acknowledgement.
    const TIMEOUT: u8;

    /// The path of QP `index` of a NIC to its peer.
    fn path(&self, from: usize, index: usize) -> TxMeta;

    /// The port of a NIC.
    fn port(&mut self, side: usize) -> &mut dyn Transmit;

    /// Delivers to a NIC what has arrived from the other.
    ///
    /// # Errors
    /// If a socket fails.
    fn deliver(&mut self, to: usize, sink: &mut dyn FnMut(&RxMeta, &[u8])) -> Result<(), String>;

    /// Packets that did not fit the receiver's buffer, as far as they are counted.
    fn dropped(&self) -> u64;
}

fn path(src: IpAddr, dst: IpAddr) -> TxMeta {
    TxMeta {
        src,
        dst,
        traffic_class: 0,
        hop_limit: 64,
        version: RoceVersion::V2,
    }
}

/// Ports in memory.
#[derive(Debug)]
pub struct Memory {
    ports: [BoundedPort; 2],
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            ports: [0, 1].map(|_| BoundedPort::new(RECEIVE_BUFFER)),
        }
    }
}

impl Wires for Memory {
    const TIMEOUT: u8 = 0;

    fn path(&self, from: usize, _index: usize) -> TxMeta {
        let address = |side: usize| Ipv4Addr::new(10, 0, 0, 1 + side as u8).into();
        path(address(from), address(1 - from))
    }

    fn port(&mut self, side: usize) -> &mut dyn Transmit {
        &mut self.ports[side]
    }

    fn deliver(&mut self, to: usize, sink: &mut dyn FnMut(&RxMeta, &[u8])) -> Result<(), String> {
        self.ports[1 - to].deliver(sink);
        Ok(())
    }

    fn dropped(&self) -> u64 {
        self.ports.iter().map(|port| port.dropped).sum()
    }
}

/// UDP sockets over loopback. NIC 0 has one port, and NIC 1 has one for each of many addresses, as
/// if they were as many hosts.
pub struct Sockets {
    near: UdpPort,
    far: Hosts,
}

/// The ports of NIC 1.
struct Hosts {
    ports: Vec<UdpPort>,
    /// Reports the number of each port that a packet waits for.
    arrivals: Epoll,
    /// The port of the packet that was reserved last.
    reserved: usize,
    /// The ports with packets that have not been flushed.
    unsent: Vec<usize>,
}

/// The address of a port: a loopback address that is not used otherwise.
fn loopback_address(side: u8, number: usize) -> IpAddr {
    let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
    Ipv4Addr::new(127, 180 + side, high, low).into()
}

/// The number of the port of NIC 1 with this address.
fn number_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(address) => {
            let [_, _, high, low] = address.octets();
            u16::from_be_bytes([high, low]).into()
        }
        IpAddr::V6(_) => 0,
    }
}

fn open(address: IpAddr, flow_sockets: usize) -> Result<UdpPort, String> {
    let mut port = UdpPort::new(UdpPortConfig {
        flow_sockets,
        ..UdpPortConfig::new("lo", 1, 65_536, vec![address])
    });
    port.activate(address).map_err(|e| e.to_string())?;
    Ok(port)
}

impl Sockets {
    /// `destinations` ports of NIC 1. NIC 0 has at most `flow_sockets` sockets for flows.
    ///
    /// # Errors
    /// If a socket can't be opened.
    pub fn new(destinations: usize, flow_sockets: usize) -> Result<Self, String> {
        let near = open(loopback_address(0, 0), flow_sockets)?;
        let arrivals = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| e.to_string())?;
        let mut ports = Vec::new();
        for number in 0..destinations {
            let port = open(loopback_address(1, number), 0)?;
            for fd in port.packet_fds() {
                let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
                arrivals.add(fd.fd, event).map_err(|e| e.to_string())?;
            }
            ports.push(port);
        }
        let far = Hosts {
            ports,
            arrivals,
            reserved: 0,
            unsent: Vec::new(),
        };
        Ok(Self { near, far })
    }

    /// The counters of NIC 0's port.
    pub fn counters(&self) -> UdpCounters {
        *self.near.counters()
    }
}

impl Wires for Sockets {
    /// About a second.
    const TIMEOUT: u8 = 18;

    fn path(&self, from: usize, index: usize) -> TxMeta {
        let near = loopback_address(0, 0);
        let far = loopback_address(1, index % self.far.ports.len());
        match from {
            0 => path(near, far),
            _ => path(far, near),
        }
    }

    fn port(&mut self, side: usize) -> &mut dyn Transmit {
        match side {
            0 => &mut self.near,
            _ => &mut self.far,
        }
    }

    fn deliver(&mut self, to: usize, sink: &mut dyn FnMut(&RxMeta, &[u8])) -> Result<(), String> {
        let text = |error: PortError| error.to_string();
        let mut sink = |meta: &RxMeta, bytes: &[u8]| sink(meta, bytes);
        if to == 0 {
            self.far.flush().map_err(text)?;
            return self.near.receive(256, &mut sink).map(drop).map_err(text);
        }
        self.near.flush().map_err(text)?;
        let mut events = vec![EpollEvent::empty(); self.far.ports.len()];
        let waiting = self.far.arrivals.wait(&mut events, EpollTimeout::ZERO);
        let waiting = waiting.map_err(|e| e.to_string())?;
        for event in &events[..waiting] {
            let number = usize::try_from(event.data()).unwrap_or(usize::MAX);
            if let Some(port) = self.far.ports.get_mut(number) {
                port.receive(256, &mut sink).map_err(text)?;
            }
        }
        Ok(())
    }

    /// The kernel counts them, not the port.
    fn dropped(&self) -> u64 {
        0
    }
}

impl Hosts {
    fn flush(&mut self) -> Result<(), PortError> {
        while let Some(number) = self.unsent.pop() {
            self.ports[number].flush()?;
        }
        Ok(())
    }
}

impl Transmit for Hosts {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.reserved = number_of(to.src);
        let port = self.ports.get_mut(self.reserved);
        port.ok_or(ReserveError::Unsendable)?
            .reserve_run(to, flow, sequenced, len, 1)
    }

    fn commit(&mut self) {
        if let Some(port) = self.ports.get_mut(self.reserved) {
            port.commit();
            if self.unsent.last() != Some(&self.reserved) {
                self.unsent.push(self.reserved);
            }
        }
    }
}
