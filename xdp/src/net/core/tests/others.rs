//! Paths to other interfaces of this host.

use super::super::super::facts::OtherAddress;
use super::*;

const OTHER_MAC: Mac = [2, 0, 0, 0, 0, 9];

fn other(index: u32, address: &str) -> OtherAddress {
    OtherAddress {
        index,
        address: ip(address),
    }
}

fn link_of(index: u32, mac: Option<Mac>) -> Event {
    Event::OtherLink { index, mac }
}

/// A core with these addresses of other interfaces.
fn core_with_others(others: &[OtherAddress]) -> Core {
    let mut core = core();
    core.handle(Event::Addresses(vec![
        own("10.0.0.1", true),
        OwnAddress {
            prefix_len: 64,
            ..own("fd00::1", true)
        },
        own("fe80::1", true),
    ]));
    core.handle(Event::Others(others.to_vec()));
    core
}

/// Answers all requests that the path causes, with this route and this interface's address.
#[track_caller]
fn answer_all(core: &mut Core, path: PathKey, route: Route, index: u32, mac: Option<Mac>) {
    answer(core, path, route);
    assert_eq!(core.find(path), Err(Refusal::RoutePending));
    assert_eq!(requests(core), [Request::OtherLink(index)]);
    core.handle(link_of(index, mac));
    answer(core, path, route);
}

/// The kernel reports an address of another interface as on the link, or as local.
#[test]
fn on_link_addresses_of_other_interfaces_are_reached() {
    let ends = [
        ("10.0.0.1", "10.0.0.2", ON_LINK),
        ("10.0.0.1", "10.0.0.2", Route::Local),
        ("fd00::1", "fd00::2", Route::Local),
        // An address outside the prefix of the source, but on the link according to the route.
        ("10.0.0.1", "10.9.9.9", ON_LINK),
    ];
    for (src, dst, route) in ends {
        for version in [RoceVersion::V1, RoceVersion::V2] {
            let mut core = core_with_others(&[other(8, dst), other(9, "10.0.0.7")]);
            let path = PathKey {
                version,
                ..key(src, dst)
            };
            answer_all(&mut core, path, route, 8, Some(OTHER_MAC));
            assert_eq!(leads_to(&mut core, path), Ok(OTHER_MAC));
            assert_eq!(requests(&mut core), [], "no neighbour is asked for");
            // There is no request later either, when the neighbours in use are checked.
            core.tick(START + TICK);
            assert_eq!(requests(&mut core), []);
        }
    }
}

#[test]
fn off_link_addresses_of_other_interfaces_follow_the_route() {
    let cases = [
        // Addresses of this host outside the prefix of the source.
        ("10.0.0.1", "10.0.1.2", Route::Local, Err(Refusal::Local)),
        ("fd00::1", "fd01::2", Route::Local, Err(Refusal::Local)),
        ("10.0.0.1", "10.0.0.2", Route::None, Err(Refusal::NoRoute)),
        (
            "10.0.0.1",
            "10.0.0.2",
            Route::Prohibited,
            Err(Refusal::Prohibited),
        ),
        // A router may send the packet back to the other interface.
        ("10.0.0.1", "10.0.0.2", via("10.0.0.254"), Ok("10.0.0.254")),
        // Another interface with this link-local address need not be on this link.
        ("fe80::1", "fe80::2", ON_LINK, Ok("fe80::2")),
    ];
    for (src, dst, route, expected) in cases {
        let mut core = core_with_others(&[other(8, dst)]);
        let path = key(src, dst);
        answer(&mut core, path, route);
        match expected {
            Err(reason) => assert_eq!(core.find(path), Err(reason), "{path:?}"),
            Ok(hop) => assert_eq!(leads_to(&mut core, path), Err(ip(hop)), "{path:?}"),
        }
        let asked = requests(&mut core);
        assert!(!asked.contains(&Request::OtherLink(8)), "{asked:?}");
    }
    for loopback in ["127.0.0.1", "::1"] {
        let src = if loopback == "::1" {
            "fd00::1"
        } else {
            "10.0.0.1"
        };
        let mut core = core_with_others(&[other(1, loopback)]);
        assert_eq!(core.find(key(src, loopback)), Err(Refusal::Local));
        assert_eq!(requests(&mut core), []);
    }
    // Packets to an address that this interface also has are looped back.
    let mut core = core_with_others(&[other(8, "10.0.0.1")]);
    let path = key("10.0.0.1", "10.0.0.1");
    answer(&mut core, path, Route::Local);
    assert_eq!(core.find(path), Err(Refusal::Local));
    // No packet can be sent to an interface without an Ethernet address.
    let mut core = core_with_others(&[other(1, "10.0.0.2")]);
    let path = key("10.0.0.1", "10.0.0.2");
    answer_all(&mut core, path, ON_LINK, 1, None);
    assert_eq!(core.find(path), Err(Refusal::Local));
}

#[test]
fn other_interfaces_are_followed() {
    let path = key("10.0.0.1", "10.0.0.2");
    let elsewhere = key("10.0.0.1", "10.0.0.3");
    let mut core = core_with_others(&[other(8, "10.0.0.2"), other(8, "10.0.0.4")]);
    answer_all(&mut core, path, ON_LINK, 8, Some(OTHER_MAC));
    answer(&mut core, elsewhere, ON_LINK);
    leads_to(&mut core, elsewhere).unwrap_err();
    requests(&mut core);
    // The interface reports the same Ethernet address again, and then another.
    core.handle(link_of(8, Some(OTHER_MAC)));
    assert_eq!(leads_to(&mut core, path), Ok(OTHER_MAC), "nothing is new");
    core.handle(link_of(8, Some(MOVED)));
    answer(&mut core, path, ON_LINK);
    assert_eq!(leads_to(&mut core, path), Ok(MOVED));
    // The address moves to another interface, then to another host.
    core.handle(Event::OtherAddressGone(other(8, "10.0.0.2")));
    core.handle(Event::OtherAddress(other(9, "10.0.0.2")));
    answer_all(&mut core, path, ON_LINK, 9, Some(OTHER_MAC));
    assert_eq!(leads_to(&mut core, path), Ok(OTHER_MAC));
    core.handle(Event::OtherAddressGone(other(9, "10.0.0.2")));
    answer(&mut core, path, ON_LINK);
    assert_eq!(leads_to(&mut core, path), Err(path.dst));
    assert_eq!(requests(&mut core), [Request::Neighbour(path.dst)]);
    // Then this host's interface has the address again.
    core.handle(Event::OtherAddress(other(8, "10.0.0.2")));
    answer(&mut core, path, ON_LINK);
    assert_eq!(leads_to(&mut core, path), Ok(MOVED), "it was followed");
    // Events about others cause no requests, and links without paths are not followed.
    core.handle(Event::OtherAddress(other(5, "10.0.0.5")));
    core.handle(link_of(5, Some(MAC)));
    for path in [path, elsewhere] {
        assert!(core.find(path).is_ok());
    }
    assert_eq!(requests(&mut core), []);
}

#[test]
fn lost_events_of_other_interfaces_are_recovered() {
    let mut core = core_with_others(&[other(8, "10.0.0.2")]);
    let path = key("10.0.0.1", "10.0.0.2");
    answer_all(&mut core, path, ON_LINK, 8, Some(OTHER_MAC));
    core.handle(Event::Overrun);
    assert_eq!(requests(&mut core), [Request::Link, Request::Addresses]);
    answer_all(&mut core, path, ON_LINK, 8, Some(MOVED));
    assert_eq!(leads_to(&mut core, path), Ok(MOVED));
    core.handle(Event::Overrun);
    requests(&mut core);
    core.handle(Event::Others(vec![]));
    answer(&mut core, path, ON_LINK);
    assert_eq!(leads_to(&mut core, path), Err(path.dst));
}

#[test]
fn prefixes() {
    let with = |address: &str, prefix_len| OwnAddress {
        prefix_len,
        ..own(address, true)
    };
    let cases = [
        ("10.0.0.1", 24, "10.0.0.255", "10.0.1.0"),
        ("10.0.0.1", 32, "10.0.0.1", "10.0.0.0"),
        ("fd00::1", 64, "fd00::ffff:0:0:1", "fd00:0:0:1::1"),
        ("fd00::1", 128, "fd00::1", "fd00::"),
    ];
    for (own, bits, near, far) in cases {
        assert!(with(own, bits).is_on_link(ip(near)));
        assert!(!with(own, bits).is_on_link(ip(far)));
    }
    for all in ["10.0.0.1", "fd00::1"] {
        assert_eq!(with(all, 0).is_on_link(ip("192.0.2.1")), all != "fd00::1");
    }
    assert!(!with("10.0.0.1", 200).is_on_link(ip("10.0.0.2")), "no such");
}
