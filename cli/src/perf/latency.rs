//! Latency: one message at a time.

use super::control::Phase;
use super::end::{End, PEER_TIMEOUT, check, peer_silent};
use super::op::Op;
use crate::error::Error;
use hdrhistogram::Histogram;
use roce_verbs::completion::WcOpcode;
use roce_verbs::{Completion, RemoteAddr, SendOp, SendRequest};
use std::time::Instant;

/// Latencies in nanoseconds, up to a minute.
pub(super) type Latencies = Histogram<u64>;

/// Runs the client's side. For SEND and WRITE, measures half of each round trip; for the others,
/// the whole operation.
pub(super) fn client(end: &End, phase: Phase, remote: RemoteAddr) -> Result<Latencies, Error> {
    let mut latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3)
        .map_err(|e| Error::new(format_args!("latency histogram: {e}")))?;
    let mut echo = Echo::new(end, phase, remote);
    if phase.op == Op::Send {
        end.post_recv(0, phase.size)?;
    }
    let warm_up = warm_up(&phase);
    for i in 0..warm_up + phase.iterations {
        let start = Instant::now();
        match phase.op {
            Op::Send | Op::Write => {
                echo.send(i)?;
                echo.receive(i)?;
            }
            _ => echo.fetch(i)?,
        }
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let parts = if matches!(phase.op, Op::Send | Op::Write) {
            2
        } else {
            1
        };
        if i >= warm_up {
            latencies.saturating_record(ns / parts);
        }
    }
    echo.drain()?;
    Ok(latencies)
}

/// Runs the server's side: answers each message. READ and atomics need no work by the server.
pub(super) fn serve(end: &End, phase: Phase, remote: RemoteAddr) -> Result<(), Error> {
    let mut echo = Echo::new(end, phase, remote);
    let warm_up = warm_up(&phase);
    for i in 0..warm_up + phase.iterations {
        echo.receive(i)?;
        echo.send(i)?;
    }
    echo.drain()
}

/// The number of warm-up iterations, a tenth, which are not counted.
fn warm_up(phase: &Phase) -> u32 {
    (phase.iterations / 10).max(1)
}

/// One side of a ping-pong.
struct Echo<'a> {
    end: &'a End,
    phase: Phase,
    remote: RemoteAddr,
    /// The number of messages sent, and of those known to have completed.
    posted: u64,
    completed: u64,
    received: u64,
}

/// The last byte of the message of iteration `i`, which differs from the one before.
fn mark(i: u32) -> u8 {
    (i % 255) as u8 + 1
}

impl<'a> Echo<'a> {
    fn new(end: &'a End, phase: Phase, remote: RemoteAddr) -> Self {
        Self {
            end,
            phase,
            remote,
            posted: 0,
            completed: 0,
            received: 0,
        }
    }

    /// Sends the message of iteration `i`.
    fn send(&mut self, i: u32) -> Result<(), Error> {
        let size = self.phase.size;
        // Incoming messages use the first slot, outgoing ones the second.
        let from = super::pattern::stride(size);
        self.end.region.write(from + size - 1, &[mark(i)])?;
        let op = match self.phase.op {
            Op::Write => SendOp::Write(self.remote),
            _ => SendOp::Send,
        };
        while self.posted - self.completed >= self.end.depth as u64 {
            let completion = self.end.next()?;
            self.count_completion(completion);
        }
        let sge = self.end.region.slice(from, size)?;
        let is_last = i + 1 == warm_up(&self.phase) + self.phase.iterations;
        let signals = is_last || (i + 1).is_multiple_of(self.phase.signal_every.max(1));
        let request = SendRequest::new(u64::from(i), op, sge).signaled(signals);
        self.end.qp.post_send(&request)?;
        self.posted += 1;
        if self.phase.watch_memory && signals {
            self.drain()?;
        }
        Ok(())
    }

    /// Waits for the message of iteration `i`.
    fn receive(&mut self, i: u32) -> Result<(), Error> {
        match self.phase.op {
            Op::Write => self.poll_memory(mark(i)),
            _ => {
                while self.received <= u64::from(i) {
                    let completion = self.end.next()?;
                    self.count_completion(completion);
                }
                self.end.post_recv(0, self.phase.size)
            }
        }
    }

    /// Polls the last byte of the buffer. Meanwhile polls the CQ, which drives the NIC, unless
    /// `watch_memory` is set.
    fn poll_memory(&mut self, mark: u8) -> Result<(), Error> {
        let last = self.phase.size - 1;
        let mut deadline = None;
        loop {
            for _ in 0..256 {
                if self.end.region.load_u8(last)? == mark {
                    return Ok(());
                }
                if self.phase.watch_memory {
                    std::hint::spin_loop();
                } else if let Some(completion) = self.end.cq.poll()? {
                    self.count_completion(check(completion)?);
                }
            }
            let now = Instant::now();
            if now > *deadline.get_or_insert(now + PEER_TIMEOUT) {
                return Err(peer_silent());
            }
        }
    }

    /// Performs one fetch.
    fn fetch(&mut self, i: u32) -> Result<(), Error> {
        let op = match self.phase.op {
            Op::Read => SendOp::Read(self.remote),
            Op::Cas => SendOp::CompareSwap {
                remote: self.remote,
                compare: 0,
                swap: 0,
            },
            _ => SendOp::FetchAdd {
                remote: self.remote,
                add: 1,
            },
        };
        let sge = self.end.region.slice(0, self.phase.size)?;
        self.end
            .qp
            .post_send(&SendRequest::new(u64::from(i), op, sge))?;
        self.end.next()?;
        Ok(())
    }

    /// Waits until all sent messages have completed.
    fn drain(&mut self) -> Result<(), Error> {
        while self.completed < self.posted {
            let completion = self.end.next()?;
            self.count_completion(completion);
        }
        Ok(())
    }

    fn count_completion(&mut self, completion: Completion) {
        if completion.opcode == WcOpcode::Recv {
            self.received += 1;
        } else {
            self.completed = completion.wr_id + 1;
        }
    }
}
