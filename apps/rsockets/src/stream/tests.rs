//! The arithmetic of both ends of a stream, against a plain queue of bytes.

use super::inbox::{Grant, Inbox, Overrun};
use super::outbox::{CONTROL_SLOTS, Outbox};
use crate::wire::Element;
use std::collections::VecDeque;
use std::ops::Range;

/// Numbers that a seed determines (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// A message on its way to the receiver: the offset it was written to, and its length.
struct Written {
    place: usize,
    bytes: Vec<u8>,
}

/// Two ends, and what is between them.
struct Pair {
    outbox: Outbox,
    send_ring: Vec<u8>,
    inbox: Inbox,
    receive_ring: Vec<u8>,
    /// The places of the sender's list, as the receiver has written them.
    offers: [Option<Range<usize>>; 2],
    next_offered: usize,
    next_read: usize,
    travelling: VecDeque<Written>,
    /// The bytes that the receiver's program must get.
    expected: VecDeque<u8>,
    sent: usize,
}

impl Pair {
    fn new(half: usize, send_buffer: usize, slots: u16, credits: u16) -> Self {
        let room = Element {
            address: 0,
            key: 7,
            len: half as u32,
        };
        Self {
            outbox: Outbox::new(send_buffer, slots, credits, room),
            send_ring: vec![0; send_buffer],
            inbox: Inbox::new(half, credits),
            receive_ring: vec![0; 2 * half],
            offers: [None, None],
            next_offered: 1,
            next_read: 1,
            travelling: VecDeque::new(),
            expected: VecDeque::new(),
            sent: 0,
        }
    }

    /// Sends at most `len` bytes, whose values follow from their place in the stream.
    fn send(&mut self, len: usize, inline: usize) {
        if self.outbox.needs_room()
            && let Some(offer) = self.offers[self.next_read].take()
        {
            self.next_read ^= 1;
            self.outbox.set_room(Element {
                address: offer.start as u64,
                key: 7,
                len: offer.len() as u32,
            });
        }
        let Some(plan) = self.outbox.plan(len, inline) else {
            return;
        };
        let bytes: Vec<u8> = (self.sent..self.sent + plan.len)
            .map(|place| (place % 251) as u8)
            .collect();
        let [first, second] = plan.stretches.clone();
        let in_ring = first.len() + second.len();
        assert!(in_ring == plan.len || in_ring == 0 && plan.len <= inline);
        let sent = if in_ring == 0 {
            bytes.clone()
        } else {
            self.send_ring[first.clone()].copy_from_slice(&bytes[..first.len()]);
            self.send_ring[second.clone()].copy_from_slice(&bytes[first.len()..]);
            [&self.send_ring[first], &self.send_ring[second]].concat()
        };
        assert_eq!(plan.key, 7);
        self.travelling.push_back(Written {
            place: plan.address as usize,
            bytes: sent,
        });
        self.expected.extend(&bytes);
        self.sent += plan.len;
    }

    /// The oldest write arrives and is acknowledged.
    fn arrive(&mut self) {
        let Some(Written { place, bytes }) = self.travelling.pop_front() else {
            return;
        };
        self.receive_ring[place..place + bytes.len()].copy_from_slice(&bytes);
        self.inbox.announce(bytes.len()).expect("it was offered");
        self.outbox.complete();
    }

    /// The receiver's program takes at most `len` bytes.
    fn take(&mut self, len: usize) {
        let stretches = self.inbox.stretches(0, len);
        let got: Vec<u8> = stretches
            .iter()
            .flat_map(|stretch| &self.receive_ring[stretch.clone()])
            .copied()
            .collect();
        let expected: Vec<u8> = self.expected.drain(..got.len()).collect();
        assert_eq!(got, expected);
        self.inbox.take(got.len());
    }

    /// The receiver tells the sender what is new. This never overtakes what travels to the
    /// receiver in a way that matters, and it may be late.
    fn grant(&mut self) {
        while let Some(Grant { credits, room }) = self.inbox.grant() {
            if let Some(room) = room {
                let place = &mut self.offers[self.next_offered];
                assert!(place.is_none(), "the sender has not used the one before");
                *place = Some(room);
                self.next_offered ^= 1;
            }
            self.outbox.set_credits(credits);
        }
    }
}

#[test]
fn every_byte_arrives_once_and_in_order() {
    let seed = u64::from(std::process::id()) << 32 ^ 4791;
    println!("seed {seed}");
    let mut random = Random(seed);
    for _ in 0..200 {
        let half = 1 + random.below(300);
        let send_buffer = 1 + random.below(600);
        let slots = CONTROL_SLOTS + 1 + random.below(20) as u16;
        let credits = 1 + random.below(40) as u16;
        let mut pair = Pair::new(half, send_buffer, slots, credits);
        for _ in 0..3000 {
            match random.below(4) {
                0 => {
                    let (len, inline) = (1 + random.below(400), random.below(20));
                    pair.send(len, inline);
                }
                1 => pair.arrive(),
                2 => pair.take(random.below(400)),
                _ => pair.grant(),
            }
        }
        // Nothing is stuck: with everything delivered and taken, a byte can be sent again.
        for _ in 0..slots {
            pair.arrive();
        }
        for _ in 0..2 {
            pair.take(usize::MAX);
            pair.grant();
        }
        assert!(pair.expected.is_empty() && pair.outbox.is_idle());
        let before = pair.sent;
        pair.send(1, 0);
        assert_eq!(pair.sent, before + 1, "{pair:?}", pair = pair.outbox);
    }
}

/// Credits are counted modulo 2^16.
#[test]
fn a_stream_of_many_messages_goes_on() {
    let mut pair = Pair::new(1000, 1000, 20, 16);
    for _ in 0..200_000 {
        pair.send(1, 8);
        pair.arrive();
        pair.take(1);
        pair.grant();
    }
    assert_eq!(pair.sent, 200_000);
}

#[test]
fn a_peer_that_lies_about_lengths_is_found_out() {
    let mut inbox = Inbox::new(100, 4);
    inbox.announce(60).expect("offered");
    let too_long = inbox.announce(41);
    let (announced, offered) = (41, 40);
    assert_eq!(too_long, Err(Overrun::Bytes { announced, offered }));
    for _ in 0..3 {
        inbox.announce(1).expect("offered");
    }
    let too_many = inbox.announce(1);
    assert_eq!(too_many, Err(Overrun::Messages { credits: 4 }));
    assert_eq!(inbox.unread(), 63);
}

/// A message of no bytes needs nothing of the program, so its credit comes back immediately.
#[test]
fn messages_of_no_bytes_take_no_room() {
    let mut inbox = Inbox::new(100, 4);
    assert!(
        inbox
            .grant()
            .is_some_and(|grant| grant.room == Some(100..200))
    );
    for _ in 0..10 {
        inbox.announce(0).expect("no bytes");
    }
    let grant = inbox.grant().expect("credits");
    assert_eq!((grant.credits, grant.room), (14, None));
    assert_eq!(inbox.unread(), 0);
}

#[test]
fn messages_without_data_always_have_a_place() {
    let room = Element {
        address: 0,
        key: 0,
        len: 1000,
    };
    let mut outbox = Outbox::new(1000, CONTROL_SLOTS + 2, 100, room);
    assert!(outbox.plan(10, 0).is_some() && outbox.plan(10, 0).is_some());
    assert_eq!(outbox.plan(10, 0), None);
    for _ in 0..CONTROL_SLOTS {
        assert!(outbox.plan_control());
    }
    assert!(!outbox.plan_control());
    outbox.complete();
    assert!(!outbox.plan_control() && outbox.plan(10, 0).is_some());
}
