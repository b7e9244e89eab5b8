//! Two NICs and a wire with a rate, a latency and random loss, in virtual time. A run is a function
//! of its seed only.

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use roce_port::MemoryPort;
use roce_port::memory::{Frame, MemoryIp};
use roce_stack::{
    Duration, Flow, Instant, Nic, NicConfig, ReserveError, Sequenced, Transmit, TxMeta, TxSlot,
};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

/// The parameters of a wire.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Bits per second, of whole Ethernet frames including preamble and gap.
    pub bits_per_sec: u64,
    /// From the last bit sent to the last bit received.
    pub latency: Duration,
    /// The probability that a packet is lost, each on its own, in either direction.
    pub loss: f64,
    /// Maximum number of packets in the transmit queue.
    pub queue: usize,
}

/// Overhead around the transport packet, in bytes: IPv4 and UDP headers, Ethernet header and FCS,
/// preamble, gap.
const AROUND: u64 = 20 + 8 + 14 + 4 + 8 + 12;

/// One end's transmit side: its packets, each with its arrival time.
#[derive(Debug)]
pub struct WirePort {
    wire: Wire,
    rng: ChaCha20Rng,
    now: Instant,
    /// When all queued packets will have left.
    free_at: Instant,
    under_way: VecDeque<(Instant, Frame)>,
    memory: MemoryPort,
}

impl WirePort {
    fn new(wire: Wire, seed: u64) -> Self {
        Self {
            wire,
            rng: ChaCha20Rng::seed_from_u64(seed),
            now: Instant::ZERO,
            free_at: Instant::ZERO,
            under_way: VecDeque::new(),
            memory: MemoryPort::new(MemoryIp::V4, 4200),
        }
    }

    fn time_on_wire(&self, bytes: usize) -> Duration {
        let bits = (bytes as u64 + AROUND) * 8;
        Duration::from_nanos(bits * 1_000_000_000 / self.wire.bits_per_sec)
    }

    /// The time until all queued packets have left.
    fn backlog(&self) -> Duration {
        self.free_at.saturating_duration_since(self.now)
    }

    fn is_full(&self) -> bool {
        let packet = self.time_on_wire(4096 + 16);
        self.backlog() >= packet * u32::try_from(self.wire.queue).unwrap_or(u32::MAX)
    }

    /// When the queue will have room again.
    fn room_at(&self) -> Instant {
        self.now + self.time_on_wire(4096 + 16)
    }

    fn is_lost(&mut self) -> bool {
        (self.rng.next_u32() as f64) < self.wire.loss * 4_294_967_296.0
    }
}

impl Transmit for WirePort {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        _count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        if self.is_full() {
            return Err(ReserveError::Full);
        }
        self.memory.reserve_run(to, flow, sequenced, len, 1)
    }

    fn commit(&mut self) {
        self.memory.commit();
        while let Some(frame) = self.memory.out.pop() {
            self.free_at = self.free_at.max(self.now) + self.time_on_wire(frame.bytes.len());
            if self.is_lost() {
                self.memory.recycle(frame.bytes);
            } else {
                let arrives = self.free_at + self.wire.latency;
                self.under_way.push_back((arrives, frame));
            }
        }
    }
}

/// One end.
#[derive(Debug)]
pub struct End {
    /// Its NIC.
    pub nic: Nic,
    /// Its transmit side.
    pub port: WirePort,
    /// Its address.
    pub address: IpAddr,
}

/// Two ends and the wire between them.
#[derive(Debug)]
pub struct Fabric {
    /// The ends.
    pub ends: [End; 2],
    /// The time.
    pub now: Instant,
}

impl Fabric {
    /// Two NICs with at most `window_bytes` in flight per QP.
    pub fn new(wire: Wire, window_bytes: usize, seed: u64) -> Self {
        let end = |n: u8| {
            let mut nic_seed = [n; 32];
            nic_seed[..8].copy_from_slice(&seed.to_le_bytes());
            End {
                nic: Nic::new(&NicConfig {
                    seed: nic_seed,
                    max_packet_bytes: 4200,
                    window_bytes,
                }),
                port: WirePort::new(wire, seed * 2 + u64::from(n)),
                address: Ipv4Addr::new(10, 0, 0, 1 + n).into(),
            }
        };
        Self {
            ends: [end(0), end(1)],
            now: Instant::ZERO,
        }
    }

    /// Lets both ends send, then advances to the next event. Returns false if there is none.
    pub fn step(&mut self) -> bool {
        let mut next: Option<Instant> = None;
        let mut sooner = |at: Option<Instant>| next = next.into_iter().chain(at).min();
        for End { nic, port, .. } in &mut self.ends {
            port.now = self.now;
            while nic.wants_to_send() && !port.is_full() {
                nic.transmit(self.now, port);
            }
            sooner(nic.wants_to_send().then(|| port.room_at()));
            sooner(nic.next_timeout());
            sooner(port.under_way.front().map(|(at, ..)| *at));
        }
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        for from in [0, 1] {
            while let Some((at, ..)) = self.ends[from].port.under_way.front()
                && *at <= self.now
                && let Some((_, frame)) = self.ends[from].port.under_way.pop_front()
            {
                self.ends[1 - from]
                    .nic
                    .receive(self.now, &frame.meta, &frame.bytes);
                self.ends[from].port.memory.recycle(frame.bytes);
            }
        }
        for end in &mut self.ends {
            end.nic.handle_timeouts(self.now);
            while end.nic.poll_event().is_some() {}
        }
        true
    }
}
