//! Networks that are slowed down.

use super::*;
use crate::network::options::DEFAULT_LINK;

fn faults(text: &str) -> FaultSpec {
    text.parse().expect("well-formed")
}

/// Two hosts at a switch, ten times as slow as the description says.
fn slow() -> Network {
    let network = Network::parse(
        r#"
        topology = "star"
        hosts = 2
        defaults = { rate = "500M", delay = "10us", faults = "dup=1%,delay=1us..3us" }
        [[link]]
        between = ["h2", "s1"]
        faults = "loss=1%"
        [[event]]
        at = "2s"
        do = "h1-s1 rate=50M"
        [[event]]
        at = "3s"
        do = "h1->s1 reorder=1%:200us"
        "#,
    );
    network.expect("well-formed").slower(10)
}

#[test]
fn rates_are_divided_and_times_of_links_and_faults_are_multiplied() {
    let network = slow();
    for link in &network.links {
        assert_eq!(link.spec.bits_per_sec, 50_000_000);
        assert_eq!(link.spec.delay, Duration::from_micros(100));
    }
    let of_links: Vec<FaultSpec> = network.links.iter().map(|link| link.faults).collect();
    let expected = ["dup=1%,delay=10us..30us", "loss=1%"].map(faults);
    assert_eq!(of_links, expected);
}

#[test]
fn an_event_slows_a_link_by_the_same_factor_as_without_and_at_the_same_time() {
    let network = slow();
    let link = CableId(0);
    let expected = [
        (2, Change::Link(link, LinkChange::Rate(5_000_000))),
        (
            3,
            Change::Link(
                link,
                LinkChange::FaultsFrom(host(0), faults("reorder=1%:2ms")),
            ),
        ),
    ];
    let events = network.events.iter();
    let events: Vec<(u64, Change)> = events
        .map(|event| (event.at.as_secs(), event.change))
        .collect();
    assert_eq!(events, expected);
    let mut fabric = network.build(1, HostSpec::default());
    assert_eq!(network.apply(&mut fabric, &events[0].1), None);
    let rates: Vec<u64> = fabric.ports().map(|port| port.link.bits_per_sec).collect();
    assert_eq!(rates, [5_000_000, 5_000_000, 50_000_000, 50_000_000]);
}

#[test]
fn changes_are_slowed_down_when_they_are_read_and_written_as_they_were() {
    let network = slow();
    for (text, change) in [
        ("h1-s1 rate=50M", LinkChange::Rate(5_000_000)),
        ("h1-s1 rate=10", LinkChange::Rate(1)),
        ("h1-s1 down", LinkChange::Down),
        ("h1-s1 heal", LinkChange::Faults(FaultSpec::default())),
        ("h1-s1 loss=5%", LinkChange::Faults(faults("loss=5%"))),
        (
            "h1-s1 delay=50us..2ms",
            LinkChange::Faults(faults("delay=500us..20ms")),
        ),
        (
            "s1->h1 reorder=1%:100us",
            LinkChange::FaultsFrom(switch(0), faults("reorder=1%:1ms")),
        ),
    ] {
        let change = Change::Link(CableId(0), change);
        assert_eq!(network.change(text), Ok(change), "{text}");
        assert_eq!(network.describe(&change), text);
    }
    let slowest = network.change("h1-s1 rate=9");
    let one = Change::Link(CableId(0), LinkChange::Rate(1));
    assert_eq!(slowest, Ok(one), "no rate is 0");
    let usual = network.change("h1-s1 reorder=1%");
    let by = faults("reorder=1%:1ms");
    assert_eq!(
        usual,
        Ok(Change::Link(CableId(0), LinkChange::Faults(by))),
        "the usual time is one too"
    );
}

#[test]
fn drawn_troubles_are_slowed_down_once_and_can_be_read() {
    let network = slow();
    let mut slowed = 0;
    for event in network.events_from(7, 200, Duration::from_secs(1)) {
        let text = network.describe(&event.change);
        assert_eq!(network.change(&text), Ok(event.change), "{text}");
        if let Change::Link(_, LinkChange::Rate(rate)) = event.change {
            // A trouble slows a link by a factor of 2 to 10.
            assert!((5_000_000..=50_000_000).contains(&rate), "{rate}");
            slowed += 1;
        }
    }
    assert!(slowed > 20, "{slowed}");
}

#[test]
fn a_rate_that_is_not_a_multiple_of_the_factor_is_written_as_it_was() {
    let usual = Network::star(2, DEFAULT_LINK, SwitchSpec::default());
    for factor in [1, 3, 7, 999_983, 1_000_000] {
        let network = usual.clone().slower(factor);
        for text in ["rate=1G", "rate=500M", "rate=2500K"] {
            let text = format!("h1-s1 {text}");
            let change = network.change(&text).expect("well-formed");
            let written = network.describe(&change);
            assert_eq!(network.change(&written), Ok(change), "{written}");
            assert!(factor > 7 || written == text, "{written}");
        }
    }
}

#[test]
fn slower_twice_is_slower_by_the_product() {
    let usual = || Network::star(2, DEFAULT_LINK, SwitchSpec::default());
    assert_eq!(usual().slower(2).slower(5), usual().slower(10));
    for none in [0, 1] {
        assert_eq!(usual().slower(none), usual());
    }
    let most = usual().slower(u32::MAX).slower(u32::MAX);
    let link = &most.links[0].spec;
    assert_eq!(link.bits_per_sec, 1);
    assert!(most.change("h1-s1 delay=3600s").is_ok());
}
