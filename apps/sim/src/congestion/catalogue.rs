//! The experiments of `docs/generated/congestion.md`.

use super::mix::{all_to_all, web_search};
use super::scenario::{Algorithm, FlowPlan, Scenario};
use super::topology::{Loss, Topology};
use crate::fabric::EcnSpec;
use roce_stack::{DcqcnParameters, DelayParameters, Duration, NotificationPoint};

/// The link rate of the testbed in the DCQCN paper.
const BITS_PER_SEC: u64 = 40_000_000_000;

/// The marking of the paper's switches.
const PAPER_ECN: EcnSpec = EcnSpec {
    kmin_bytes: 5_000,
    kmax_bytes: 200_000,
    pmax_percent: 1,
};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The paper's parameters, without flows.
fn paper(name: &'static str, about: &'static str, topology: Topology) -> Scenario {
    Scenario {
        name,
        about,
        topology,
        bits_per_sec: BITS_PER_SEC,
        delay: Duration::from_micros(1),
        ecn: PAPER_ECN,
        loss: Loss::Pfc,
        algorithm: Algorithm::Dcqcn,
        dcqcn: DcqcnParameters::PAPER,
        notification: NotificationPoint::default(),
        round_trips: DelayParameters::DEFAULT,
        flows: Vec::new(),
        duration: ms(200),
        every: ms(1),
    }
}

/// `senders` hosts send to one other host, all the time.
pub fn incast(name: &'static str, about: &'static str, senders: usize) -> Scenario {
    Scenario {
        flows: (0..senders)
            .map(|from| FlowPlan::endless(from, senders))
            .collect(),
        ..paper(name, about, Topology::Star(senders + 1))
    }
}

/// Four flows start one after the other, and stop in the same order.
fn come_and_go() -> Scenario {
    let flow = |number: u64| FlowPlan {
        start: ms(50 * number),
        stop: (number < 3).then(|| ms(200 + 50 * number)),
        ..FlowPlan::endless(number as usize, 4)
    };
    Scenario {
        flows: (0..4).map(flow).collect(),
        duration: ms(350),
        ..paper(
            "come-and-go",
            "four flows to one host come 50 ms apart, and go 50 ms apart",
            Topology::Star(5),
        )
    }
}

/// The paper's figure 19: one flow has two bottlenecks.
fn parking_lot() -> Scenario {
    let flows = [(0, 3), (1, 4), (2, 4)];
    Scenario {
        flows: flows.map(|(from, to)| FlowPlan::endless(from, to)).into(),
        ..paper(
            "parking-lot",
            "flow 2 shares one link with flow 1, and another with flow 3",
            Topology::ParkingLot,
        )
    }
}

/// The sample configuration of the public ns-3 model (bobzhuyb/ns3-rdma, `mix/config.txt`), and the
/// values in its sources for what it omits: alpha starts at a half, and no rate is below 100
/// Mbit/s.
pub fn ns3_parameters() -> DcqcnParameters {
    DcqcnParameters {
        initial_alpha_value: 512,
        clamp_tgt_rate: true,
        clamp_tgt_rate_after_time_inc: false,
        rpg_time_reset: Duration::from_micros(60),
        rpg_byte_reset: 300_000,
        rpg_ai_rate: 40,
        rpg_hai_rate: 200,
        rpg_min_rate: 100,
        ..DcqcnParameters::PAPER
    }
}

fn ns3_two_flows() -> Scenario {
    Scenario {
        delay: Duration::from_nanos(100),
        // That model counts in units of 1030 bytes.
        ecn: EcnSpec {
            kmin_bytes: 40 * 1030,
            kmax_bytes: 1000 * 1030,
            pmax_percent: 100,
        },
        dcqcn: ns3_parameters(),
        duration: ms(100),
        every: Duration::from_micros(500),
        ..incast(
            "ns3-two-flows",
            "the sample of the public ns-3 model: two flows to one host",
            2,
        )
    }
}

fn web_search_mix(seed: u64) -> Scenario {
    Scenario {
        flows: web_search(16, BITS_PER_SEC, 0.5, ms(50), seed),
        duration: ms(50),
        every: Duration::from_micros(500),
        ..paper(
            "web-search",
            "flows between 16 hosts with the sizes of web searches, links half loaded on average",
            Topology::Star(16),
        )
    }
}

fn all_to_all_mix(seed: u64) -> Scenario {
    Scenario {
        flows: all_to_all(16, 1 << 20, Duration::from_micros(100), seed),
        duration: ms(8),
        every: Duration::from_micros(100),
        ..paper(
            "all-to-all",
            "each of 16 hosts sends 1 MiB to each other, all within 0.1 ms",
            Topology::Star(16),
        )
    }
}

/// All experiments, with DCQCN and flow control. Random parameters are drawn from the seed.
pub fn catalogue(seed: u64) -> Vec<Scenario> {
    vec![
        incast("incast-2", "2 hosts send to one", 2),
        incast("incast-4", "4 hosts send to one", 4),
        incast("incast-8", "8 hosts send to one", 8),
        incast("incast-16", "16 hosts send to one", 16),
        come_and_go(),
        parking_lot(),
        ns3_two_flows(),
        web_search_mix(seed),
        all_to_all_mix(seed),
    ]
}
