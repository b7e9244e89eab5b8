//! Frames that wait for their next hop's Ethernet address.

use std::collections::VecDeque;
use std::net::IpAddr;

use roce_stack::{Duration, Instant};

use super::core::Resolution;
use super::facts::Mac;
use super::reasons::WaitDrop;

/// The maximum number of frames that wait for one next hop.
pub const MAX_WAITING_PER_HOP: usize = 16;

/// The maximum number of frames that wait for all next hops together.
pub const MAX_WAITING: usize = 256;

/// The maximum time that a frame waits. It equals the time that the kernel spends on resolving a
/// neighbour: three attempts, one second apart. By then, the transport has retransmitted the
/// packet.
pub const MAX_WAIT: Duration = Duration::from_secs(3);

/// Frames that wait. The owner chooses the value that identifies a frame, such as the chunk that
/// holds it. The ICRC does not cover Ethernet addresses, so the missing address can be filled in
/// later: [`Template::readdress`](super::Template::readdress).
///
/// The bounds are fixed: [`MAX_WAITING_PER_HOP`], [`MAX_WAITING`] and [`MAX_WAIT`]. Every held
/// frame is returned exactly once, either to be sent or with the reason to drop it.
#[derive(Debug)]
pub struct Waiting<T> {
    frames: VecDeque<Frame<T>>,
    dropped: [u64; WaitDrop::ALL.len()],
}

#[derive(Debug)]
struct Frame<T> {
    hop: IpAddr,
    since: Instant,
    frame: T,
}

/// What to do with a frame that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Send it to this Ethernet address.
    Send(Mac),
    /// Drop it. The drop is already counted.
    Drop(WaitDrop),
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Waiting {
            frames: VecDeque::new(),
            dropped: Default::default(),
        }
    }
}

impl<T> Waiting<T> {
    /// Adds a frame that waits for `hop`. If `hop` then has too many frames, removes and returns
    /// the oldest of them. If all next hops together have too many, removes and returns the oldest
    /// frame of all. The caller drops the returned frame.
    #[must_use]
    pub fn hold(&mut self, hop: IpAddr, now: Instant, frame: T) -> Option<T> {
        let same = |waiting: &&Frame<T>| waiting.hop == hop;
        let overflow = if self.frames.iter().filter(same).count() >= MAX_WAITING_PER_HOP {
            self.frames.iter().position(|waiting| waiting.hop == hop)
        } else {
            (self.frames.len() >= MAX_WAITING).then_some(0)
        };
        let dropped = overflow.and_then(|at| self.frames.remove(at));
        if dropped.is_some() {
            self.count(WaitDrop::Overflow);
        }
        let since = now;
        self.frames.push_back(Frame { hop, since, frame });
        dropped.map(|waiting| waiting.frame)
    }

    /// Releases the frames whose next hop is resolved or does not answer, in order of arrival, and
    /// those that waited too long. `resolution` returns the state of a next hop. Call it after
    /// every change of neighbours, and at [`Waiting::next_deadline`].
    pub fn release(
        &mut self,
        now: Instant,
        resolution: impl Fn(IpAddr) -> Resolution,
        mut each: impl FnMut(T, Outcome),
    ) {
        for _ in 0..self.frames.len() {
            let Some(waiting) = self.frames.pop_front() else {
                return;
            };
            let outcome = match resolution(waiting.hop) {
                Resolution::Known(mac) => Outcome::Send(mac),
                Resolution::Failed => Outcome::Drop(WaitDrop::HostUnreachable),
                Resolution::Pending if now.saturating_duration_since(waiting.since) >= MAX_WAIT => {
                    Outcome::Drop(WaitDrop::TooLate)
                }
                Resolution::Pending => {
                    self.frames.push_back(waiting);
                    continue;
                }
            };
            if let Outcome::Drop(reason) = outcome {
                self.count(reason);
            }
            each(waiting.frame, outcome);
        }
    }

    /// The time at which the oldest frame reaches [`MAX_WAIT`].
    pub fn next_deadline(&self) -> Option<Instant> {
        self.frames.front().map(|oldest| oldest.since + MAX_WAIT)
    }

    /// The number of waiting frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no frame waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// The number of frames dropped for `reason`.
    pub fn dropped(&self, reason: WaitDrop) -> u64 {
        self.dropped[reason as usize]
    }

    fn count(&mut self, reason: WaitDrop) {
        self.dropped[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests;
