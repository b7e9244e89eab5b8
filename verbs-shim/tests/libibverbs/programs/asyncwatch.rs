//! `ibv_asyncwatch`, which prints the asynchronous events of a device until it is killed.

use roce_tests::veth::Pair;

use super::pair_for;
use super::place::Place;

/// It prints an event for each change of the interface.
fn watches(pair: &Pair, place: &Place<'_>) {
    let watch = place.start_alone("ibv_asyncwatch -d DEVICE");
    // Once it prints this, it has opened the device.
    watch.wait_for_line("roce_near: async event FD");
    let events = [
        ("address add 10.91.0.77/24 dev near", "GID_CHANGE (18)"),
        ("link set near down", "PORT_ERR (10)"),
        ("link set near up", "PORT_ACTIVE (9)"),
    ];
    for (cause, event) in events {
        pair.near.ip(cause).expect("ip(8) does it");
        watch.wait_for_line(&format!("event_type IBV_EVENT_{event}, port 1"));
    }
}

#[test]
fn asyncwatch_prints_what_happens_to_an_interface() {
    if let Some(pair) = pair_for("ibv_asyncwatch") {
        watches(&pair, &Place::cable(&pair, "udp"));
    }
}

#[test]
fn asyncwatch_prints_what_happens_to_an_interface_with_af_xdp() {
    if let Some(pair) = pair_for("ibv_asyncwatch") {
        watches(&pair, &Place::cable(&pair, "xdp"));
    }
}

/// The events of the loopback interface, which two programs watch at once.
#[test]
fn two_asyncwatches_on_one_host() {
    let Some(pair) = pair_for("ibv_asyncwatch") else {
        return;
    };
    let place = Place::loopback(&pair.near);
    let both = [(); 2].map(|()| place.start_alone("ibv_asyncwatch -d DEVICE"));
    for watch in &both {
        watch.wait_for_line("roce_lo: async event FD");
    }
    let cause = "address add 127.0.0.2/8 dev lo";
    pair.near.ip(cause).expect("ip(8) does it");
    for watch in &both {
        watch.wait_for_line("event_type IBV_EVENT_GID_CHANGE (18), port 1");
    }
}
