//! The ways that packets take to devices that close lanes, do not take packets, or do not exist.

use super::HERE;
use crate::doorbell::Doorbells;
use crate::ring::{MAX_PACKET_BYTES, Receiver};
use crate::{LaneConfig, Lanes};
use roce_port::memory::{MemoryIp, MemoryPort};
use roce_port::{
    Accepted, Layer as _, Layered, Neighbours, NotAccepted, Offered, Offers, Port,
    PortCapabilities, PortError, PortFd, Refusal, RxSink,
};
use roce_stack::{
    Flow, Instant, QpnRange, ReserveError, RoceVersion, Sequenced, Transmit, TxMeta, TxSlot,
};
use roce_wire::Qpn;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// A port whose neighbour takes its time to accept what it is offered.
struct Host {
    port: MemoryPort,
    thinks_for: Duration,
    /// What the neighbour has accepted, last of all.
    accepted: Option<(Receiver, UnixStream)>,
    offers: usize,
    doorbells: Doorbells,
    /// Whether the neighbour does not answer yet.
    hesitates: bool,
    /// What it answers then.
    descriptor: Option<OwnedFd>,
}

type Device = Layered<Lanes, Host>;

fn device(thinks_for: Duration) -> Device {
    let layer = Lanes::new(LaneConfig::default()).expect("lanes");
    let mut port = MemoryPort::new(MemoryIp::V4, 4096);
    port.max_queued = usize::MAX;
    let port = Host {
        port,
        thinks_for,
        accepted: None,
        offers: 0,
        doorbells: Doorbells::new().expect("doorbells"),
        hesitates: false,
        descriptor: None,
    };
    Layered { layer, port }
}

const NEIGHBOUR: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 9));

/// Sends a packet. Returns whether there was room.
fn send(device: &mut Device, dst: IpAddr, len: usize) -> bool {
    let to = TxMeta {
        src: HERE,
        dst,
        traffic_class: 0,
        hop_limit: 64,
        version: RoceVersion::V2,
    };
    let flow = Flow::new(Qpn::from_bits(7), Qpn::from_bits(9));
    match device.reserve_run(&to, flow, None, len, 1) {
        Ok(_) => {
            device.commit();
            true
        }
        Err(error) => {
            assert_eq!(error, ReserveError::Full);
            false
        }
    }
}

fn counter(device: &Device, name: &str) -> u64 {
    let counters = device.layer.each_counter();
    let found = counters.iter().find(|(other, _)| *other == name);
    found.expect("a counter").1
}

/// Otherwise, it would block the device for a tenth of a second for each packet.
#[test]
fn a_device_that_answers_slowly_and_closes_each_lane_gets_few_offers() {
    let mut device = device(Duration::from_millis(20));
    for _ in 0..100 {
        assert!(send(&mut device, NEIGHBOUR, 100));
        // The receiver closes the ring.
        device.port.accepted = None;
    }
    assert!(device.port.offers < 10, "{} offers", device.port.offers);
    assert_eq!(counter(&device, "lanes_opened"), device.port.offers as u64);
    assert!(device.port.port.out.len() > 80, "the others go by the port");
}

/// On a busy machine, a process may not get a processor for a while.
#[test]
fn packets_wait_for_the_answer_of_their_device_alone() {
    let mut device = device(Duration::ZERO);
    device.port.hesitates = true;
    device.note_time(Some(Instant::ZERO));
    for _ in 0..3 {
        assert!(!send(&mut device, NEIGHBOUR, 100));
        assert!(device.has_room_for_others());
        assert!(send(
            &mut device,
            Ipv4Addr::new(198, 51, 100, 1).into(),
            100
        ));
    }
    // A QP that is about to lose its state, and a program that ends, wait for nothing.
    device.note_time(None);
    assert!(send(&mut device, NEIGHBOUR, 100));
    assert_eq!(device.port.port.out.len(), 4);
    device.note_time(Some(Instant::ZERO));
    device.port.hesitates = false;
    assert!(send(&mut device, NEIGHBOUR, 100));
    assert_eq!(
        (device.port.offers, counter(&device, "tx_lane_packets")),
        (1, 1)
    );
}

#[test]
fn a_full_lane_keeps_packets_to_others_from_nothing() {
    let mut device = device(Duration::ZERO);
    while send(&mut device, NEIGHBOUR, 4096) {}
    assert!(device.has_room_for_others());
    let elsewhere = Ipv4Addr::new(198, 51, 100, 1).into();
    device.port.port.max_queued = 1;
    assert!(send(&mut device, elsewhere, 100));
    assert!(!send(&mut device, elsewhere, 100));
    assert!(!device.has_room_for_others(), "the port is full");
    device.flush().expect("flushed");
    let (receiver, _) = device.port.accepted.as_mut().expect("a lane");
    let taken = receiver.take(1, &mut [0; MAX_PACKET_BYTES], |_, _, _| {});
    assert_eq!(taken, Ok(1));
    assert!(send(&mut device, NEIGHBOUR, 4096));
}

/// Anybody can make a device answer to any address.
#[test]
fn destinations_beyond_number_take_no_memory_each() {
    let mut device = device(Duration::ZERO);
    assert!(send(&mut device, NEIGHBOUR, 100));
    for number in 0..5000_u32 {
        let elsewhere = Ipv4Addr::from_bits(0xc633_0000 + number);
        assert!(send(&mut device, elsewhere.into(), 100));
        assert!(device.layer.known_ways() <= 1024);
    }
    // A lane is not forgotten.
    let offers = device.port.offers;
    assert!(send(&mut device, NEIGHBOUR, 100));
    assert_eq!(
        (device.port.offers, counter(&device, "lanes_opened")),
        (offers, 1)
    );
}

impl Neighbours for Host {
    fn is_here(&self, address: IpAddr) -> bool {
        address == NEIGHBOUR
    }

    fn offer(
        &mut self,
        to: IpAddr,
        _part: QpnRange,
        file: BorrowedFd<'_>,
    ) -> Result<Offered, Refusal> {
        if to != NEIGHBOUR {
            return Err(NotAccepted::Nobody.into());
        }
        self.offers += 1;
        std::thread::sleep(self.thinks_for);
        let (theirs, connection) = UnixStream::pair().expect("a pair");
        let (_, descriptor) = self.doorbells.add().expect("a doorbell");
        let ring = Receiver::open(file, false).expect("a ring");
        self.accepted = Some((ring, theirs));
        if self.hesitates {
            self.descriptor = Some(descriptor);
            return Ok(Offered::Waiting(connection.into()));
        }
        Ok(Offered::Accepted(Accepted {
            connection: connection.into(),
            descriptor,
        }))
    }

    fn answer(&mut self, connection: OwnedFd) -> Result<Offered, Refusal> {
        let hesitates = self.hesitates;
        Ok(match self.descriptor.take_if(|_| !hesitates) {
            None => Offered::Waiting(connection),
            Some(descriptor) => Offered::Accepted(Accepted {
                connection,
                descriptor,
            }),
        })
    }

    fn take_offers(&mut self, _offers: Arc<dyn Offers>) {}
}

impl Transmit for Host {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        self.port.reserve_run(to, flow, sequenced, len, count)
    }

    fn commit(&mut self) {
        self.port.commit();
    }
}

impl Port for Host {
    fn capabilities(&self) -> PortCapabilities {
        self.port.capabilities()
    }

    fn reserved(&mut self) -> &[u8] {
        self.port.reserved()
    }

    fn activate(&mut self, address: IpAddr) -> Result<(), PortError> {
        self.port.activate(address)
    }

    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        self.port.join(group)
    }

    fn leave(&mut self, group: IpAddr) {
        self.port.leave(group);
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError> {
        self.port.receive(budget, sink)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        self.port.flush()
    }

    fn queued(&self) -> usize {
        self.port.queued()
    }

    fn packet_fds(&self) -> Vec<PortFd<'_>> {
        self.port.packet_fds()
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        self.port.each_counter()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        Some(self)
    }
}
