//! Rings, and what a hostile process at the other end can do to them.

mod doorbells;
mod offered;
mod ring;
mod ways;
mod wrong;

use crate::hostile::Hostile;
use crate::ring::{Label, MAX_PACKET_BYTES, Receiver, Sender};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd as _, OwnedFd};

const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

/// The two ends of a ring, and its file.
fn ends() -> (Sender, Receiver, OwnedFd) {
    let (sender, file) = Sender::create(SOURCE).expect("a ring");
    let receiver = Receiver::open(file.as_fd(), false).expect("a ring");
    (sender, receiver, file)
}

/// A receiver, and the hostile process that sends to it.
fn attacked() -> (Receiver, Hostile) {
    let (_, receiver, file) = ends();
    (receiver, Hostile::new(&file).expect("a ring"))
}

/// Sends a run of packets. Panics if there is no room.
fn send(sender: &mut Sender, len: usize, count: usize) {
    sender.reserve(Label::default(), len, count).expect("room");
    assert_eq!(sender.commit(), count);
    sender.show();
}

/// Takes all packets. Returns their lengths, and whether the ring is still usable.
fn take(receiver: &mut Receiver) -> (Vec<usize>, bool) {
    let mut lengths = Vec::new();
    let mut room = vec![0; MAX_PACKET_BYTES];
    let taken = receiver.take(usize::MAX, &mut room, |_, _, packet| {
        lengths.push(packet.len())
    });
    (lengths, taken.is_ok())
}
