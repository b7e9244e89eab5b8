use super::*;
use crate::network::Network;
use roce_stack::{DcqcnParameters, Duration};

/// Short enough for every test run.
fn short(senders: usize, ms: u64, loss: Loss) -> Scenario {
    Scenario {
        duration: Duration::from_millis(ms),
        loss,
        ..incast("test", "a test", senders)
    }
}

fn outcome(scenario: &Scenario, seed: u64) -> Outcome {
    run(scenario, seed, &mut |_| ()).expect("no request fails")
}

#[test]
fn two_senders_share_a_link_and_fill_it() {
    let outcome = outcome(&short(2, 40, Loss::Pfc), 1);
    assert!(outcome.jain() >= Some(0.95), "{outcome:?}");
    assert!(outcome.utilisation() >= Some(0.95), "{outcome:?}");
    assert!(outcome.queue_max_late < 200_000, "{outcome:?}");
    assert_eq!(outcome.dropped, 0);
    // Each sender sends some 90,000 packets. When the queue first grows, senders probe for
    // acknowledgements that are later than the measured round-trip time.
    assert!(outcome.retransmitted < 100, "{outcome:?}");
    assert_eq!(outcome.pauses[1], 0);
}

#[test]
fn the_seed_determines_the_outcome() {
    let scenario = short(3, 2, Loss::Drop);
    let first = outcome(&scenario, 1);
    assert_eq!(first.fingerprint, outcome(&scenario, 1).fingerprint);
    assert_ne!(first.fingerprint, outcome(&scenario, 2).fingerprint);
}

#[test]
fn fairness_and_percentiles_match_hand_computed_values() {
    assert_eq!(jain(&[1.0, 1.0, 1.0]), Some(1.0));
    assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
    assert_eq!(jain(&[3.0, 1.0]), Some(0.8));
    assert_eq!(jain(&[]), None);
    assert_eq!(jain(&[0.0]), None);
    let mut values = [5, 1, 4, 2, 3];
    assert_eq!(percentile(&mut values, 50.0), Some(3));
    assert_eq!(percentile(&mut values, 99.0), Some(5));
    assert_eq!(percentile(&mut values, 0.0), Some(1));
    assert_eq!(percentile::<u32>(&mut [], 50.0), None);
}

/// The senders offer more than the links carry, and none slows down. Flow control alone must
/// neither drop a packet nor stop a sender for ever.
#[test]
fn flow_control_alone_drops_nothing_and_all_flows_finish() {
    let hosts = 9;
    let flows = (0..hosts - 1)
        .map(|from| FlowPlan {
            bytes: Some(2 << 20),
            ..FlowPlan::endless(from, hosts - 1)
        })
        .collect();
    let scenario = Scenario {
        flows,
        ..short(hosts - 1, 4, Loss::Pfc).with(Algorithm::None, Loss::Pfc)
    };
    let outcome = outcome(&scenario, 1);
    let times = outcome.times.as_ref().expect("a mix");
    assert_eq!((times.flows, times.unfinished), (8, 0));
    assert_eq!(outcome.dropped, 0);
    assert!(outcome.pauses[0] > 0, "{outcome:?}");
    assert!(outcome.queue_max < 12_000_000);
}

/// Each size is drawn as often as the table says.
#[test]
fn web_search_flows_have_the_sizes_of_the_table() {
    let second = Duration::from_secs(1);
    let flows = web_search(4, 40_000_000_000, 0.5, second, 1);
    let all = flows.len() as f64;
    for (size, share) in WEB_SEARCH {
        let not_larger = flows
            .iter()
            .filter(|f| f.bytes <= Some(size as u64))
            .count() as f64;
        assert!(
            (not_larger / all - share).abs() < 0.02,
            "{size}: {}",
            not_larger / all
        );
    }
    let bytes: u64 = flows.iter().filter_map(|flow| flow.bytes).sum();
    // Half of four links.
    assert!((bytes as f64 / 10e9 - 1.0).abs() < 0.1, "{bytes}");
    assert!(
        flows
            .iter()
            .all(|flow| flow.from != flow.to && flow.start < second)
    );
    let sent = |host| flows.iter().filter(|flow| flow.from == host).count() as f64;
    assert!((0..4).all(|host| (sent(host) / all - 0.25).abs() < 0.03));
}

#[test]
fn all_to_all_has_one_flow_for_each_pair_of_hosts() {
    let flows = all_to_all(5, 100, Duration::from_micros(1), 1);
    let mut pairs: Vec<(usize, usize)> = flows.iter().map(|f| (f.from, f.to)).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), 20);
    assert!(pairs.iter().all(|(from, to)| from != to));
}

#[test]
fn a_flow_across_two_bottlenecks_is_not_starved() {
    let all = catalogue(1);
    let lot = all
        .iter()
        .find(|s| s.name == "parking-lot")
        .expect("in the catalogue");
    let scenario = Scenario {
        duration: Duration::from_millis(20),
        ..lot.clone()
    };
    let outcome = outcome(&scenario, 1);
    let goodput = &outcome.phases[0].goodput;
    assert!(goodput.iter().all(|(_, rate)| *rate > 8.0), "{outcome:?}");
    assert_eq!(outcome.dropped, 0);
}

/// A flow that starts late finds the queue of the others, and still gets no more than its share.
#[test]
fn with_delay_based_control_late_flows_get_no_more_than_others() {
    let all = catalogue(1);
    let named = all.iter().find(|s| s.name == "come-and-go");
    let mut scenario = named
        .expect("in the catalogue")
        .with(Algorithm::Delay, Loss::Pfc);
    // A fifth of the duration. Flows start at times that are no multiple of any interval.
    scenario.duration /= 5;
    for (number, flow) in scenario.flows.iter_mut().enumerate() {
        flow.start = flow.start / 5 + Duration::from_micros(137) * number as u32;
        flow.stop = flow.stop.map(|stop| stop / 5);
    }
    let outcome = outcome(&scenario, 1);
    assert_eq!(outcome.phases.len(), 7);
    assert!(outcome.jain() >= Some(0.9), "{outcome:?}");
    assert!(outcome.utilisation() >= Some(0.95), "{outcome:?}");
    assert!(outcome.queue_max_late < 200_000, "{outcome:?}");
}

/// Eight hosts send to one over links of 200 Mbit/s, as a description says.
const SLOW_INCAST: &str = r#"
topology = "star"
hosts = 9
[defaults]
rate = "200M"
delay = "10us"
queue = "256K"
urgent_dscp = 48
ecn = { kmin = "20K", kmax = "80K", pmax = "10%" }
"#;

fn described(text: &str, senders: usize, ms: u64) -> Scenario {
    let network = Network::parse(text).expect("well-formed");
    Scenario {
        topology: Topology::Given(network),
        ..short(senders, ms, Loss::Drop)
    }
}

#[test]
fn a_given_network_runs_as_the_same_topology_does() {
    let scenario = short(3, 2, Loss::Drop);
    let given = Scenario {
        topology: Topology::Given(scenario.network()),
        ..scenario.clone()
    };
    let [first, second] = [scenario, given].map(|scenario| outcome(&scenario, 1));
    assert_eq!(first.fingerprint, second.fingerprint);
    assert_eq!(first.queue_p99, second.queue_p99);
    assert_eq!(first.phases[0].utilisation, second.phases[0].utilisation);
}

/// What a comparison with a network in real time needs: the rate of each flow, and marks, CNPs and
/// queue lengths in total.
#[test]
fn flows_on_a_slow_network_share_its_link() {
    // The paper's steps and periods are for 40 Gbit/s.
    let dcqcn = DcqcnParameters {
        dce_tcp_rtt: Duration::from_millis(5),
        rpg_time_reset: Duration::from_millis(5),
        rpg_ai_rate: 1,
        rpg_hai_rate: 5,
        rpg_min_rate: 1,
        rpg_max_rate: 200,
        ..DcqcnParameters::PAPER
    };
    let scenario = Scenario {
        dcqcn,
        ..described(SLOW_INCAST, 8, 2000)
    };
    let outcome = outcome(&scenario, 1);
    let [phase] = &outcome.phases[..] else {
        panic!("{:?}", outcome.phases);
    };
    let flows: Vec<usize> = phase.goodput.iter().map(|(flow, _)| *flow).collect();
    assert_eq!(flows, [0, 1, 2, 3, 4, 5, 6, 7]);
    let total: f64 = phase.goodput.iter().map(|(_, rate)| rate).sum();
    assert!((0.14..0.2).contains(&total), "{phase:?}");
    assert!(phase.jain > 0.9, "{phase:?}");
    assert!(outcome.marked >= outcome.cnps && outcome.cnps > 0);
    assert!(outcome.queue_mean > 1000.0, "{}", outcome.queue_mean);
    assert!(outcome.queue_mean < 40_000.0, "{}", outcome.queue_mean);
    assert!(outcome.queue_p99 < 100_000, "{}", outcome.queue_p99);
    assert!(outcome.queue_max <= 256 << 10);
}

#[test]
fn events_of_a_given_network_happen() {
    let slower = "[[event]]\nat = '20ms'\ndo = 'h2-s1 rate=100M'\n";
    let text = SLOW_INCAST.replace("hosts = 9", "hosts = 2");
    let rate = |text: &str| outcome(&described(text, 1, 40), 1).phases[0].goodput[0].1;
    // Seven or eight messages of 64 KiB complete in the measured 20 ms.
    assert!((0.17..0.22).contains(&rate(&text)));
    assert!((0.08..0.12).contains(&rate(&format!("{text}{slower}"))));
    // Nothing completes after the receiver is killed.
    let killed = "[[event]]\nat = '20ms'\ndo = 'h2 kill'\n";
    let outcome = outcome(&described(&format!("{text}{killed}"), 1, 40), 1);
    assert_eq!(outcome.phases[0].goodput, [(0, 0.0)]);
}

#[test]
fn flows_between_leaves_are_measured_on_the_links_between_switches() {
    let text = "topology = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                defaults = { rate = '200M' }";
    let scenario = Scenario {
        flows: vec![FlowPlan::endless(0, 2), FlowPlan::endless(1, 3)],
        ..described(text, 1, 40)
    };
    let outcome = outcome(&scenario, 1);
    // Both receivers, and two directions of four links.
    assert_eq!(outcome.phases[0].utilisation.len(), 2 + 8);
    let (to_hosts, between) = outcome.phases[0].utilisation.split_at(2);
    let [to_hosts, between]: [f64; 2] = [to_hosts, between].map(|links| links.iter().sum());
    // All data takes two of the links between switches, and acknowledgements return.
    assert!(between > 2.0 * to_hosts, "{outcome:?}");
    assert!(between < 2.2 * to_hosts, "{outcome:?}");
}
