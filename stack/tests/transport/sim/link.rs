//! One direction of a faulty wire, in virtual time.

use super::port::Frame;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_stack::{Duration, Instant};
use roce_wire::{Bth, ExtHeaders, ICRC_LEN, Opcode, Packet, Psn};
use std::collections::BTreeMap;

/// The frequency of each fault, in packets of 10,000.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) drop: u32,
    pub(crate) duplicate: u32,
    /// Delayed by up to 20 times the latency, so that others overtake it.
    pub(crate) reorder: u32,
    /// One bit is flipped.
    pub(crate) corrupt: u32,
}

/// The action of a script on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Left to chance; without [`Faults`], the packet arrives.
    Pass,
    Drop,
    Delay(Duration),
    /// Arrives now and, as a stale copy, after this time once more.
    Echo(Duration),
}

/// A packet that was put on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) bth: Bth,
    pub(crate) ext: ExtHeaders,
    /// Payload length in bytes.
    pub(crate) len: usize,
}

impl Sent {
    pub(crate) fn opcode(&self) -> Opcode {
        self.bth.opcode
    }

    pub(crate) fn psn(&self) -> Psn {
        self.bth.psn
    }
}

type Script = Box<dyn FnMut(&Sent) -> Fate>;

pub(crate) struct Link {
    pub(crate) faults: Faults,
    pub(crate) latency: Duration,
    /// All packets that were sent, lost or not.
    pub(crate) log: Vec<Sent>,
    scripts: Vec<Script>,
    rng: ChaCha20Rng,
    in_flight: BTreeMap<(Instant, u64), Frame>,
    count: u64,
    traced: bool,
}

impl Link {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            faults: Faults::default(),
            latency: Duration::from_micros(2),
            log: Vec::new(),
            scripts: Vec::new(),
            rng: ChaCha20Rng::seed_from_u64(seed),
            in_flight: BTreeMap::new(),
            count: 0,
            traced: std::env::var_os("ROCE_TRACE").is_some(),
        }
    }

    /// Adds a script: the first that does not return [`Fate::Pass`] decides.
    pub(crate) fn script(&mut self, script: impl FnMut(&Sent) -> Fate + 'static) {
        self.scripts.push(Box::new(script));
    }

    /// Applies `fate` to the packets with these numbers (0 is the first) among those that satisfy
    /// `pred`.
    pub(crate) fn hit(
        &mut self,
        numbers: &'static [usize],
        fate: Fate,
        pred: impl Fn(&Sent) -> bool + 'static,
    ) {
        let mut seen = 0;
        self.script(move |sent| {
            if !pred(sent) {
                return Fate::Pass;
            }
            seen += 1;
            if numbers.contains(&(seen - 1)) {
                fate
            } else {
                Fate::Pass
            }
        });
    }

    /// Takes a packet.
    pub(crate) fn send(&mut self, now: Instant, frame: Frame) {
        let packet = Packet::parse(&frame.bytes).expect("the stack sends well-formed packets");
        let padding = usize::from(packet.bth.pad);
        let (padded, _icrc) = frame.bytes.split_at(frame.bytes.len() - ICRC_LEN);
        assert!(padded.iter().rev().take(padding).all(|byte| *byte == 0));
        let sent = Sent {
            at: now,
            bth: packet.bth,
            ext: packet.ext,
            len: packet.payload.len(),
        };
        self.log.push(sent);
        self.trace(&frame, &sent);
        let fate = self
            .scripts
            .iter_mut()
            .map(|script| script(&sent))
            .find(|fate| *fate != Fate::Pass);
        let mut delay = self.latency;
        match fate {
            Some(Fate::Drop) => return,
            Some(Fate::Delay(more)) => delay += more,
            Some(Fate::Echo(later)) => self.queue(now + delay + later, frame.clone()),
            Some(Fate::Pass) | None => return self.leave_to_chance(now, frame),
        }
        self.queue(now + delay, frame);
    }

    /// With `ROCE_TRACE` set, prints the packets that are sent.
    fn trace(&self, frame: &Frame, sent: &Sent) {
        if self.traced {
            let Sent { at, bth, ext, len } = sent;
            eprintln!(
                "{:>12} {} {:?} {} {len} bytes{} {:?} {:?}",
                at.as_nanos(),
                frame.meta.src,
                bth.psn,
                bth.opcode,
                if bth.ack_req { " A" } else { "" },
                ext.aeth.map(|aeth| aeth.syndrome),
                ext.reth.map(|reth| reth.dma_len),
            );
        }
    }

    fn leave_to_chance(&mut self, now: Instant, mut frame: Frame) {
        let Faults {
            drop,
            duplicate,
            reorder,
            corrupt,
        } = self.faults;
        if self.happens(drop) {
            return;
        }
        if self.happens(duplicate) {
            let delay = self.delay(reorder);
            self.queue(now + delay, frame.clone());
        }
        if self.happens(corrupt) {
            let bit = self.rng.next_u32() as usize % (frame.bytes.len() * 8);
            frame.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let delay = self.delay(reorder);
        self.queue(now + delay, frame);
    }

    fn delay(&mut self, reorder: u32) -> Duration {
        if self.happens(reorder) {
            self.latency * (2 + self.rng.next_u32() % 19)
        } else {
            self.latency
        }
    }

    fn happens(&mut self, in_10_000: u32) -> bool {
        in_10_000 > 0 && self.rng.next_u32() % 10_000 < in_10_000
    }

    /// Puts a packet on the wire as it is, to arrive at `at`.
    pub(crate) fn queue(&mut self, at: Instant, frame: Frame) {
        self.count += 1;
        self.in_flight.insert((at, self.count), frame);
    }

    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.keys().next().map(|(at, _)| *at)
    }

    /// Takes off a packet that has arrived by `now`.
    pub(crate) fn arrival(&mut self, now: Instant) -> Option<Frame> {
        let entry = self.in_flight.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    /// Packets sent since the log was cleared that satisfy `pred`.
    pub(crate) fn count(&self, pred: impl Fn(&Sent) -> bool) -> usize {
        self.log.iter().filter(|sent| pred(sent)).count()
    }
}
