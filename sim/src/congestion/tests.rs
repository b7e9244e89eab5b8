use super::*;
use roce_stack::Duration;

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
