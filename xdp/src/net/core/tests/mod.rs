use roce_stack::RoceVersion;
use roce_wire::VlanTag;

use super::super::event::Route;
use super::super::facts::{Mac, Priority, VlanDevice};
use super::*;

mod others;
mod v1;

const OWN_MAC: Mac = [2, 0, 0, 0, 0, 1];
const MAC: Mac = [2, 0, 0, 0, 0, 2];
const MOVED: Mac = [2, 0, 0, 0, 0, 3];
const START: Instant = Instant::from_nanos(5_000_000_000);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn key(src: &str, dst: &str) -> PathKey {
    PathKey {
        src: ip(src),
        dst: ip(dst),
        version: RoceVersion::V2,
    }
}

fn link() -> Link {
    Link {
        index: 7,
        name: "eth7".to_owned(),
        ethernet: true,
        mac: OWN_MAC,
        mtu: 1500,
        up: true,
        vlan: None,
    }
}

fn own(address: &str, usable: bool) -> OwnAddress {
    OwnAddress {
        address: ip(address),
        prefix_len: 24,
        usable,
    }
}

/// A core with a link and two addresses, and no requests.
fn core_with(config: CoreConfig) -> Core {
    let mut core = Core::new(config, START);
    assert_eq!(requests(&mut core), [Request::Link, Request::Addresses]);
    core.handle(Event::Link(link()));
    core.handle(Event::Addresses(vec![
        own("10.0.0.1", true),
        own("fe80::1", true),
    ]));
    core
}

fn core() -> Core {
    core_with(CoreConfig::default())
}

fn requests(core: &mut Core) -> Vec<Request> {
    std::iter::from_fn(|| core.next_request()).collect()
}

const ON_LINK: Route = Route::Unicast {
    gateway: None,
    mtu: None,
};

fn via(gateway: &str) -> Route {
    Route::Unicast {
        gateway: Some(ip(gateway)),
        mtu: None,
    }
}

fn neighbour(address: &str, mac: Mac, state: NeighbourState) -> Event {
    Event::Neighbour {
        address: ip(address),
        mac: Some(mac),
        state,
    }
}

/// Answers the route request that the first use of the path must cause.
#[track_caller]
fn answer(core: &mut Core, path: PathKey, route: Route) {
    assert_eq!(core.find(path), Err(Refusal::RoutePending));
    assert_eq!(requests(core), [Request::Route(path)]);
    core.handle(Event::Route(path, route));
}

/// The Ethernet address that a path leads to, or the next hop that it waits for.
#[track_caller]
fn leads_to(core: &mut Core, path: PathKey) -> Result<Mac, IpAddr> {
    let found = core.find(path).unwrap();
    let header = core.header(found).unwrap();
    header.waits_for.map_or(Ok(header.template.dst()), Err)
}

#[test]
fn nothing_is_sent_before_link_and_addresses_are_known() {
    let mut core = Core::new(CoreConfig::default(), START);
    let path = key("10.0.0.1", "10.0.0.2");
    assert_eq!(core.find(path), Err(Refusal::LinkDown));
    core.handle(Event::Link(link()));
    assert_eq!(core.find(path), Err(Refusal::SourceNotOurs));
    core.handle(Event::Addresses(vec![own("10.0.0.1", true)]));
    assert_eq!(core.find(path), Err(Refusal::RoutePending));
}

#[test]
fn a_path_and_its_neighbour_are_requested_once() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    assert_eq!(core.find(path), Err(Refusal::RoutePending));
    assert_eq!(core.find(path), Err(Refusal::RoutePending));
    assert_eq!(requests(&mut core), [Request::Route(path)]);
    core.handle(Event::Route(path, ON_LINK));
    for _ in 0..3 {
        assert_eq!(leads_to(&mut core, path), Err(path.dst));
    }
    assert_eq!(requests(&mut core), [Request::Neighbour(path.dst)]);
    core.handle(neighbour("10.0.0.2", MAC, NeighbourState::Valid));
    assert!(core.take_changes().neighbours);
    assert_eq!(leads_to(&mut core, path), Ok(MAC));
    assert_eq!(requests(&mut core), []);
    assert_eq!(core.counters().route_lookups, 1);
    assert_eq!(core.counters().neighbour_requests, 1);
}

#[test]
fn paths_through_one_gateway_share_its_state() {
    let mut core = core();
    let paths = [key("10.0.0.1", "192.0.2.1"), key("10.0.0.1", "192.0.2.2")];
    let mut asked = Vec::new();
    for path in paths {
        answer(&mut core, path, via("10.0.0.254"));
        assert_eq!(leads_to(&mut core, path), Err(ip("10.0.0.254")));
        asked.extend(requests(&mut core));
    }
    assert_eq!(asked, [Request::Neighbour(ip("10.0.0.254"))]);
    core.handle(neighbour("10.0.0.254", MAC, NeighbourState::Valid));
    for path in paths {
        assert_eq!(leads_to(&mut core, path), Ok(MAC));
    }
    core.handle(neighbour("10.0.0.254", MOVED, NeighbourState::Stale));
    for path in paths {
        assert_eq!(leads_to(&mut core, path), Ok(MOVED));
    }
    // A gateway may be of the other family (RFC 5549).
    let path = key("10.0.0.1", "192.0.2.3");
    answer(&mut core, path, via("fe80::9"));
    assert_eq!(leads_to(&mut core, path), Err(ip("fe80::9")));
}

/// Every state of a neighbour, and whether frames are sent in it.
#[test]
fn states_of_a_neighbour() {
    let mut core = core();
    let path = key("fe80::1", "fe80::2");
    answer(&mut core, path, ON_LINK);
    leads_to(&mut core, path).unwrap_err();
    requests(&mut core);
    core.take_changes();
    let incomplete = Event::Neighbour {
        address: path.dst,
        mac: None,
        state: NeighbourState::Incomplete,
    };
    core.handle(incomplete.clone());
    assert!(!core.take_changes().neighbours, "nothing is new");
    assert_eq!(core.resolution(path.dst), Resolution::Pending);
    core.handle(neighbour("fe80::2", MAC, NeighbourState::Valid));
    core.handle(neighbour("fe80::2", MAC, NeighbourState::Stale));
    assert_eq!(leads_to(&mut core, path), Ok(MAC));
    assert_eq!(core.resolution(path.dst), Resolution::Known(MAC));
    // The kernel keeps an address with a failed neighbour.
    core.handle(neighbour("fe80::2", MAC, NeighbourState::Failed));
    assert!(core.take_changes().neighbours);
    assert_eq!(core.find(path), Err(Refusal::HostUnreachable));
    assert_eq!(core.resolution(path.dst), Resolution::Failed);
    assert_eq!(core.counters().refused(Refusal::HostUnreachable), 1);
    core.handle(incomplete);
    assert_eq!(leads_to(&mut core, path), Err(path.dst));
    // No path uses this one.
    core.handle(neighbour("fe80::77", MAC, NeighbourState::Valid));
    assert_eq!(core.resolution(ip("fe80::77")), Resolution::Failed);
}

#[test]
fn a_neighbour_that_does_not_answer_is_requested_once_a_second() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    answer(&mut core, path, ON_LINK);
    leads_to(&mut core, path).unwrap_err();
    assert_eq!(requests(&mut core), [Request::Neighbour(path.dst)]);
    core.handle(neighbour("10.0.0.2", MAC, NeighbourState::Failed));
    for step in 1..=20_u32 {
        core.tick(START + Duration::from_millis(100) * step);
        assert_eq!(core.find(path), Err(Refusal::HostUnreachable));
        let expected = usize::from(step % 10 == 0);
        assert_eq!(requests(&mut core).len(), expected, "after {step} tenths");
    }
}

#[test]
fn a_flushed_neighbour_is_requested_at_once() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    answer(&mut core, path, ON_LINK);
    leads_to(&mut core, path).unwrap_err();
    requests(&mut core);
    core.handle(neighbour("10.0.0.2", MAC, NeighbourState::Valid));
    core.handle(Event::NeighbourGone(path.dst));
    assert_eq!(leads_to(&mut core, path), Err(path.dst));
    assert_eq!(requests(&mut core), [Request::Neighbour(path.dst)]);
}

#[test]
fn a_stale_neighbour_is_refreshed_while_it_is_used() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    answer(&mut core, path, ON_LINK);
    leads_to(&mut core, path).unwrap_err();
    requests(&mut core);
    core.handle(neighbour("10.0.0.2", MAC, NeighbourState::Stale));
    let second = |n: u32| START + TICK * n;
    assert_eq!(core.next_deadline(), Some(second(1)));
    core.tick(second(1));
    assert_eq!(requests(&mut core), [Request::Neighbour(path.dst)]);
    // The path was not used since, so there is no work and no deadline.
    assert_eq!(core.next_deadline(), None);
    core.tick(second(2));
    assert_eq!(requests(&mut core), []);
    assert_eq!(leads_to(&mut core, path), Ok(MAC));
    assert_eq!(core.next_deadline(), Some(second(2)));
    core.tick(second(2));
    assert_eq!(requests(&mut core), [Request::Neighbour(path.dst)]);
    // A valid neighbour is not requested.
    core.handle(neighbour("10.0.0.2", MAC, NeighbourState::Valid));
    leads_to(&mut core, path).unwrap();
    core.tick(second(4));
    assert_eq!(requests(&mut core), []);
}

#[test]
fn a_tick_requests_a_bounded_number_of_neighbours() {
    let mut core = core();
    for number in 0..150_u8 {
        let path = PathKey {
            dst: IpAddr::from([10, 0, 1, number]),
            ..key("10.0.0.1", "10.0.0.2")
        };
        answer(&mut core, path, ON_LINK);
        leads_to(&mut core, path).unwrap_err();
        requests(&mut core);
        core.handle(Event::Neighbour {
            address: path.dst,
            mac: Some(MAC),
            state: NeighbourState::Stale,
        });
    }
    let asked = [1, 2, 3, 4].map(|n| {
        core.tick(START + TICK * n);
        requests(&mut core).len()
    });
    assert_eq!(asked, [64, 64, 22, 0]);
}

#[test]
fn routes_become_verdicts() {
    let cases = [
        (Route::None, Refusal::NoRoute),
        (Route::Prohibited, Refusal::Prohibited),
        (Route::Local, Refusal::Local),
        (Route::Broadcast, Refusal::Destination),
    ];
    for (route, reason) in cases {
        let mut core = core();
        let path = key("10.0.0.1", "192.0.2.9");
        answer(&mut core, path, route);
        assert_eq!(core.find(path), Err(reason));
        assert_eq!(core.find(path), Err(reason));
        assert_eq!(core.counters().refused(reason), 2);
        assert_eq!(requests(&mut core), []);
        assert!(!reason.is_transient());
        core.handle(Event::RoutesChanged);
        answer(&mut core, path, ON_LINK);
        assert_eq!(leads_to(&mut core, path), Err(path.dst));
    }
}

#[test]
fn unsendable_packets_cause_no_requests() {
    let mut core = core();
    for (path, reason) in [
        (key("10.0.0.1", "fe80::2"), Refusal::Families),
        (key("10.0.0.9", "10.0.0.2"), Refusal::SourceNotOurs),
        (key("10.0.0.1", "0.0.0.0"), Refusal::Destination),
        (key("fe80::1", "::"), Refusal::Destination),
        (key("10.0.0.1", "255.255.255.255"), Refusal::Destination),
    ] {
        assert_eq!(core.find(path), Err(reason), "{path:?}");
        assert!(!reason.is_transient());
    }
    assert_eq!(requests(&mut core), []);
}

#[test]
fn groups_need_no_neighbour() {
    let mut core = core();
    let path = key("10.0.0.1", "239.129.2.3");
    answer(&mut core, path, Route::Multicast);
    assert_eq!(leads_to(&mut core, path), Ok([1, 0, 0x5e, 1, 2, 3]));
    // A route to a group may have a gateway, which has no effect.
    let path = key("fe80::1", "ff02::1:ff00:2");
    answer(&mut core, path, via("fe80::9"));
    assert_eq!(leads_to(&mut core, path), Ok([0x33, 0x33, 0xff, 0, 0, 2]));
    assert_eq!(requests(&mut core), []);
}

#[test]
fn addresses_come_and_go() {
    let mut core = core();
    let path = key("10.0.0.5", "10.0.0.2");
    assert_eq!(core.find(path), Err(Refusal::SourceNotOurs));
    core.take_changes();
    core.handle(Event::Address(own("10.0.0.5", false)));
    assert!(core.take_changes().addresses);
    assert_eq!(core.find(path), Err(Refusal::SourceTentative));
    assert!(Refusal::SourceTentative.is_transient());
    core.handle(Event::Address(own("10.0.0.5", true)));
    answer(&mut core, path, ON_LINK);
    core.take_changes();
    core.handle(Event::Address(own("10.0.0.5", true)));
    assert_eq!(core.take_changes(), Changes::default(), "nothing is new");
    core.handle(Event::AddressGone(ip("10.0.0.5")));
    assert_eq!(core.find(path), Err(Refusal::SourceNotOurs));
    assert_eq!(core.addresses().len(), 2);
}

#[test]
fn the_link_is_followed() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    let longest = |core: &mut Core| {
        answer(
            core,
            path,
            Route::Unicast {
                gateway: None,
                mtu: Some(1400),
            },
        );
        let found = core.find(path).unwrap();
        core.header(found).unwrap().template.max_transport()
    };
    assert_eq!(longest(&mut core), 1400 - 28);
    requests(&mut core);
    core.take_changes();
    core.handle(Event::Link(link()));
    assert_eq!(core.take_changes(), Changes::default(), "nothing is new");
    core.handle(Event::Link(Link {
        mtu: 1280,
        ..link()
    }));
    assert!(core.take_changes().link);
    assert_eq!(longest(&mut core), 1280 - 28);
    requests(&mut core);
    core.handle(Event::Link(Link {
        up: false,
        ..link()
    }));
    assert_eq!(core.find(path), Err(Refusal::LinkDown));
    assert!(Refusal::LinkDown.is_transient());
    core.handle(Event::Link(Link {
        mac: MOVED,
        ..link()
    }));
    answer(&mut core, path, ON_LINK);
    let found = core.find(path).unwrap();
    let fields = super::super::PacketFields {
        transport_len: 20,
        traffic_class: 0,
        hop_limit: 0,
        src_port: 4791,
        id: 0,
    };
    let mut frame = [0; 100];
    core.header(found)
        .unwrap()
        .template
        .write(&mut frame, &fields);
    assert_eq!(frame[6..12], MOVED);
    core.handle(Event::LinkGone);
    assert!(core.is_gone());
    assert_eq!(core.find(path), Err(Refusal::InterfaceGone));
    // A new interface may get the same index, but it is not this one.
    core.handle(Event::Link(link()));
    assert_eq!(core.find(path), Err(Refusal::InterfaceGone));
}

#[test]
fn an_answer_from_before_a_change_is_ignored() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    assert_eq!(core.find(path), Err(Refusal::RoutePending));
    assert_eq!(core.next_request(), Some(Request::Route(path)));
    core.handle(Event::RoutesChanged);
    core.handle(Event::Route(path, ON_LINK));
    answer(&mut core, path, via("10.0.0.254"));
    assert_eq!(leads_to(&mut core, path), Err(ip("10.0.0.254")));
}

#[test]
fn after_an_overrun_all_facts_are_requested_again() {
    let mut core = core();
    let path = key("10.0.0.1", "10.0.0.2");
    answer(&mut core, path, ON_LINK);
    leads_to(&mut core, path).unwrap_err();
    requests(&mut core);
    core.handle(neighbour("10.0.0.2", MAC, NeighbourState::Valid));
    core.handle(Event::Overrun);
    core.handle(Event::Overrun);
    let asked = requests(&mut core);
    assert_eq!(
        asked,
        [
            Request::Link,
            Request::Addresses,
            Request::Neighbour(path.dst)
        ]
    );
    core.handle(Event::Addresses(vec![own("10.0.0.1", true)]));
    core.handle(neighbour("10.0.0.2", MOVED, NeighbourState::Valid));
    answer(&mut core, path, ON_LINK);
    assert_eq!(leads_to(&mut core, path), Ok(MOVED));
    assert_eq!(
        core.find(key("fe80::1", "fe80::2")),
        Err(Refusal::SourceNotOurs)
    );
    assert_eq!(core.counters().overruns, 2);
}

/// A full table forgets paths that were not used recently, and their next hops.
#[test]
fn paths_and_next_hops_are_bounded() {
    let mut core = core_with(CoreConfig {
        max_paths: 8,
        ..CoreConfig::default()
    });
    let path = |number: u32| PathKey {
        dst: IpAddr::from((0x0a01_0000 + number).to_be_bytes()),
        ..key("10.0.0.1", "10.0.0.2")
    };
    let used = path(0);
    for number in 1..1000 {
        answer(&mut core, path(number), ON_LINK);
        leads_to(&mut core, path(number)).unwrap_err();
        if core.find(used).is_err() {
            core.handle(Event::Route(used, ON_LINK));
        }
        leads_to(&mut core, used).unwrap_err();
        requests(&mut core);
        assert!(core.paths.iter().count() <= 8);
        assert!(core.hops.len() <= 9);
    }
    // The path in use was forgotten once, because all paths counted as recently used when the table
    // was full for the first time.
    assert!(core.counters().route_lookups <= 999 + 2);
    answer(&mut core, path(1), ON_LINK);
}

// shows: A17.2.3-vlan
#[test]
fn a_vlan_device_provides_its_tag() {
    let tagging = Tagging::Device(Priority::Fixed(4));
    let mut core = core_with(CoreConfig {
        tagging,
        ..CoreConfig::default()
    });
    let path = key("10.0.0.1", "10.0.0.2");
    assert_eq!(core.find(path), Err(Refusal::NoVlan));
    let tag = VlanTag {
        tpid: 0x8100,
        tci: 42,
    };
    let vlan = Some(VlanDevice { lower: 3, tag });
    core.handle(Event::Link(Link { vlan, ..link() }));
    answer(&mut core, path, ON_LINK);
    let found = core.find(path).unwrap();
    assert_eq!(
        core.header(found).unwrap().template.header_len(),
        14 + 4 + 20 + 8
    );
}

#[test]
fn received_frames_are_checked_against_link_and_addresses() {
    let mut core = core();
    let frame = {
        let path = key("10.0.0.2", "10.0.0.1");
        let template = Template::new(path, MAC, OWN_MAC, None, 1500).unwrap();
        let mut frame = vec![0; 62];
        let fields = super::super::PacketFields {
            transport_len: 20,
            traffic_class: 0,
            hop_limit: 0,
            src_port: 4791,
            id: 0,
        };
        template.write(&mut frame, &fields);
        frame
    };
    assert_eq!(core.parse(&frame).unwrap().transport.len(), 20);
    core.handle(Event::AddressGone(ip("10.0.0.1")));
    assert_eq!(core.parse(&frame), Err(RxDrop::OtherAddress));
    core.handle(Event::Address(own("10.0.0.1", true)));
    core.handle(Event::Link(Link {
        mac: MOVED,
        ..link()
    }));
    assert_eq!(core.parse(&frame), Err(RxDrop::OtherMac));
    assert_eq!(core.counters().rx_dropped(RxDrop::OtherMac), 1);
    let named: u64 = core.counters().each().map(|(_, count)| count).sum();
    assert_eq!(named, 2);
}
