//! Tests ports over veth pairs with neighbours, addresses and interfaces that come and go. These
//! tests need root.

mod support;

use roce_wire::Qpn;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

use roce_port::Port;
use roce_stack::{Flow, ReserveError, RxMeta, Transmit, TxMeta};
use roce_xdp::net::WaitDrop;
use roce_xdp::program::AttachMode;
use roce_xdp::{XdpPort, XdpPortConfig};
use support::ports::{Received, assert_no_chunk_is_lost, cross, drive, from_to, open, send};
use support::{bytes, wait_for};
use testkit::veth::Pair;

#[test]
fn packets_wait_for_a_neighbour_that_answers_late() {
    let Some(pair) = Pair::new_or_skip(4300, 1) else {
        return;
    };
    let mut near = open(&pair.near, 4300, 1, AttachMode::Auto);
    let mut far = open(&pair.far, 4300, 1, AttachMode::Auto);
    let late = IpAddr::from([10, 91, 0, 33]);
    let to = TxMeta {
        dst: late,
        ..from_to(&pair.near, &pair.far, false)
    };
    let sent: Vec<Received> = (0..10)
        .map(|number| send(&mut near, &to, &bytes(number, 4112)))
        .collect();
    assert_eq!((near.counters().tx_waited, near.queued()), (10, 10));
    pair.far.run("ip address add 10.91.0.33/24 dev far");
    far.activate(late).expect("its own by now");
    let mut received = VecDeque::new();
    wait_for("all packets", || {
        drive(&mut near, &mut far, &mut received);
        (received.len() >= sent.len()).then_some(())
    });
    assert!(received == sent, "as they were, and in order");
    assert_no_chunk_is_lost(&mut near);
}

#[test]
fn a_silent_neighbour_costs_only_its_own_packets() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    let mut far = open(&pair.far, 1500, 1, AttachMode::Auto);
    let nobody = TxMeta {
        dst: IpAddr::from([10, 91, 0, 77]),
        ..from_to(&pair.near, &pair.far, false)
    };
    // Send more packets than can wait for one neighbour.
    for number in 0..40 {
        send(&mut near, &nobody, &bytes(number, 100));
    }
    cross(&pair, &mut near, &mut far, &[100; 5]);
    let dropped = |port: &XdpPort| {
        let counters = port.each_counter();
        let of = |reason: WaitDrop| {
            counters
                .iter()
                .find(|(name, _)| *name == reason.name())
                .map_or(0, |(_, value)| *value)
        };
        WaitDrop::ALL.into_iter().map(of).sum::<u64>()
    };
    wait_for("the neighbour is given up", || {
        near.receive(1, &mut |_: &RxMeta, _: &[u8]| {})
            .expect("a port that works");
        (dropped(&near) == 40).then_some(())
    });
    assert_no_chunk_is_lost(&mut near);
}

#[test]
fn addresses_come_and_go() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    let mut far = open(&pair.far, 1500, 1, AttachMode::Auto);
    let new = IpAddr::from([10, 91, 0, 22]);
    pair.far.run("ip address add 10.91.0.22/24 dev far");
    far.activate(new).expect("its own by now");
    let to_new = TxMeta {
        dst: new,
        ..from_to(&pair.near, &pair.far, false)
    };
    let want = send(&mut near, &to_new, &bytes(1, 100));
    let mut received = VecDeque::new();
    wait_for("the packet", || {
        drive(&mut near, &mut far, &mut received);
        received.pop_front().filter(|got| *got == want)
    });
    far.take_changes();
    pair.far.run("ip address delete 10.91.0.22/24 dev far");
    wait_for("the news", || {
        drive(&mut near, &mut far, &mut received);
        far.take_changes().addresses.then_some(())
    });
    let from_new = TxMeta {
        src: new,
        ..from_to(&pair.far, &pair.near, false)
    };
    assert_eq!(
        far.reserve_run(&from_new, Flow::new(Qpn::QP0, Qpn::QP0), None, 100, 1)
            .err(),
        Some(ReserveError::Unsendable)
    );
}

#[test]
fn a_removed_interface_ends_the_port() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    assert!(
        near.fds().count() == 2
            && near
                .fds()
                .all(|fd| fd.fd.as_raw_fd() >= 0 && !fd.wants_write)
    );
    pair.near.run("ip link delete near");
    let error = wait_for("the end", || {
        near.receive(1, &mut |_: &RxMeta, _: &[u8]| {}).err()
    });
    assert!(error.to_string().contains("near"), "{error}");
}

#[test]
fn the_error_of_a_second_port_names_the_attached_program() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let first = open(&pair.near, 1500, 1, AttachMode::Auto);
    let config = || XdpPortConfig::new("near", pair.near.index(), 1500);
    let second = || pair.near.enter(|| XdpPort::open(config()));
    let error = second().err().expect("one is enough");
    assert!(error.to_string().contains("roce_redirect"), "{error}");
    drop(first);
    assert!(second().is_ok(), "it can be opened again at once");
}

/// Sockets are writable while the link is down, although no frame leaves. A driver that waited for
/// them would spin.
#[test]
fn no_descriptor_waits_to_write_while_the_link_is_down() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut near = open(&pair.near, 1500, 1, AttachMode::Auto);
    let mut far = open(&pair.far, 1500, 1, AttachMode::Auto);
    cross(&pair, &mut near, &mut far, &[64]);
    let waits = |port: &XdpPort| port.fds().any(|fd| fd.wants_write);
    let expected = send(&mut near, &from_to(&pair.near, &pair.far, false), &[7; 64]);
    pair.near.run("ip link set near down");
    near.flush().expect("it passes");
    assert!(near.queues()[0].has_queued() && waits(&near));
    near.follow_network().expect("the interface is there");
    assert!(near.queues()[0].has_queued() && !waits(&near));

    pair.near.run("ip link set near up");
    let mut received = VecDeque::new();
    wait_for("what was left", || {
        drive(&mut near, &mut far, &mut received);
        (!received.is_empty()).then_some(())
    });
    assert_eq!(received, [expected]);
}
