//! Any frames of the hosts, for the fuzz target `fabric_frames`.

use crate::frame;
use roce_sim::fabric::{
    EcnSpec, Fabric, HostId, HostSpec, LinkSpec, SeenPackets, Step, SwitchSpec,
};
use roce_sim::network::Network;
use roce_sim::record::{Limits, Recorder};
use roce_stack::{Duration, Instant};

/// The hosts of the network: two at each of two leaves.
const HOSTS: u8 = 4;

/// Lets hosts send frames: each begins with a byte that says which host, and one for its length.
///
/// # Panics
/// If a frame is neither delivered nor dropped, or is delivered with another length.
pub fn carry(mut data: &[u8]) {
    let mut fabric = fabric();
    let limits = Limits {
        flows: 8,
        points: 4,
    };
    let mut recorder = Recorder::new(&mut fabric, limits);
    let mut seen = SeenPackets::default();
    let mut now = Instant::ZERO;
    while let [how, len, rest @ ..] = data {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*len) * 8));
        data = rest;
        let host = usize::from(how % HOSTS);
        if let Some(sent) = frame::parse(host as u16 + 1, bytes) {
            fabric.send(HostId(host), &sent);
        }
        now = now + Duration::from_micros(u64::from(how / HOSTS));
        run(&mut fabric, now);
        fabric.take_seen(&mut seen);
        recorder.add(&seen);
        recorder.step(&mut fabric);
    }
    run(&mut fabric, now + Duration::from_secs(10));
    assert_eq!(fabric.in_flight(), (0, 0), "frames are left");
    fabric.take_seen(&mut seen);
    recorder.add(&seen);
    recorder.step(&mut fabric);
}

fn fabric() -> Fabric {
    let link = LinkSpec {
        bits_per_sec: 100_000_000,
        max_packet_bytes: 1500,
        queue_bytes: 4000,
        ..LinkSpec::default()
    };
    let switch = SwitchSpec {
        ecn: Some(EcnSpec {
            kmin_bytes: 0,
            kmax_bytes: 3000,
            pmax_percent: 50,
        }),
        ..SwitchSpec::default()
    };
    let host = HostSpec {
        outside: true,
        ..HostSpec::default()
    };
    let mut fabric = Network::leaf_spine((2, 2), 2, link, switch).build(1, host);
    for host in 0..usize::from(HOSTS) {
        fabric.join(HostId(host), frame::EVERYONE);
    }
    fabric
}

fn run(fabric: &mut Fabric, until: Instant) {
    while let Some(step) = fabric.step(until) {
        if let Step::Host(host) = step {
            while fabric.take(host, |bytes| assert!(bytes.len() >= 6)) {}
        }
    }
    fabric.advance(until);
}
