//! Classifies the packets of a flow as new, retransmitted or missing, from their PSNs alone.

use roce_wire::{Opcode, Operation, PathMtu, Position, Psn, Reth};

/// A jump by at least this many PSNs, forward or back, counts as another connection of the same
/// queue pair rather than as loss.
const MAX_JUMP: u32 = 1 << 16;

/// The most gaps to remember for each direction. Beyond that, the oldest are forgotten.
const MAX_GAPS: usize = 32;

/// The place of a packet's PSN in its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The packet is in order, or follows a gap of `missing` PSNs.
    New { missing: u32 },
    /// The packet fills `found` PSNs of a gap.
    Late { found: u32 },
    /// The packet was seen before.
    Retransmitted,
    /// The PSN is far from all earlier ones.
    Restart,
}

/// PSNs that were skipped: the start and length of each gap.
#[derive(Clone, Debug, Default)]
struct Gaps(Vec<(Psn, u32)>);

impl Gaps {
    fn add(&mut self, start: Psn, len: u32) {
        if self.0.len() == MAX_GAPS {
            self.0.remove(0);
        }
        self.0.push((start, len));
    }

    /// Classifies a packet that takes `count` PSNs starting at `psn` and arrives after later ones.
    fn late_or_retransmitted(&mut self, psn: Psn, count: u32) -> Arrival {
        match self.fill(psn, count) {
            0 => Arrival::Retransmitted,
            found => Arrival::Late { found },
        }
    }

    /// Removes up to `count` PSNs starting at `psn` from the gap that contains `psn`. Returns the
    /// number removed; 0 if no gap contains it.
    fn fill(&mut self, psn: Psn, count: u32) -> u32 {
        let offset_in = |&(start, len): &(Psn, u32)| {
            let offset = u32::try_from(psn.diff(start)).ok()?;
            (offset < len).then_some(offset)
        };
        let mut gaps = self.0.iter().enumerate();
        let Some((at, offset)) = gaps.find_map(|(at, gap)| Some((at, offset_in(gap)?))) else {
            return 0;
        };
        let (start, len) = self.0.remove(at);
        let filled = count.min(len - offset);
        let after = len - offset - filled;
        if after > 0 {
            self.0.insert(at, (psn + filled, after));
        }
        if offset > 0 {
            self.0.insert(at, (start, offset));
        }
        self.0.truncate(MAX_GAPS);
        filled
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    state: Option<RequestState>,
    gaps: Gaps,
    /// The path MTU, once a packet of full size was seen.
    mtu: Option<PathMtu>,
}

#[derive(Clone, Copy, Debug)]
struct RequestState {
    /// The first PSN of the sequence.
    first: Psn,
    /// The PSN of the latest request.
    latest: Psn,
    /// The number of bytes that it reads; `None` unless it is an RDMA READ, which takes as many
    /// PSNs as its response has packets (IBTA 1.7, 9.7.3.1).
    reads: Option<u32>,
}

impl Requests {
    /// Sets the path MTU, which the responses in the other direction show.
    pub(super) fn learn_mtu(&mut self, mtu: Option<PathMtu>) {
        self.mtu = mtu.or(self.mtu);
    }

    /// Processes a request.
    pub(super) fn arrive(
        &mut self,
        psn: Psn,
        opcode: Opcode,
        reth: Option<Reth>,
        payload_len: usize,
    ) -> Arrival {
        if matches!(opcode.position(), Position::First | Position::Middle) {
            self.mtu = PathMtu::from_bytes(payload_len).or(self.mtu);
        }
        let reads = match (opcode.operation(), reth) {
            (Operation::ReadRequest, Some(reth)) => Some(reth.dma_len),
            _ => None,
        };
        let Some(state) = &mut self.state else {
            self.state = Some(RequestState {
                first: psn,
                latest: psn,
                reads,
            });
            return Arrival::New { missing: 0 };
        };
        let ahead = psn.diff(state.latest);
        if ahead.unsigned_abs() > MAX_JUMP && !state.admits(ahead, self.mtu) {
            *self = Requests::default();
            self.arrive(psn, opcode, reth, payload_len);
            return Arrival::Restart;
        }
        let Ok(ahead @ 1..) = u32::try_from(ahead) else {
            let taken = match (reads, self.mtu) {
                (Some(len), Some(mtu)) => packets(len, mtu),
                _ => 1,
            };
            return self.gaps.late_or_retransmitted(psn, taken);
        };
        // A requester that lacks part of an RDMA READ response requests the rest, from the first
        // missing PSN on.
        if reads.is_some() && state.is_inside(ahead, self.mtu) {
            return Arrival::Retransmitted;
        }
        let missing = state.missing(ahead, self.mtu);
        if missing > 0 {
            self.gaps.add(psn.back(missing), missing);
        }
        state.latest = psn;
        state.reads = reads;
        Arrival::New { missing }
    }

    /// Whether these requests took `psn`, shortly before the latest.
    pub(super) fn covers(&self, psn: Psn) -> bool {
        self.state.is_some_and(|state| {
            let behind = state.latest.diff(psn);
            let since_first = psn.diff(state.first);
            match state.reads {
                _ if behind >= 0 => since_first >= 0 && behind.unsigned_abs() <= MAX_JUMP,
                Some(len) => behind.unsigned_abs() < packets(len, PathMtu::Mtu256),
                None => false,
            }
        })
    }
}

impl RequestState {
    /// The number of PSNs between the latest request and one `ahead` of it that belong to neither.
    fn missing(&self, ahead: u32, mtu: Option<PathMtu>) -> u32 {
        let Some(len) = self.reads else {
            return ahead - 1;
        };
        let taken = |mtu| packets(len, mtu);
        match mtu {
            Some(mtu) => ahead.saturating_sub(taken(mtu)),
            // Any MTU that makes it fit, or else the one with the fewest missing PSNs.
            None if PathMtu::ALL.iter().any(|&mtu| taken(mtu) == ahead) => 0,
            None => ahead.saturating_sub(taken(PathMtu::Mtu256)),
        }
    }

    /// Whether a request far `ahead` of the latest may still be the next one.
    fn admits(&self, ahead: i32, mtu: Option<PathMtu>) -> bool {
        u32::try_from(ahead).is_ok_and(|ahead| ahead > 0 && self.missing(ahead, mtu) == 0)
    }

    /// Whether a request `ahead` of the latest, which is an RDMA READ, asks for its remainder.
    fn is_inside(&self, ahead: u32, mtu: Option<PathMtu>) -> bool {
        match (self.reads, mtu) {
            (Some(len), Some(mtu)) => ahead < packets(len, mtu),
            _ => false,
        }
    }
}

/// The number of PSNs that an RDMA READ of `len` bytes takes.
fn packets(len: u32, mtu: PathMtu) -> u32 {
    len.div_ceil(mtu.bytes() as u32).max(1)
}

/// The RDMA READ responses of a flow. Acknowledgements between them have PSNs of other requests, so
/// gaps are visible only within a message.
#[derive(Clone, Debug, Default)]
pub(super) struct Responses {
    next: Option<Psn>,
    gaps: Gaps,
    /// The path MTU, once a packet of full size was seen.
    pub(super) mtu: Option<PathMtu>,
}

impl Responses {
    /// Processes a packet of an RDMA READ response.
    pub(super) fn arrive(&mut self, psn: Psn, position: Position, payload_len: usize) -> Arrival {
        if matches!(position, Position::First | Position::Middle) {
            self.mtu = PathMtu::from_bytes(payload_len).or(self.mtu);
        }
        let ahead = self.next.map_or(0, |next| psn.diff(next));
        let starts = matches!(position, Position::First | Position::Only);
        match u32::try_from(ahead) {
            Ok(missing) => {
                self.next = Some(psn.next());
                if starts {
                    return Arrival::New { missing: 0 };
                }
                if missing > MAX_JUMP {
                    return Arrival::Restart;
                }
                if missing > 0 {
                    self.gaps.add(psn.back(missing), missing);
                }
                Arrival::New { missing }
            }
            Err(_) if ahead.unsigned_abs() > MAX_JUMP => {
                self.next = Some(psn.next());
                Arrival::Restart
            }
            Err(_) => self.gaps.late_or_retransmitted(psn, 1),
        }
    }
}
