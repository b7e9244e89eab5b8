//! Tests which process receives which management datagrams.

use super::processes::OtherProcess;
use super::*;
use roce_port::Steering;
use roce_stack::{Addresses, Flow, Transmit};
use roce_udp::{ClaimError, ServiceClaim};
use roce_wire::Qpn;

const SERVICE: u32 = 0x0106_1c36;
const REQ: u16 = 0x10;
const REJ: u16 = 0x12;
const REP: u16 = 0x13;
const DREQ: u16 = 0x15;
const SIDR_REQ: u16 = 0x17;
const SIDR_REP: u16 = 0x18;

/// A datagram to QP1, with a number.
fn mad(attribute: u16, number: u8) -> [u8; 280] {
    let mut bytes = [0; 280];
    (bytes[7], bytes[8]) = (1, number);
    bytes[21] = 7;
    bytes[36..38].copy_from_slice(&attribute.to_be_bytes());
    bytes
}

/// A request for a service. Its own ID has no influence on the recipient.
fn request(attribute: u16, service: u32, number: u8) -> [u8; 280] {
    let mut bytes = mad(attribute, number);
    bytes[44] = 0x33 << 1;
    bytes[56..60].copy_from_slice(&service.to_be_bytes());
    bytes
}

/// A reply to a request whose ID was chosen in `part`.
fn reply(attribute: u16, part: u8, number: u8) -> [u8; 280] {
    let mut bytes = mad(attribute, number);
    let id_at = if attribute == SIDR_REP { 44 } else { 48 };
    bytes[id_at..id_at + 4].copy_from_slice(&(u32::from(part) << 25 | 0x0155_5555).to_be_bytes());
    bytes
}

/// A port that receives management datagrams.
pub(super) fn open_agent(address: IpAddr, part: u8) -> UdpPort {
    let mut port = open(address, part);
    port.open_general_services().expect("steered");
    port
}

/// The numbers of the packets that wait at the port, see [`waiting`].
fn numbers(port: &mut UdpPort, count: usize) -> Vec<u8> {
    waiting(port, count)
        .iter()
        .map(|(_, number)| *number)
        .collect()
}

fn assert_claimed(claim: Result<ServiceClaim, ClaimError>) {
    let error = claim.expect_err("somebody has it");
    assert!(matches!(error, ClaimError::Taken { .. }), "{error}");
}

#[test]
fn requests_reach_the_listener_and_replies_the_requester() {
    let (ipv6_address, _in_use) = ipv6_address();
    for address in [fresh_address(), ipv6_address] {
        let parts = [20, 21, 22];
        let mut ports = parts.map(|part| open_agent(address, part));
        ports[2]
            .serve(Addresses::from(None), SERVICE)
            .expect("steered");
        ports[1]
            .serve(Addresses::from(Some(address)), SERVICE + 1)
            .expect("steered");
        let elsewhere = IpAddr::from([10, 9, 8, 7]);
        ports[1]
            .serve(Addresses::from(Some(elsewhere)), SERVICE + 2)
            .expect("said");
        let from = sender(address);
        let send = |bytes: &[u8]| {
            from.send(bytes).expect("sent");
        };
        send(&request(REQ, SERVICE, 1));
        send(&request(SIDR_REQ, SERVICE, 2));
        send(&request(REQ, SERVICE + 1, 3));
        // No process serves these services, so the first agent receives the requests.
        send(&request(REQ, SERVICE + 2, 4));
        send(&request(REQ, SERVICE ^ 0x0017_0000, 5));
        send(&mad(0x1e, 6)[..0]);
        for (number, part) in (10..).zip(parts) {
            for (step, attribute) in (0..).zip([REJ, REP, DREQ, SIDR_REP]) {
                send(&reply(attribute, part, number + 10 * step));
            }
        }
        // A part that no process has.
        send(&reply(REP, 99, 7));
        // Packets to QPs are steered by their part.
        for part in parts {
            send(&packet(part, 60 + part));
        }
        assert_eq!(numbers(&mut ports[0], 7), [4, 5, 10, 20, 30, 40, 80]);
        assert_eq!(numbers(&mut ports[1], 6), [3, 11, 21, 31, 41, 81]);
        assert_eq!(numbers(&mut ports[2], 7), [1, 2, 12, 22, 32, 42, 82]);

        ports[2].stop_serving(Addresses::from(None), SERVICE);
        send(&request(REQ, SERVICE, 1));
        assert_eq!(numbers(&mut ports[0], 1), [1]);
        ports[0].close_general_services();
        send(&request(REQ, SERVICE, 2));
        assert_eq!(numbers(&mut ports[1], 1), [2]);
    }
}

/// A listener keeps its requests when a process joins that receives no management datagrams, even
/// if the address was not shared before.
#[test]
fn a_listener_keeps_its_requests_when_another_process_joins() {
    let address = fresh_address();
    let mut first = open_agent(address, 3);
    first
        .serve(Addresses::from(None), SERVICE)
        .expect("steered");
    let from = sender(address);
    from.send(&request(REQ, SERVICE, 1)).expect("sent");
    assert_eq!(numbers(&mut first, 1), [1]);
    let mut second = open(address, 1);
    for (number, service) in [(2, SERVICE), (3, SERVICE + 1)] {
        from.send(&request(REQ, service, number)).expect("sent");
    }
    assert_eq!(numbers(&mut first, 2), [2, 3]);
    assert_eq!(waiting(&mut second, 0), []);
    // An address that is added later is served, too.
    let later = fresh_address();
    let mut addresses = first.config().addresses.clone();
    addresses.push(later);
    first.set_addresses(addresses);
    first.activate(later).expect("free");
    let mut other = open_agent(later, 0);
    let from = sender(later);
    from.send(&request(REQ, SERVICE, 4)).expect("sent");
    from.send(&request(REQ, SERVICE + 1, 5)).expect("sent");
    assert_eq!(numbers(&mut first, 1), [4]);
    assert_eq!(numbers(&mut other, 1), [5]);
    drop((first, second, other));
    assert_nothing_left(address);
    assert_nothing_left(later);
}

#[test]
fn a_killed_listeners_service_is_free_and_others_receive_its_requests() {
    let address = fresh_address();
    let service = own_service(4);
    let killed = OtherProcess::listening(address, 0, service);
    let mut port = open_agent(address, 1);
    assert_claimed(ServiceClaim::take(Some(address), 1, service));
    assert_claimed(ServiceClaim::take(None, 1, service));
    let from = sender(address);
    from.send(&request(REQ, service, 1)).expect("sent");
    from.send(&request(REQ, service + 1, 2)).expect("sent");
    assert_eq!(
        numbers(&mut port, 0),
        [],
        "the other one is the first agent"
    );
    drop(killed);
    let claim = claim(Some(address), service);
    until("requests are steered past the dead", || {
        from.send(&request(REQ, service, 3)).expect("sent");
        from.send(&request(REQ, service + 1, 4)).expect("sent");
        let got = numbers(&mut port, 0);
        got.contains(&3) && got.contains(&4)
    });
    port.serve(Addresses::from(None), service).expect("steered");
    from.send(&request(REQ, service, 5)).expect("sent");
    assert_eq!(numbers(&mut port, 1), [5]);
    drop((port, claim));
    assert_nothing_left(address);
}

/// A service that other tests, including those of other processes, most likely do not claim: a
/// claim at all addresses conflicts with every other one.
fn own_service(number: u32) -> u32 {
    0x0106_0000 | (std::process::id() * 16 + number) & 0xffff
}

/// Claims a service that is free or will be: another test may be starting a process, which briefly
/// has a copy of all descriptors.
fn claim(address: Option<IpAddr>, service: u32) -> ServiceClaim {
    let mut claimed = None;
    until("it can be claimed", || {
        claimed = ServiceClaim::take(address, 1, service).ok();
        claimed.is_some()
    });
    claimed.expect("just now")
}

#[test]
fn a_service_belongs_to_one_process() {
    let (here, there) = (fresh_address(), fresh_address());
    let take = |address, service| ServiceClaim::take(address, 1, service);
    let service = own_service(1);
    let first = take(Some(here), service).expect("free");
    assert_claimed(take(Some(here), service));
    assert_claimed(take(None, service));
    let second = take(Some(there), service).expect("free at the other address");
    let third = take(Some(here), own_service(2)).expect("another service");
    drop(first);
    assert_claimed(take(None, service));
    drop(second);
    let everywhere = claim(None, service);
    for _ in 0..10 {
        assert_claimed(take(Some(here), service));
        assert_claimed(take(None, service));
    }
    drop((everywhere, third));
    drop(claim(Some(here), service));
}

/// The same service can be claimed once for IPv4 and once for IPv6.
#[test]
fn a_service_can_be_claimed_for_one_family() {
    let service = own_service(5);
    let v6 = IpAddr::from(std::net::Ipv6Addr::LOCALHOST);
    let v4 = fresh_address();
    let take = |at| ServiceClaim::take(at, 1, service);
    let [of_v4, of_v6] = [Addresses::V4, Addresses::V6].map(|at| take(at).expect("free"));
    for at in [
        Addresses::V4,
        Addresses::V6,
        Addresses::All,
        v4.into(),
        v6.into(),
    ] {
        assert_claimed(take(at));
    }
    let error = take(v4.into()).expect_err("taken").to_string();
    let expected = format!(
        "this process ({}) has it at {}",
        std::process::id(),
        Addresses::V4
    );
    assert_eq!(error, expected);
    drop(of_v4);
    until("it is free at addresses of IPv4", || {
        take(v4.into()).is_ok()
    });
    let at_one = claim(Some(v4), service);
    assert_claimed(take(Addresses::V4));
    assert_claimed(take(Addresses::All));
    // Only the claim for IPv6 is left.
    assert_claimed(take(v6.into()));
    drop(of_v6);
    until("it is free at addresses of IPv6", || {
        take(v6.into()).is_ok()
    });
    drop(at_one);
}

/// Several threads claim at once. At most one claim of a service succeeds.
#[test]
fn concurrent_claims_never_share_a_service() {
    let address = fresh_address();
    let service = own_service(3);
    for _ in 0..20 {
        let claims: Vec<_> = std::thread::scope(|scope| {
            let claim = |address| move || ServiceClaim::take(address, 1, service).ok();
            let threads = [Some(address), None, Some(address), None].map(claim);
            let threads: Vec<_> = threads.map(|claim| scope.spawn(claim)).into();
            let ended = threads.into_iter().map(|thread| thread.join());
            ended.map(|claim| claim.expect("no panic")).collect()
        });
        assert!(claims.iter().flatten().count() <= 1);
    }
    drop(claim(None, service));
}

/// A sender can't tell which process receives a management datagram, so each leaves in a datagram
/// of its own.
#[test]
fn management_datagrams_leave_in_separate_datagrams() {
    let (near, far) = (fresh_address(), fresh_address());
    let mut from = open(near, 0);
    let mut ports = [0, 1].map(|part| open_agent(far, part));
    ports[1]
        .serve(Addresses::from(None), SERVICE)
        .expect("steered");
    let to = support::to(near, far);
    for number in 0..6 {
        let bytes = request(REQ, SERVICE + u32::from(number % 2), number);
        let slot = from
            .reserve_run(&to, Flow::new(Qpn::QP0, Qpn::QP1), None, bytes.len(), 1)
            .expect("room");
        slot.bytes.copy_from_slice(&bytes);
        from.commit();
    }
    assert!(from.flush().expect("sent"));
    assert_eq!(from.counters().tx_datagrams, 6);
    assert_eq!(numbers(&mut ports[0], 3), [1, 3, 5]);
    assert_eq!(numbers(&mut ports[1], 3), [0, 2, 4]);
}

/// A process splits bundles that the kernel has joined. A request after the first packet may be for
/// any process, so this process must not reject it.
#[test]
fn requests_inside_a_bundle_are_dropped_and_stop_coalescing() {
    let address = fresh_address();
    let mut ports = [0, 1].map(|part| open_agent(address, part));
    ports[1]
        .serve(Addresses::from(None), SERVICE)
        .expect("steered");
    let from = sender(address);
    let bundle = [
        reply(REP, 0, 1),
        request(REQ, SERVICE, 2),
        reply(REP, 0, 3),
        reply(REP, 1, 4),
    ];
    bundles::send_in_one(&from, &bundle);
    assert_eq!(numbers(&mut ports[0], 2), [1, 3]);
    assert_eq!(ports[0].counters().rx_foreign, 2);
    // Now the kernel no longer joins them.
    let before = ports[0].counters().rx_bundles;
    bundles::send_in_one(&from, &bundle);
    waiting(&mut ports[0], 2);
    let after = ports[0].counters();
    assert!(after.rx_bundles > before + 1 && after.rx_foreign == 2);
}
