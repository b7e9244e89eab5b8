//! Tests changes of the network while packets are sent.

use std::net::UdpSocket;

use roce_stack::Duration;
use roce_xdp::net::Refusal;

use super::lab::{FAR_MAC, Lab, Lead, lead, longest};

const SRC: &str = "10.90.0.1";
const DST: &str = "10.90.0.2";
const SRC6: &str = "fd90::1";
const DST6: &str = "fd90::2";

#[test]
fn a_neighbour_that_moves_is_followed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let moved = [2, 0, 0, 0, 0x90, 9];
    for (src, dst) in [(SRC, DST), (SRC6, DST6)] {
        lab.until_sent_to(&mut net, src, dst, FAR_MAC);
    }
    lab.far.ip("link set far address 02:00:00:00:90:09");
    // The new host announces itself, as a host does that takes over an address: the near kernel
    // learns a neighbour from its ARP or neighbour discovery requests.
    lab.far.ip("neighbour flush all");
    for (src, dst, from) in [(SRC, DST, "10.90.0.2:0"), (SRC6, DST6, "[fd90::2]:0")] {
        let speaker = lab
            .far
            .inside(|| UdpSocket::bind(from).expect("far's own address"));
        let to = std::net::SocketAddr::new(src.parse().expect("an address"), 9);
        lab.until(&mut net, |net| {
            lab.far.ip("neighbour flush all");
            let _ = speaker.send_to(b"here", to);
            lead(net, src, dst) == Ok(Lead::To(moved))
        });
    }
}

#[test]
fn a_manual_neighbour_entry_takes_effect() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
    lab.near
        .ip("neighbour replace 10.90.0.2 lladdr 02:00:00:00:90:08 dev near nud reachable");
    let now = lab.now();
    assert!(net.poll(now).expect("the interface is there").neighbours);
    assert_eq!(
        lead(&mut net, SRC, DST),
        Ok(Lead::To([2, 0, 0, 0, 0x90, 8]))
    );
}

#[test]
fn flushed_neighbours_are_resolved_again() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    for (src, dst) in [(SRC, DST), (SRC6, DST6)] {
        for _ in 0..3 {
            lab.until_sent_to(&mut net, src, dst, FAR_MAC);
            lab.near.ip("neighbour flush dev near");
            let changes = net.poll(lab.now()).expect("the interface is there");
            assert!(changes.neighbours);
        }
        lab.until_sent_to(&mut net, src, dst, FAR_MAC);
    }
}

/// A permanent entry does not change when it is used.
#[test]
fn permanent_neighbours_stay_permanent() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    for (src, dst) in [(SRC, DST), (SRC6, DST6)] {
        lab.near.ip(&format!(
            "neighbour replace {dst} lladdr 02:00:00:00:90:08 dev near nud permanent"
        ));
        let mut net = lab.net();
        for second in 0..5 {
            assert_eq!(
                lead(&mut net, src, dst),
                Ok(Lead::To([2, 0, 0, 0, 0x90, 8]))
            );
            net.poll(lab.now() + Duration::from_secs(second))
                .expect("the interface is there");
        }
        let shown = lab.near.ip(&format!("neighbour show {dst} dev near"));
        assert!(shown.contains("PERMANENT"), "{shown}");
    }
}

/// A neighbour in use does not stay stale, because the kernel confirms it on request.
#[test]
fn stale_neighbours_in_use_are_confirmed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    lab.near.set("ipv4/neigh/near/delay_first_probe_time", "0");
    let mut net = lab.net();
    lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
    lab.near.ip("neighbour change 10.90.0.2 dev near nud stale");
    let shown = || lab.near.ip("neighbour show 10.90.0.2 dev near");
    assert!(shown().contains("STALE"));
    // A stale neighbour that is not used stays stale.
    let later = lab.now() + Duration::from_secs(10);
    net.poll(later).expect("the interface is there");
    net.poll(later + Duration::from_secs(2))
        .expect("the interface is there");
    assert!(shown().contains("STALE"));
    assert_eq!(lead(&mut net, SRC, DST), Ok(Lead::To(FAR_MAC)));
    net.poll(later + Duration::from_secs(4))
        .expect("the interface is there");
    assert!(!shown().contains("STALE"), "{}", shown());
    lab.until(&mut net, |net| {
        assert_eq!(
            lead(net, SRC, DST),
            Ok(Lead::To(FAR_MAC)),
            "it is used throughout"
        );
        shown().contains("REACHABLE")
    });
}

#[test]
fn mtu_changes_are_followed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    for mtu in [1500, 1280, 9000, 4200] {
        lab.near.ip(&format!("link set near mtu {mtu}"));
        lab.until(&mut net, |net| {
            net.link().is_some_and(|link| link.mtu == mtu)
        });
        assert_eq!(longest(&mut net, SRC, DST), mtu - 28);
        assert_eq!(longest(&mut net, SRC6, DST6), mtu - 48);
    }
}

#[test]
fn the_interfaces_own_address_on_the_link_is_followed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.near.ip("link set near address 02:00:00:00:90:07");
    let changes = net.poll(lab.now()).expect("the interface is there");
    assert!(changes.link);
    assert_eq!(net.link().map(|link| link.mac), Some([2, 0, 0, 0, 0x90, 7]));
}

#[test]
fn the_link_goes_down_and_comes_back() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
    // The carrier, then the interface itself.
    for (namespace, interface) in [(&lab.far, "far"), (&lab.near, "near")] {
        namespace.ip(&format!("link set {interface} down"));
        lab.until_refused(&mut net, SRC, DST, Refusal::LinkDown);
        namespace.ip(&format!("link set {interface} up"));
        lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
    }
}

#[test]
fn an_interface_that_is_deleted_is_an_error() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
    lab.near.ip("link del near");
    let error = net.poll(lab.now()).expect_err("it is gone");
    assert_eq!(error.source.raw_os_error(), Some(libc::ENODEV));
    assert!(error.to_string().contains("near"), "{error}");
    assert_eq!(lead(&mut net, SRC, DST), Err(Refusal::InterfaceGone));
    // A new interface with the same name does not replace the deleted one.
    lab.near.ip("link add near type bridge");
    net.poll(lab.now()).expect_err("it stays gone");
}

#[test]
fn an_interface_moved_to_another_namespace_is_gone() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.near
        .ip(&format!("link set near netns {}", lab.far.path()));
    net.poll(lab.now()).expect_err("it is gone");
}

#[test]
fn a_bridge_does_not_make_an_interface_disappear() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.near.ip("link add bridge type bridge");
    lab.near.ip("link set near master bridge");
    lab.near.ip("link set near nomaster");
    net.poll(lab.now()).expect("the interface is there");
    lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
}

#[test]
fn addresses_are_followed() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    let known = |net: &roce_xdp::net::Net| net.addresses().len();
    assert_eq!(known(&net), 3);
    lab.near.ip("address add 10.90.0.5/24 dev near");
    assert!(
        net.poll(lab.now())
            .expect("the interface is there")
            .addresses
    );
    lab.until_sent_to(&mut net, "10.90.0.5", DST, FAR_MAC);
    lab.near.ip("address del 10.90.0.5/24 dev near");
    assert!(
        net.poll(lab.now())
            .expect("the interface is there")
            .addresses
    );
    assert_eq!(
        lead(&mut net, "10.90.0.5", DST),
        Err(Refusal::SourceNotOurs)
    );
    // On a point-to-point link, the interface's address is the local one, not the peer's.
    lab.near
        .ip("address add 10.97.0.1 peer 10.97.0.2/32 dev near");
    lab.far.ip("address add 10.97.0.2/32 dev far");
    net.poll(lab.now()).expect("the interface is there");
    lab.until_sent_to(&mut net, "10.97.0.1", "10.97.0.2", FAR_MAC);
    assert_eq!(
        lead(&mut net, "10.97.0.2", DST),
        Err(Refusal::SourceNotOurs)
    );
    // Until duplicate address detection has ended, packets from an address are refused.
    lab.near.ip("address add fd90::5/64 dev near");
    net.poll(lab.now()).expect("the interface is there");
    assert_eq!(
        lead(&mut net, "fd90::5", DST6),
        Err(Refusal::SourceTentative)
    );
    lab.until_sent_to(&mut net, "fd90::5", DST6, FAR_MAC);
}

/// The kernel drops events when its buffer is full. Then all facts are requested again, and
/// correct.
#[test]
fn lost_events_are_recovered() {
    let Some(lab) = Lab::new_or_skip() else {
        return;
    };
    let mut net = lab.net();
    lab.until_sent_to(&mut net, SRC, DST, FAR_MAC);
    let routes: String = (0..4000)
        .map(|number| {
            format!(
                "route add 10.{}.{}.0/24 dev near\n",
                100 + number / 250,
                number % 250
            )
        })
        .collect();
    lab.near.ip_batch(&routes);
    lab.near
        .ip("neighbour replace 10.90.0.2 lladdr 02:00:00:00:90:08 dev near nud permanent");
    lab.near.ip("address add 10.90.0.6/24 dev near");
    lab.near.ip("link set near mtu 1400");
    lab.until(&mut net, |net| net.counters().overruns > 0);
    let moved = [2, 0, 0, 0, 0x90, 8];
    assert_eq!(lead(&mut net, SRC, DST), Ok(Lead::To(moved)));
    assert_eq!(longest(&mut net, "10.90.0.6", DST), 1400 - 28);
    // Events from before the overrun have no effect.
    let left = || lab.near.ip("-o route show dev near").lines().count();
    assert!(left() > 4000);
    for _ in 0..200 {
        net.poll(lab.now()).expect("the interface is there");
        assert_eq!(lead(&mut net, SRC, DST), Ok(Lead::To(moved)));
    }
}
