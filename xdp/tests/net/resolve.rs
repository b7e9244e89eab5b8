//! Tests routes and neighbours.

use roce_xdp::net::{
    CoreConfig, Outcome, Priority, Refusal, Resolution, Tagging, WaitDrop, Waiting,
};

use super::lab::{FAR_MAC, Lab, Lead, ip, lead, longest};

/// The addresses of both ends, and the arguments that add the far one.
const ENDS: [(&str, &str, &str); 3] = [
    ("10.90.0.1", "10.90.0.2", "10.90.0.2/24"),
    ("fd90::1", "fd90::2", "fd90::2/64"),
    ("fe80::1", "fe80::2", "fe80::2/64"),
];

#[test]
fn frames_wait_until_their_neighbour_is_resolved() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    for family in ["ipv4", "ipv6"] {
        // The path is used repeatedly, and the frames still wait.
        lab.near
            .set(&format!("{family}/neigh/near/mcast_solicit"), "1000");
    }
    let mut net = lab.net();
    for (src, dst, host) in ENDS {
        lab.far.ip(&format!("address del {host} dev far"));
        let mut waiting = Waiting::default();
        assert_eq!(
            lead(&mut net, src, dst),
            Ok(Lead::WaitsFor(ip(dst))),
            "{dst}"
        );
        assert_eq!(waiting.hold(ip(dst), lab.now(), "a frame"), None);
        lab.far.ip(&format!("address add {host} dev far nodad"));
        let changes = lab.until(&mut net, |net| {
            net.resolution(ip(dst)) != Resolution::Pending
        });
        assert!(changes.neighbours);
        let mut released = Vec::new();
        waiting.release(
            lab.now(),
            |hop| net.resolution(hop),
            |frame, outcome| released.push((frame, outcome)),
        );
        assert_eq!(released, [("a frame", Outcome::Send(FAR_MAC))]);
        assert_eq!(lead(&mut net, src, dst), Ok(Lead::To(FAR_MAC)));
    }
    assert_eq!(net.counters().failed_requests, 0);
    assert_eq!(net.counters().unparsed, 0);
}

#[test]
fn frames_do_not_wait_for_known_neighbours() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    for (src, dst, _) in ENDS {
        lab.near.ip(&format!(
            "neighbour replace {dst} lladdr 02:00:00:00:90:02 dev near nud permanent"
        ));
        assert_eq!(lead(&mut net, src, dst), Ok(Lead::To(FAR_MAC)));
    }
}

#[test]
fn gateways_are_used() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    for (src, dst, gateway) in [
        ("10.90.0.1", "10.91.0.1", "10.90.0.2"),
        ("fd90::1", "fd91::1", "fd90::2"),
    ] {
        lab.until_sent_to(&mut net, src, dst, FAR_MAC);
        assert_eq!(net.resolution(ip(gateway)), Resolution::Known(FAR_MAC));
        assert_eq!(
            net.resolution(ip(dst)),
            Resolution::Failed,
            "nobody asked for it"
        );
    }
    // The gateway belongs to the other family.
    lab.near
        .ip("route add 10.92.0.0/16 via inet6 fd90::2 dev near");
    assert_eq!(
        lead(&mut net, "10.90.0.1", "10.92.0.9"),
        Ok(Lead::To(FAR_MAC))
    );
}

#[test]
fn routes_rules_and_metrics_are_the_kernels() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let (src, dst) = ("10.90.0.1", "10.93.0.1");
    let (src6, dst6) = ("fd90::1", "fd93::1");
    assert_eq!(lead(&mut net, src, dst), Err(Refusal::NoRoute));
    assert_eq!(lead(&mut net, src6, dst6), Err(Refusal::NoRoute));
    lab.near
        .ip("route add 10.93.0.0/16 via 10.90.0.7 metric 20");
    lab.near.ip("route add fd93::/64 via fd90::7 metric 20");
    lab.until(&mut net, |net| {
        lead(net, src, dst) == Ok(Lead::WaitsFor(ip("10.90.0.7")))
    });
    lab.until(&mut net, |net| {
        lead(net, src6, dst6) == Ok(Lead::WaitsFor(ip("fd90::7")))
    });
    // A better metric, and a longer prefix with a smaller MTU.
    lab.near
        .ip("route add 10.93.0.0/16 via 10.90.0.2 metric 10");
    lab.until_sent_to(&mut net, src, dst, FAR_MAC);
    assert_eq!(longest(&mut net, src, dst), 1500 - 28);
    lab.near.ip("route add 10.93.0.1/32 via 10.90.0.2 mtu 1300");
    lab.until(&mut net, |net| longest(net, src, dst) == 1300 - 28);
    for kind in ["prohibit", "unreachable", "blackhole"] {
        lab.near.ip(&format!("route replace {kind} 10.93.0.1/32"));
        lab.near.ip(&format!("route add {kind} fd93::1/128"));
        let reason = match kind {
            "prohibit" => Refusal::Prohibited,
            _ => Refusal::NoRoute,
        };
        // For IPv4 the kernel does not report the reason.
        lab.until_refused(&mut net, src, dst, Refusal::NoRoute);
        lab.until_refused(&mut net, src6, dst6, reason);
        lab.near.ip(&format!("route del {kind} fd93::1/128"));
    }
    // A rule for this source alone leads to another table.
    lab.near.ip("address add 10.90.0.3/24 dev near");
    lab.near
        .ip("route add 10.93.0.1/32 via 10.90.0.2 table 100");
    lab.near.ip("rule add from 10.90.0.3 table 100");
    lab.until_sent_to(&mut net, "10.90.0.3", dst, FAR_MAC);
    assert_eq!(lead(&mut net, src, dst), Err(Refusal::NoRoute));
    lab.near.ip("rule del from 10.90.0.3 table 100");
    lab.until_refused(&mut net, "10.90.0.3", dst, Refusal::NoRoute);
}

#[test]
fn next_hop_objects_are_followed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let (src, dst) = ("10.90.0.1", "10.94.0.1");
    lab.near.ip("nexthop add id 7 via 10.90.0.7 dev near");
    lab.near.ip("route add 10.94.0.0/16 nhid 7");
    lab.until(&mut net, |net| {
        lead(net, src, dst) == Ok(Lead::WaitsFor(ip("10.90.0.7")))
    });
    lab.near.ip("nexthop replace id 7 via 10.90.0.2 dev near");
    lab.until_sent_to(&mut net, src, dst, FAR_MAC);
}

#[test]
fn destinations_on_this_host_are_refused() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    for (src, dst, reason) in [
        ("10.90.0.1", "10.90.0.1", Refusal::Local),
        ("fd90::1", "fd90::1", Refusal::Local),
        ("10.90.0.1", "10.90.0.255", Refusal::Destination),
        ("10.90.0.9", "10.90.0.2", Refusal::SourceNotOurs),
    ] {
        assert_eq!(lead(&mut net, src, dst), Err(reason), "{src} to {dst}");
    }
    // Neighbours of another interface are not reachable over this one.
    lab.near.ip("link add other type bridge");
    lab.near.ip("address add 10.95.0.1/24 dev other");
    lab.near.ip("link set other up");
    assert_eq!(
        lead(&mut net, "10.90.0.1", "10.95.0.2"),
        Err(Refusal::NoRoute)
    );
    assert_eq!(
        lead(&mut net, "10.95.0.1", "10.95.0.2"),
        Err(Refusal::SourceNotOurs)
    );
}

#[test]
fn groups_need_no_neighbour_request() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let group = [1, 0, 0x5e, 1, 2, 3];
    assert_eq!(
        lead(&mut net, "10.90.0.1", "239.1.2.3"),
        Ok(Lead::To(group))
    );
    let group = [0x33, 0x33, 0, 5, 0, 1];
    assert_eq!(lead(&mut net, "fd90::1", "ff0e::5:1"), Ok(Lead::To(group)));
    assert_eq!(lead(&mut net, "fe80::1", "ff12::5:1"), Ok(Lead::To(group)));
}

#[test]
fn a_silent_neighbour_fails_and_is_requested_again() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    for (src, dst, host) in [
        ("10.90.0.1", "10.90.0.77", "10.90.0.77/24"),
        ("fd90::1", "fd90::77", "fd90::77/64"),
    ] {
        assert_eq!(lead(&mut net, src, dst), Ok(Lead::WaitsFor(ip(dst))));
        let mut waiting = Waiting::default();
        assert_eq!(waiting.hold(ip(dst), lab.now(), ()), None);
        lab.until_refused(&mut net, src, dst, Refusal::HostUnreachable);
        let mut outcomes = Vec::new();
        waiting.release(
            lab.now(),
            |hop| net.resolution(hop),
            |(), outcome| outcomes.push(outcome),
        );
        assert_eq!(outcomes, [Outcome::Drop(WaitDrop::HostUnreachable)]);
        lab.far.ip(&format!("address add {host} dev far nodad"));
        lab.until_sent_to(&mut net, src, dst, FAR_MAC);
    }
}

#[test]
fn only_existing_ethernet_interfaces_can_be_opened() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let error = lab
        .open("lo", CoreConfig::default())
        .expect_err("no Ethernet");
    assert_eq!(error.source.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("lo"), "{error}");
    let tagging = Tagging::Device(Priority::Fixed(0));
    let config = CoreConfig {
        tagging,
        ..CoreConfig::default()
    };
    let error = lab.open("near", config).expect_err("no VLAN");
    assert!(error.to_string().contains("VLAN"), "{error}");
    let now = lab.now();
    let nobody = lab
        .near
        .inside(|| roce_xdp::net::Net::open(9999, CoreConfig::default(), now));
    let error = nobody.expect_err("no such interface");
    assert_eq!(error.source.raw_os_error(), Some(libc::ENODEV));
}
