//! Paths of RoCE v1.

use super::*;

fn v1(src: &str, dst: &str) -> PathKey {
    PathKey {
        version: RoceVersion::V1,
        ..key(src, dst)
    }
}

/// RoCE v1 does not reach destinations behind a gateway, though RoCEv2 does.
// shows: A16-next-hop
#[test]
fn destinations_behind_a_gateway_are_refused() {
    let mut core = core();
    let [far, far_v2] = [v1, key].map(|path| path("10.0.0.1", "192.0.2.1"));
    answer(&mut core, far, via("10.0.0.254"));
    assert_eq!(core.find(far), Err(Refusal::OffLink));
    assert_eq!(core.counters().refused(Refusal::OffLink), 1);
    answer(&mut core, far_v2, via("10.0.0.254"));
    assert_eq!(leads_to(&mut core, far_v2), Err(ip("10.0.0.254")));
    // Only the RoCEv2 path requests the gateway's address.
    assert_eq!(requests(&mut core), [Request::Neighbour(ip("10.0.0.254"))]);
}

/// On the link, neighbours are resolved as for RoCEv2. Only the header differs.
// shows: A16-next-hop
#[test]
fn neighbours_are_found_by_arp_and_neighbour_discovery() {
    for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fe80::1", "2001:db8::2")] {
        let mut core = core();
        let path = v1(src, dst);
        answer(&mut core, path, ON_LINK);
        assert_eq!(leads_to(&mut core, path), Err(ip(dst)));
        core.handle(neighbour(dst, MAC, NeighbourState::Valid));
        assert_eq!(leads_to(&mut core, path), Ok(MAC));
        let found = core.find(path).unwrap();
        let header = core.header(found).unwrap();
        assert_eq!(header.template.max_transport(), 1500 - 40);
    }
}

/// A link-local GID that was derived from an Ethernet address contains the destination, so the
/// kernel is not asked. Other addresses are resolved as neighbours.
// shows: A16-next-hop
#[test]
fn a_gid_with_an_ethernet_address_needs_no_request() {
    let mut core = core();
    let inside = "fe80::ff:fe00:2";
    assert_eq!(leads_to(&mut core, v1("fe80::1", inside)), Ok(MAC));
    assert_eq!(requests(&mut core), []);
    // With RoCEv2, the kernel is asked.
    answer(&mut core, key("fe80::1", inside), ON_LINK);
    let made_up = v1("fe80::1", "fe80::1234");
    requests(&mut core);
    answer(&mut core, made_up, ON_LINK);
    assert_eq!(leads_to(&mut core, made_up), Err(ip("fe80::1234")));
    // The same bits in an address of another kind have no meaning.
    requests(&mut core);
    answer(&mut core, v1("fe80::1", "2001:db8::ff:fe00:2"), ON_LINK);
}

#[test]
fn what_is_to_ourselves_is_local() {
    let mut core = core();
    core.handle(Event::Addresses(vec![own("fe80::ff:fe00:1", true)]));
    let path = v1("fe80::ff:fe00:1", "fe80::ff:fe00:1");
    assert_eq!(core.find(path), Err(Refusal::Local));
}

/// After the link's Ethernet address has changed, frames carry the new one.
#[test]
fn a_path_without_a_route_follows_the_link() {
    let mut core = core();
    let path = v1("fe80::1", "fe80::ff:fe00:2");
    assert_eq!(leads_to(&mut core, path), Ok(MAC));
    core.handle(Event::Link(Link {
        mtu: 4200,
        ..link()
    }));
    let found = core.find(path).unwrap();
    let header = core.header(found).unwrap();
    assert_eq!(header.template.max_transport(), 4200 - 40);
    core.handle(Event::Link(Link {
        up: false,
        ..link()
    }));
    assert_eq!(core.find(path), Err(Refusal::LinkDown));
}
