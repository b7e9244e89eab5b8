//! The two ends of a ring that keep to the protocol.

use super::{ends, send, take};
use crate::ring::{Label, MAX_PACKET_BYTES, NoRoom, Receiver, Sender};
use std::collections::VecDeque;
use testkit::{Dice, seed};

/// Two ends, and the packets between them: pieces of `noise`.
struct Exchange {
    dice: Dice,
    noise: Vec<u8>,
    sender: Sender,
    receiver: Receiver,
    /// Of each packet: label, index in its record, place in `noise`, length.
    under_way: VecDeque<(Label, u16, usize, usize)>,
    committed: u64,
}

impl Exchange {
    fn new() -> Self {
        let mut dice = Dice::new(seed());
        let mut noise = vec![0; 2 * MAX_PACKET_BYTES];
        dice.fill(&mut noise);
        let (sender, receiver, _) = ends();
        Self {
            dice,
            noise,
            sender,
            receiver,
            under_way: VecDeque::new(),
            committed: 0,
        }
    }

    /// Sends at most `count` packets, once there is room for one.
    fn send(&mut self, len: usize, count: usize) {
        let label = Label {
            src_port: self.dice.number() as u16,
            traffic_class: self.dice.byte(),
            has_icrc: self.dice.one_in(2),
        };
        while let Err(why) = self.sender.reserve(label, len, count) {
            assert_eq!(why, NoRoom::Full);
            self.sender.show();
            assert!(self.take() > 0, "a full ring has packets");
        }
        let room = self.sender.room();
        let packets = room.len() / len;
        assert!((1..=count).contains(&packets) && room.len().is_multiple_of(len));
        for (index, packet) in room.chunks_exact_mut(len).enumerate() {
            let from = self.dice.below(self.noise.len() - len);
            packet.copy_from_slice(&self.noise[from..][..len]);
            self.under_way.push_back((label, index as u16, from, len));
        }
        assert_eq!(self.sender.commit(), packets);
        self.committed += (packets * len) as u64;
        if self.dice.one_in(3) {
            self.sender.show();
        }
    }

    /// Takes some packets, and checks them. Returns their number.
    fn take(&mut self) -> usize {
        let budget = 1 + self.dice.below(100);
        let mut room = vec![0; MAX_PACKET_BYTES];
        let (noise, under_way) = (&self.noise, &mut self.under_way);
        let taken = self
            .receiver
            .take(budget, &mut room, |label, index, packet| {
                let (expected, at, from, len) = under_way.pop_front().expect("it was sent");
                assert_eq!((label, index), (expected, at));
                assert!(packet == &noise[from..][..len], "packet of {len} bytes");
            });
        taken.expect("the sender keeps to the protocol")
    }

    fn take_all(&mut self) {
        self.sender.show();
        while self.take() > 0 {}
        assert!(self.under_way.is_empty());
    }
}

#[test]
fn packets_of_every_length_arrive_bit_for_bit() {
    let mut exchange = Exchange::new();
    for len in 1..=MAX_PACKET_BYTES {
        let count = 1 + exchange.dice.below(4);
        exchange.send(len, count);
        if exchange.dice.one_in(16) {
            exchange.take();
        }
    }
    exchange.take_all();
    // The packets fill the ring many times, so some of them lie across its end.
    assert!(exchange.committed > 32 << 20);
}

#[test]
fn runs_of_every_kind_arrive_bit_for_bit() {
    let mut exchange = Exchange::new();
    for _ in 0..4000 {
        let len = match exchange.dice.below(3) {
            0 => 1 + exchange.dice.below(80),
            1 => 1 + exchange.dice.below(1100),
            _ => 1 + exchange.dice.below(MAX_PACKET_BYTES),
        };
        let count = 1 + exchange.dice.below(9000);
        exchange.send(len, count);
        if exchange.dice.one_in(8) {
            exchange.take();
        }
    }
    exchange.take_all();
}

#[test]
fn packets_that_are_too_long_or_empty_have_no_room() {
    let (mut sender, mut receiver, _) = ends();
    for len in [0, MAX_PACKET_BYTES + 1, usize::MAX] {
        assert_eq!(
            sender.reserve(Label::default(), len, 1),
            Err(NoRoom::Broken)
        );
        assert_eq!((sender.room().len(), sender.commit()), (0, 0));
    }
    sender.show();
    assert_eq!(take(&mut receiver), (vec![], true));
}

/// Fills the ring with packets of `len` bytes. Returns their number.
fn fill(sender: &mut Sender, len: usize) -> usize {
    let mut packets = 0;
    loop {
        match sender.reserve(Label::default(), len, 1) {
            Ok(()) => packets += sender.commit(),
            Err(why) => {
                assert_eq!(why, NoRoom::Full);
                sender.show();
                return packets;
            }
        }
    }
}

#[test]
fn a_full_ring_goes_on_when_the_receiver_takes() {
    let (mut sender, mut receiver, _) = ends();
    for len in [16, 48, 49, 1000, 4096, MAX_PACKET_BYTES] {
        let packets = fill(&mut sender, len);
        assert!(packets > 50);
        let mut room = vec![0; MAX_PACKET_BYTES];
        let taken = receiver.take(1, &mut room, |_, _, _| {});
        assert_eq!(taken, Ok(1));
        // There is room for one packet, even if more are asked for.
        sender.reserve(Label::default(), len, 9).expect("room");
        assert_eq!((sender.room().len(), sender.commit()), (len, 1));
        assert_eq!(sender.reserve(Label::default(), len, 1), Err(NoRoom::Full));
        sender.show();
        assert_eq!(take(&mut receiver), (vec![len; packets], true));
    }
}

#[test]
fn the_receiver_sees_what_the_sender_shows() {
    let (mut sender, mut receiver, _) = ends();
    sender.reserve(Label::default(), 100, 1).expect("room");
    sender.commit();
    assert_eq!(take(&mut receiver), (vec![], true));
    sender.show();
    assert_eq!(take(&mut receiver), (vec![100], true));
}

#[test]
fn a_dropped_receiver_closes_the_ring() {
    let (mut sender, receiver, _) = ends();
    send(&mut sender, 100, 3);
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    // The memory is still the sender's.
    fill(&mut sender, 4096);
}
