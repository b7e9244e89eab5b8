use super::spec;
use crate::{FaultLayer, FaultSpec, Link, LinkGate};
use roce_port::memory::{Frame, MemoryIp};
use roce_port::{Effects, Layered, Loss, MemoryPort, Port, RxSink};
use roce_stack::{Duration, Flow, Instant, IpCovered, RoceVersion, RxMeta, Transmit as _, TxMeta};
use roce_wire::Qpn;
use std::net::{IpAddr, Ipv4Addr};

fn meta() -> RxMeta {
    RxMeta {
        src: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
        dst: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
        src_port: 0xc000,
        traffic_class: 0,
        ip: IpCovered::V4Hidden,
    }
}

/// Sends `count` packets, 1 us apart; returns the arrivals: number, time, flipped bits.
fn run(spec: FaultSpec, seed: u64, count: u32) -> (Vec<(u32, u64, u32)>, FaultLayer) {
    let mut layer = FaultLayer::new(spec, seed);
    let mut arrived = Vec::new();
    for number in 0..count {
        let now = Instant::from_nanos(u64::from(number) * 1000);
        // The packet contains its number twice, so that a flipped bit leaves one of them intact.
        let bytes = [number.to_le_bytes(), number.to_le_bytes()].concat();
        layer.take(now, &meta(), &bytes, &mut |_: &RxMeta, got: &[u8]| {
            arrived.push(read(got, now))
        });
    }
    while let Some(at) = layer.next_release() {
        layer.release(at, &mut |_: &RxMeta, got: &[u8]| {
            arrived.push(read(got, at));
        });
    }
    (arrived, layer)
}

fn read(bytes: &[u8], at: Instant) -> (u32, u64, u32) {
    let half = |from: usize| u32::from_le_bytes(bytes[from..from + 4].try_into().expect("4 bytes"));
    let flips = (half(0) ^ half(4)).count_ones();
    (half(0), at.as_nanos(), flips)
}

#[test]
fn without_faults_everything_passes_at_once_and_as_it_was() {
    let (arrived, layer) = run(FaultSpec::default(), 1, 100);
    let expected: Vec<_> = (0..100).map(|n| (n, u64::from(n) * 1000, 0)).collect();
    assert_eq!(arrived, expected);
    assert_eq!(layer.counters().received, 100);
    assert!(FaultSpec::default().is_faultless() && spec("seed=3").is_faultless());
    assert!(!spec("dup=1%").is_faultless());
}

#[test]
fn a_seed_gives_the_same_faults_again_and_another_seed_others() {
    let faults = spec("loss=10%,dup=10%,reorder=10%,corrupt=10%,burst=1%:5,delay=1us..9us");
    assert_eq!(run(faults, 7, 1000).0, run(faults, 7, 1000).0);
    assert_ne!(run(faults, 7, 1000).0, run(faults, 8, 1000).0);
}

#[test]
fn losses_are_as_many_as_asked_for() {
    let (arrived, layer) = run(spec("loss=20%"), 3, 10_000);
    let lost = layer.counters().lost;
    assert_eq!(arrived.len() as u64 + lost, 10_000);
    // Five standard deviations are 200.
    assert!(lost.abs_diff(2000) < 200, "{lost}");
}

#[test]
fn bursts_are_as_long_and_as_many_as_asked_for() {
    let (arrived, _) = run(spec("burst=1%:8"), 5, 100_000);
    let mut bursts = Vec::new();
    let mut next = 0;
    for (number, ..) in arrived {
        if number > next {
            bursts.push(number - next);
        }
        next = number + 1;
    }
    let mean = f64::from(bursts.iter().sum::<u32>()) / bursts.len() as f64;
    assert!((7.0..9.0).contains(&mean), "mean {mean}");
    assert!((800..1100).contains(&bursts.len()), "{}", bursts.len());
}

#[test]
fn a_double_comes_beside_the_packet() {
    let (arrived, layer) = run(spec("dup=100%"), 1, 3);
    let numbers: Vec<u32> = arrived.iter().map(|arrival| arrival.0).collect();
    assert_eq!(numbers, [0, 0, 1, 1, 2, 2]);
    assert_eq!(layer.counters().duplicated, 3);
}

#[test]
fn a_reordered_packet_is_overtaken_but_comes_in_time() {
    let (arrived, layer) = run(spec("reorder=10%:20us"), 2, 1000);
    assert_eq!(arrived.len(), 1000);
    assert!(layer.counters().reordered > 50);
    assert!(arrived.windows(2).any(|pair| pair[0].0 > pair[1].0));
    for (number, at, _) in arrived {
        assert!(at <= u64::from(number) * 1000 + 20_000);
    }
}

#[test]
fn delay_keeps_order_however_it_varies() {
    let (arrived, _) = run(spec("delay=5us..500us"), 2, 1000);
    assert!(arrived.windows(2).all(|pair| pair[0].0 < pair[1].0));
    for (number, at, _) in arrived {
        assert!(at >= u64::from(number) * 1000 + 5000);
    }
}

#[test]
fn corruption_flips_one_bit() {
    let (arrived, layer) = run(spec("corrupt=50%"), 9, 1000);
    let flipped = arrived.iter().filter(|arrival| arrival.2 == 1).count();
    assert!(arrived.iter().all(|arrival| arrival.2 <= 1));
    assert_eq!(flipped as u64, layer.counters().corrupted);
    assert!((400..600).contains(&flipped), "{flipped}");
}

#[test]
fn what_is_held_back_is_bounded() {
    let (arrived, layer) = run(spec("delay=1s"), 1, 5000);
    assert_eq!(arrived.len(), 4096);
    assert_eq!(layer.counters().overflowed, 5000 - 4096);
    assert_eq!(layer.held(), 0);
}

/// Records all calls.
#[derive(Default)]
struct Observer {
    arrived: Vec<Effects>,
    lost: Vec<Loss>,
}

impl RxSink for Observer {
    fn packet(&mut self, _: &RxMeta, _: &[u8]) {
        unreachable!("the layer names the effects of each packet");
    }

    fn faulty(&mut self, _: &RxMeta, _: &[u8], effects: &Effects) {
        self.arrived.push(*effects);
    }

    fn lost(&mut self, _: &RxMeta, _: &[u8], why: Loss) {
        self.lost.push(why);
    }
}

#[test]
fn the_sink_is_told_what_faults_did_to_each_packet() {
    let mut observer = Observer::default();
    let mut layer = FaultLayer::new(
        spec("loss=20%,dup=20%,corrupt=20%,reorder=20%:5ms,delay=1us"),
        4,
    );
    let at = |us: u64| Instant::from_nanos(us * 1000);
    // A few more packets than the layer can hold.
    for us in 0..6000 {
        layer.take(at(us), &meta(), &[0; 40], &mut observer);
    }
    layer.release(at(20_000), &mut observer);
    let counters = layer.counters();
    let count =
        |rule: fn(&Effects) -> bool| observer.arrived.iter().filter(|e| rule(e)).count() as u64;
    assert_eq!(observer.lost.len() as u64, counters.lost);
    assert_eq!(count(|e| e.is_duplicate), counters.duplicated);
    assert_eq!(count(|e| e.flipped_bit.is_some()), counters.corrupted);
    // All were delayed.
    assert_eq!(count(|e| e.held < Duration::from_micros(1)), 0);
    assert_eq!(count(|_| true), 6000 - counters.lost + counters.duplicated);
    assert!(counters.lost > 0 && counters.duplicated > 0 && counters.corrupted > 0);
    assert_eq!(counters.overflowed, 0);
}

#[test]
fn overflow_is_told_as_loss_and_an_untouched_packet_has_no_effects() {
    let mut observer = Observer::default();
    let mut layer = FaultLayer::new(spec("delay=1s"), 1);
    for _ in 0..4100 {
        layer.take(Instant::ZERO, &meta(), &[0; 40], &mut observer);
    }
    assert_eq!(observer.lost, [Loss::Overflow; 4]);
    let mut observer = Observer::default();
    let mut doubles = FaultLayer::new(spec("dup=100%"), 1);
    doubles.take(Instant::ZERO, &meta(), &[0; 40], &mut observer);
    let copy = Effects {
        is_duplicate: true,
        ..Effects::default()
    };
    assert_eq!(observer.arrived, [Effects::default(), copy]);
    assert_eq!(observer.lost, []);
}

const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// A port in memory, and frames that it has sent to itself.
fn sent(bytes: std::ops::Range<u8>) -> (MemoryPort, Vec<Frame>) {
    let mut port = MemoryPort::new(MemoryIp::V4, 100);
    port.activate(FAR).expect("activated");
    for byte in bytes {
        send(&mut port, byte);
    }
    let frames = port.out.drain(..).collect();
    (port, frames)
}

fn send(port: &mut impl Port, byte: u8) {
    let slot = port.reserve_run(&to_far(), FLOW, None, 4, 1).expect("room");
    slot.bytes.fill(byte);
    port.commit();
}

fn to_far() -> TxMeta {
    TxMeta {
        src: NEAR,
        dst: FAR,
        traffic_class: 2,
        hop_limit: 0,
        version: RoceVersion::V2,
    }
}

const FLOW: Flow = Flow::new(Qpn::QP0, Qpn::QP0);

#[test]
fn faults_go_around_a_port_that_knows_nothing_of_them() {
    let (mut port, frames) = sent(0..10);
    port.arrived.extend(frames);
    let layer = FaultLayer::new(spec("dup=100%,delay=1us"), 1);
    let mut port = Layered { layer, port };
    let mut bytes = Vec::new();
    let mut collect = |_: &RxMeta, packet: &[u8]| bytes.push(packet[0]);
    assert_eq!(port.receive(3, &mut collect).expect("received"), 3);
    while let Some(deadline) = port.next_deadline() {
        assert!(deadline <= Duration::from_micros(1));
        assert_eq!(port.receive(0, &mut collect).expect("received"), 0);
    }
    assert_eq!(bytes, [0, 0, 1, 1, 2, 2]);
    assert_eq!(port.port.arrived.len(), 7);
    let counters = port.each_counter();
    assert!(counters.contains(&("fault_duplicated", 3)), "{counters:?}");
}

#[test]
fn a_link_that_is_down_drops_packets_in_both_directions() {
    let (port, frames) = sent(7..8);
    let link = Link::default();
    let layer = LinkGate::new(link.clone());
    let mut port = Layered { layer, port };
    for (is_down, arrives) in [(false, 1), (true, 0), (false, 1)] {
        link.set_down(is_down);
        send(&mut port, 7);
        assert_eq!(port.port.out.len(), arrives);
        port.port.arrived.extend(frames.clone());
        let mut got = 0;
        let taken = port.receive(1, &mut |_: &RxMeta, _: &[u8]| got += 1);
        assert_eq!((taken.expect("received"), got), (1, arrives));
        port.port.out.clear();
    }
    assert!(port.each_counter().contains(&("fault_unplugged", 2)));
    // A packet that is reserved is the port's.
    port.reserve_run(&to_far(), FLOW, None, 4, 1).expect("room");
    link.set_down(true);
    port.commit();
    assert_eq!(port.port.out.len(), 1);
}
