//! Events of the port, in a network namespace of the test's own. Needs root and iproute2.

use roce_verbs::datapath::{DatapathChoice, DatapathOptions};
use roce_verbs::device::{AsyncEvents, Event};
use roce_verbs::prelude::*;
use roce_verbs::settings::OpenOptions;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// The events are the same with every datapath.
const DATAPATHS: [DatapathChoice; 2] = [DatapathChoice::Udp, DatapathChoice::Xdp];

/// Runs `ip` in the calling thread's namespace.
fn ip(arguments: &str) {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .expect("iproute2 is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {said}");
}

/// Puts the calling thread into a network namespace with an interface `near0`, which has a link
/// while `far0` is up. Returns `false`, with a message, if that is not possible.
fn namespace() -> bool {
    if !testkit::enters_network_namespace_or_skip() {
        return false;
    }
    ip("link add near0 type veth peer name far0");
    for interface in ["near0", "far0"] {
        let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
        std::fs::write(path, "1").expect("no IPv6");
    }
    ip("address add 10.99.0.1/24 dev near0");
    ip("link set far0 up");
    ip("link set near0 up");
    wait_for_link();
    true
}

/// Waits until `near0` has its link. The kernel reports it a moment after both ends are up.
fn wait_for_link() {
    let end = Instant::now() + TIMEOUT;
    loop {
        let shown = Command::new("ip").args(["link", "show", "near0"]).output();
        let shown = shown.expect("iproute2 is installed").stdout;
        if String::from_utf8_lossy(&shown).contains("state UP") {
            return;
        }
        assert!(Instant::now() < end, "near0 has no link after {TIMEOUT:?}");
    }
}

fn open(datapath: DatapathChoice) -> (Context, AsyncEvents) {
    let options = DatapathOptions {
        datapath,
        ..DatapathOptions::default()
    };
    let device = Device::named("roce_near0").expect("the interface has an address");
    let context = OpenOptions::new()
        .datapath(options)
        .open(&device)
        .expect("opened");
    let events = context.async_events();
    (context, events)
}

#[track_caller]
fn expect(events: &AsyncEvents, expected: Event) {
    let event = events.wait(TIMEOUT).expect("waited");
    assert_eq!(event, Some(expected));
}

// shows: 11.6.3-port-events
#[test]
fn the_link_comes_and_goes() {
    DATAPATHS.into_iter().for_each(the_link_comes_and_goes_over);
}

fn the_link_comes_and_goes_over(datapath: DatapathChoice) {
    if !namespace() {
        return;
    }
    let (context, events) = open(datapath);
    assert!(context.device().is_running());
    for _ in 0..3 {
        ip("link set far0 down");
        expect(&events, Event::PortError);
        assert!(!context.device().is_running());
        ip("link set far0 up");
        expect(&events, Event::PortActive);
    }
    ip("link set near0 down");
    expect(&events, Event::PortError);
    assert_eq!(events.poll(), None, "its address stays");
}

// shows: 11.6.3-port-events, A17.4.3-gid-changes
// trap: gid-changes
#[test]
fn the_gids_follow_the_addresses() {
    DATAPATHS
        .into_iter()
        .for_each(the_gids_follow_the_addresses_over);
}

fn the_gids_follow_the_addresses_over(datapath: DatapathChoice) {
    if !namespace() {
        return;
    }
    let (context, events) = open(datapath);
    assert_eq!(context.gids().len(), 1);
    ip("address add 10.99.2.2/24 dev near0");
    expect(&events, Event::GidChange);
    assert_eq!(context.gids().len(), 2);
    // Changes of other interfaces raise no event.
    ip("address add 10.99.1.1/24 dev far0");
    let [first, second] = ["10.99.0.1", "10.99.2.2"].map(|a| a.parse().expect("valid"));
    let table = || -> Vec<(u8, IpAddr)> {
        let gids = context.gids();
        gids.iter().map(|e| (e.index, e.gid.ip())).collect()
    };
    assert_eq!(table(), [(0, first), (1, second)]);
    ip("address del 10.99.0.1/24 dev near0");
    expect(&events, Event::GidChange);
    assert_eq!(table(), [(1, second)], "it keeps its index");
    ip("link delete near0");
    // The kernel may remove them in any order.
    let mut gone = [(); 2].map(|()| events.wait(TIMEOUT).expect("waited"));
    gone.sort_by_key(|event| *event == Some(Event::PortError));
    assert_eq!(gone, [Some(Event::GidChange), Some(Event::PortError)]);
    assert_eq!(events.poll(), None);
}

#[test]
fn a_listener_at_all_addresses_listens_at_those_that_come_later() {
    if !namespace() {
        return;
    }
    // Two devices of a host meet on its loopback interface, which AF_XDP does not see.
    let (passive, events) = open(DatapathChoice::Udp);
    let all = Ipv4Addr::UNSPECIFIED;
    let listener = Listener::bind(&passive, (all, 0).into()).expect("a free port");
    // Added, removed, and added again.
    for step in ["add", "del", "add"] {
        ip(&format!("address {step} 10.99.2.2/24 dev near0"));
        expect(&events, Event::GidChange);
    }
    let remote = (Ipv4Addr::new(10, 99, 2, 2), listener.port()).into();
    let (active, _) = open(DatapathChoice::Udp);
    let connected = std::thread::scope(|scope| {
        let client = scope.spawn(move || {
            let (pd, cq) = (active.alloc_pd(), active.create_cq(1));
            let qp = pd.create_qp(&cq, &cq, &QpOptions::default());
            Connection::connect(qp.expect("a QP"), remote, &ConnectOptions::default(), b"")
        });
        let incoming = listener.accept_within(TIMEOUT).expect("a request");
        let (pd, cq) = (passive.alloc_pd(), passive.create_cq(1));
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default());
        let accepted = incoming.accept(qp.expect("a QP"), &ConnectOptions::default(), b"");
        accepted.expect("established");
        client.join().expect("no panic")
    });
    connected.expect("connected");
}

/// An application that drives the NIC itself gets the events, too.
#[test]
fn a_polling_application_gets_the_events() {
    DATAPATHS
        .into_iter()
        .for_each(a_polling_application_gets_the_events_over);
}

fn a_polling_application_gets_the_events_over(datapath: DatapathChoice) {
    if !namespace() {
        return;
    }
    let (context, events) = open(datapath);
    let cq = context.create_cq(1);
    ip("link set far0 down");
    let end = Instant::now() + TIMEOUT;
    let event = loop {
        assert!(cq.poll().expect("no overrun").is_none());
        match events.poll() {
            Some(event) => break event,
            None => assert!(Instant::now() < end, "no event"),
        }
    };
    assert_eq!(event, Event::PortError);
}
