use super::*;
use crate::connect::{ConnectSpec, connect};
use crate::fabric::{BufferSpec, EcnSpec, Fabric, HostSpec, PfcSpec};
use roce_stack::{
    CompletionQueue, CqId, QpInit, QpKind, QueueLimits, RemoteAddr, SendOp, SendRequest, Sge,
};
use std::sync::Arc;

mod hostile;
mod slower;

const EXAMPLE: &str = r#"
hosts = 4
[defaults]
rate = "200M"
delay = "10us"
queue = "256K"
ecn = { kmin = "20K", kmax = "80K", pmax = "10%" }
faults = "loss=0.01%"
[[switch]]
name = "s1"
pfc = { pause = "40K", resume = "20K" }
[[switch]]
name = "s2"
buffer = { bytes = "12M", headroom = "5M", hysteresis = 3000 }
[[link]]
between = ["s1", "h2"]
rate = "2.5G"
max_packet = 1200
urgent_dscp = 48
faults = "loss=1%,reorder=0.5%:200us"
[[link]]
between = ["*", "s1"]
[[link]]
between = ["h4", "s2"]
queue = 5000
[[link]]
between = ["s1", "s2"]
delay = "1.5ms"
[[event]]
at = "2s"
do = "h2-s1 up"
[[event]]
at = "1ms"
do = "h2 cut"
"#;

fn example() -> Network {
    Network::parse(EXAMPLE).expect("well-formed")
}

/// The message about a description that should be refused.
fn refused(text: &str) -> String {
    match Network::parse(text) {
        Ok(network) => panic!("accepted: {network:?}"),
        Err(error) => error.to_string(),
    }
}

fn host(number: usize) -> NodeId {
    NodeId::Host(HostId(number))
}

fn switch(number: usize) -> NodeId {
    NodeId::Switch(SwitchId(number))
}

#[test]
fn links_have_the_values_of_their_table_or_the_defaults() {
    let network = example();
    assert_eq!(network.hosts, ["h1", "h2", "h3", "h4"]);
    let usual = LinkSpec {
        bits_per_sec: 200_000_000,
        delay: Duration::from_micros(10),
        max_packet_bytes: 4200,
        queue_bytes: 256 << 10,
        urgent_dscp: None,
    };
    let faults = |text: &str| text.parse().expect("well-formed");
    let link = |ends, spec| Link {
        ends,
        spec,
        faults: faults("loss=0.01%"),
    };
    let special = LinkSpec {
        bits_per_sec: 2_500_000_000,
        max_packet_bytes: 1200,
        urgent_dscp: Some(48),
        ..usual
    };
    let short = LinkSpec {
        queue_bytes: 5000,
        ..usual
    };
    let long = LinkSpec {
        delay: Duration::from_micros(1500),
        ..usual
    };
    let expected = [
        Link {
            faults: faults("loss=1%,reorder=0.5%:200us"),
            ..link([switch(0), host(1)], special)
        },
        link([host(0), switch(0)], usual),
        link([host(2), switch(0)], usual),
        link([host(3), switch(1)], short),
        link([switch(0), switch(1)], long),
    ];
    assert_eq!(network.links, expected);
}

#[test]
fn switches_have_the_values_of_their_table_or_the_defaults() {
    let ecn = Some(EcnSpec {
        kmin_bytes: 20 << 10,
        kmax_bytes: 80 << 10,
        pmax_percent: 10,
    });
    let pfc = Some(PfcSpec {
        pause_bytes: 40 << 10,
        resume_bytes: 20 << 10,
    });
    let buffer = Some(BufferSpec {
        bytes: 12 << 20,
        headroom_bytes: 5 << 20,
        hysteresis_bytes: 3000,
    });
    let [first, second] =
        [(pfc, None), (None, buffer)].map(|(pfc, buffer)| SwitchSpec { ecn, pfc, buffer });
    let network = example();
    let switches: Vec<(&str, SwitchSpec)> = network
        .switches
        .iter()
        .map(|switch| (switch.name.as_str(), switch.spec))
        .collect();
    assert_eq!(switches, [("s1", first), ("s2", second)]);
}

#[test]
fn events_are_in_order_of_time() {
    let network = example();
    let events: Vec<(u128, String)> = network
        .events
        .iter()
        .map(|event| (event.at.as_millis(), network.describe(&event.change)))
        .collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(events, [(1, text("s1-h2 down")), (2000, text("s1-h2 up"))]);
}

#[test]
fn a_topology_gives_hosts_switches_and_links_that_tables_change() {
    let network = Network::parse(
        r#"
        topology = "leaf-spine"
        leaves = 2
        spines = 3
        hosts_per_leaf = 2
        hosts = ["a", "b", "c", "d"]
        defaults = { rate = "1M", faults = "dup=1%" }
        [[switch]]
        name = "spine3"
        pfc = { pause = 2, resume = 1 }
        [[link]]
        between = ["spine3", "leaf1"]
        rate = "2M"
        "#,
    );
    let network = network.expect("well-formed");
    let names: Vec<String> = (0..network.links.len())
        .map(|link| network.link_name(CableId(link)))
        .collect();
    let expected = "a-leaf1 b-leaf1 c-leaf2 d-leaf2 leaf1-spine1 leaf1-spine2 leaf1-spine3 \
                    leaf2-spine1 leaf2-spine2 leaf2-spine3";
    assert_eq!(names.join(" "), expected);
    let rates: Vec<u64> = network.links.iter().map(|l| l.spec.bits_per_sec).collect();
    assert_eq!(rates.iter().filter(|rate| **rate == 1_000_000).count(), 9);
    assert_eq!(rates[6], 2_000_000);
    let dup = "dup=1%".parse().expect("well-formed");
    assert!(network.links.iter().all(|link| link.faults == dup));
    let paused: Vec<&str> = network
        .switches
        .iter()
        .filter(|s| s.spec.pfc.is_some())
        .map(|s| s.name.as_str())
        .collect();
    assert_eq!(paused, ["spine3"]);
}

#[test]
fn the_shapes_in_text_are_the_shapes_in_code() {
    let (link, spec) = (super::options::DEFAULT_LINK, SwitchSpec::default());
    for (text, shape) in [
        ("topology = 'star'\nhosts = 3", Network::star(3, link, spec)),
        ("topology = 'parking-lot'", Network::parking_lot(link, spec)),
        (
            "topology = 'leaf-spine'\nleaves = 2\nspines = 3\nhosts_per_leaf = 4",
            Network::leaf_spine((2, 3), 4, link, spec),
        ),
    ] {
        assert_eq!(Network::parse(text), Ok(shape));
    }
}

#[test]
fn changes_are_read_and_written() {
    let network = example();
    let link = |number, change| Change::Link(CableId(number), change);
    let faults = |text: &str| text.parse().expect("well-formed");
    let none = FaultSpec::default();
    for (text, written, change) in [
        ("h1-s1 down", "h1-s1 down", link(1, LinkChange::Down)),
        (" s1-h1  up ", "h1-s1 up", link(1, LinkChange::Up)),
        (
            "s1-s2 rate=2.5M",
            "s1-s2 rate=2500K",
            link(4, LinkChange::Rate(2_500_000)),
        ),
        ("s1-s2 rate=7", "s1-s2 rate=7", link(4, LinkChange::Rate(7))),
        (
            "h3-s1 dup=1%,loss=0.05",
            "h3-s1 loss=5%,dup=1%",
            link(2, LinkChange::Faults(faults("loss=5%,dup=1%"))),
        ),
        (
            "h3-s1 heal",
            "h3-s1 heal",
            link(2, LinkChange::Faults(none)),
        ),
        (
            "s1->h3 loss=5%",
            "s1->h3 loss=5%",
            link(2, LinkChange::FaultsFrom(switch(0), faults("loss=5%"))),
        ),
        (
            "h3->s1 heal",
            "h3->s1 heal",
            link(2, LinkChange::FaultsFrom(host(2), none)),
        ),
        ("h4 cut", "h4-s2 down", link(3, LinkChange::Down)),
        ("h4 join", "h4-s2 up", link(3, LinkChange::Up)),
        (
            "h4 freeze",
            "h4 freeze",
            Change::Host(HostId(3), HostChange::Freeze),
        ),
        (
            "h4 thaw",
            "h4 thaw",
            Change::Host(HostId(3), HostChange::Thaw),
        ),
        (
            "h1 kill",
            "h1 kill",
            Change::Host(HostId(0), HostChange::Kill),
        ),
        ("s2 forget", "s2 forget", Change::Routes(SwitchId(1), false)),
        (
            "s2 remember",
            "s2 remember",
            Change::Routes(SwitchId(1), true),
        ),
    ] {
        assert_eq!(network.change(text), Ok(change), "{text}");
        assert_eq!(network.describe(&change), written);
        assert_eq!(network.change(written), Ok(change), "{written}");
    }
}

#[test]
fn a_wrong_change_is_named_with_what_would_be_right() {
    let network = example();
    for (text, expected) in [
        (
            "",
            "\"\" should be the name of a link, host or switch and what happens to it, such as \
              \"s1-h2 down\"",
        ),
        ("h1-s1", "\"h1-s1\" should be the name of"),
        ("h1-s1 down now", "\"h1-s1 down now\" should be the name of"),
        (
            "h9 kill",
            "\"h9\" should be a host or switch (h1, h2, h3, h4, s1, s2), or a link such as \
                     s1-h2",
        ),
        ("h9-s1 down", "\"h9\" should be a host or switch: h1"),
        ("h1-h2 down", "there is no link between h1 and h2"),
        (
            "h1-s1 kill",
            "\"kill\" for the link h1-s1 should be down, up, heal, rate=",
        ),
        (
            "h1 down",
            "\"down\" for the host h1 should be freeze, thaw, kill, cut or join",
        ),
        (
            "s1 down",
            "\"down\" for the switch s1 should be forget or remember",
        ),
        (
            "h1->s1 down",
            "\"down\" for the link h1->s1 should be heal, or faults",
        ),
        (
            "h1->s1 rate=1M",
            "\"rate=1M\" for the link h1->s1 should be heal",
        ),
        ("h1-s1 rate=0", "\"0\" should be a rate such as 200M"),
        ("h1-s1 rate=nan", "\"nan\" should be a rate such as 200M"),
        (
            "h1-s1 loss=101%",
            "\"loss=101%\" should be a chance from 0% to 100%",
        ),
        ("h1-s1 lose=1%", "\"lose=1%\" should be one of loss="),
        (
            "h1-s1 loss=1%,seed=4",
            "\"loss=1%,seed=4\" should have no seed",
        ),
    ] {
        let error = network.change(text).expect_err(text);
        assert_eq!(error.line, None);
        assert!(error.what.starts_with(expected), "{text}: {error}");
    }
}

fn built() -> (Network, Fabric) {
    let network =
        Network::parse("topology = 'leaf-spine'\nleaves = 2\nspines = 2\nhosts_per_leaf = 2");
    let network = network.expect("well-formed");
    let fabric = network.build(1, HostSpec::default());
    (network, fabric)
}

#[test]
fn a_fabric_has_the_hosts_and_cables_of_the_network() {
    let (network, mut fabric) = built();
    assert_eq!(fabric.hosts(), 4);
    for (number, link) in network.links.iter().enumerate() {
        for end in link.ends {
            assert!(fabric.meter(CableId(number), end).is_some(), "{number}");
        }
    }
    assert!(fabric.meter(CableId(8), host(0)).is_none());
}

/// Sends one packet from one host to another. Returns the numbers of packets that were carried,
/// lost and dropped.
fn send(fabric: &mut Fabric, hosts: [usize; 2]) -> [u64; 3] {
    let hosts = hosts.map(HostId);
    let ends = hosts.map(|host| {
        let nic = fabric.nic(host);
        let pd = nic.alloc_pd();
        let cq = Arc::new(CompletionQueue::new(CqId(0), 4));
        let limits = QueueLimits {
            depth: 1,
            max_sge: 1,
        };
        let qpn = nic.create_qp(QpInit {
            kind: QpKind::Uc,
            pd,
            send_cq: Arc::clone(&cq),
            recv_cq: cq,
            send: limits,
            recv: limits,
            max_inline: 0,
            signal_all: false,
        });
        (host, qpn.expect("a QP"))
    });
    let spec = ConnectSpec {
        kind: QpKind::Uc,
        ..ConnectSpec::default()
    };
    connect(fabric, ends, &spec).expect("connected");
    let nothing = Sge {
        addr: 0,
        length: 0,
        lkey: 0,
    };
    let write = SendOp::Write(RemoteAddr { addr: 0, rkey: 0 });
    let (now, before) = (fabric.now(), fabric.counters());
    let wr = SendRequest::new(1, write, nothing);
    let posted = fabric.nic(hosts[0]).post_send(now, ends[0].1, &wr);
    posted.expect("posted");
    fabric.drive(hosts[0]);
    while fabric.step(now + Duration::from_secs(1)).is_some() {}
    let after = fabric.counters();
    [
        after.carried - before.carried,
        after.lost - before.lost,
        after.dropped - before.dropped,
    ]
}

#[test]
fn changes_apply_to_the_fabric() {
    let (network, mut fabric) = built();
    // h1 to h4: four links.
    for (change, expected) in [
        ("", [4, 0, 0]),
        ("h1-leaf1 down", [1, 1, 0]),
        ("h1-leaf1 up", [4, 0, 0]),
        ("h4 cut", [4, 1, 0]),
        ("h4 join", [4, 0, 0]),
        ("h4->leaf2 loss=100%", [4, 0, 0]),
        ("leaf2->h4 loss=100%", [4, 1, 0]),
        ("h4-leaf2 heal", [4, 0, 0]),
        ("h4-leaf2 loss=100%", [4, 1, 0]),
        ("leaf2->h4 heal", [4, 0, 0]),
        ("leaf1 forget", [1, 0, 1]),
        ("leaf1 remember", [4, 0, 0]),
        ("leaf1-spine1 down", [4, 0, 0]),
        ("leaf1-spine2 down", [2, 1, 0]),
        ("leaf1-spine1 up", [4, 0, 0]),
    ] {
        if !change.is_empty() {
            let parsed = network.change(change).expect(change);
            assert_eq!(network.apply(&mut fabric, &parsed), None);
        }
        assert_eq!(send(&mut fabric, [0, 3]), expected, "{change}");
    }
    let rate = network.change("h1-leaf1 rate=1").expect("well-formed");
    assert_eq!(network.apply(&mut fabric, &rate), None);
    // The packet is still being sent after a second.
    assert_eq!(send(&mut fabric, [0, 3]), [1, 0, 0]);
}

#[test]
fn what_concerns_the_programs_of_a_host_is_left_to_the_caller() {
    let (network, mut fabric) = built();
    for (text, expected) in [
        ("h2 freeze", HostChange::Freeze),
        ("h2 thaw", HostChange::Thaw),
        ("h2 kill", HostChange::Kill),
    ] {
        let change = network.change(text).expect(text);
        let left = network.apply(&mut fabric, &change);
        assert_eq!(left, Some((HostId(1), expected)));
    }
}

#[test]
fn faults_of_the_description_are_there_from_the_start() {
    let text =
        "topology = 'star'\nhosts = 2\n[[link]]\nbetween = ['h2', 's1']\nfaults = 'loss=100%'";
    let network = Network::parse(text).expect("well-formed");
    let mut fabric = network.build(1, HostSpec::default());
    assert_eq!(send(&mut fabric, [0, 1]), [2, 1, 0]);
}

#[test]
fn drawn_troubles_come_from_the_seed_and_end_in_time() {
    let (network, mut fabric) = built();
    let over = Duration::from_millis(10);
    let events = network.events_from(7, 200, over);
    assert_eq!(events, network.events_from(7, 200, over));
    assert_ne!(events, network.events_from(8, 200, over));
    assert_eq!(events.len(), 400);
    assert!(events.is_sorted_by_key(|event| event.at));
    assert!(events.iter().all(|event| event.at < over));
    let mut kinds: Vec<String> = Vec::new();
    let mut frozen = [0; 4];
    for event in &events {
        let text = network.describe(&event.change);
        assert_eq!(network.change(&text), Ok(event.change), "{text}");
        let what = text.split(' ').nth(1).unwrap_or_default();
        kinds.push(what.split('=').next().unwrap_or_default().to_owned());
        match network.apply(&mut fabric, &event.change) {
            None => {}
            Some((host, HostChange::Freeze)) => frozen[host.0] += 1,
            Some((host, HostChange::Thaw)) => frozen[host.0] -= 1,
            Some((_, HostChange::Kill)) => panic!("killed"),
        }
    }
    assert_eq!(frozen, [0; 4]);
    kinds.sort_unstable();
    kinds.dedup();
    let all = [
        "down", "forget", "freeze", "heal", "loss", "rate", "remember", "thaw", "up",
    ];
    assert_eq!(kinds, all);
    for from in 0..4 {
        for to in (0..4).filter(|to| *to != from) {
            let links = if from / 2 == to / 2 { 2 } else { 4 };
            assert_eq!(send(&mut fabric, [from, to]), [links, 0, 0]);
        }
    }
}
