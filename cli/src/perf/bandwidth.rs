//! Bandwidth and message rate: some messages are always outstanding.

use super::args::BATCH;
use super::control::Phase;
use super::end::{End, check};
use super::op::Op;
use super::pattern;
use crate::error::Error;
use roce_verbs::completion::WcOpcode;
use roce_verbs::{RemoteAddr, SendOp, SendRequest};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The client's result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) messages: u64,
    pub(super) elapsed: Duration,
}

/// The immediate data of the last SEND, which ends the server's loop.
const LAST: u32 = 1;

/// When a client stops.
#[derive(Clone, Copy, Debug)]
pub(super) enum StopAfter {
    /// After this many messages.
    Messages(u64),
    /// After this time.
    Elapsed(Duration),
}

/// The state of a client's run.
struct Run<'a> {
    end: &'a End,
    phase: Phase,
    remote: RemoteAddr,
    posted: u64,
    completed: u64,
}

/// Runs the client's side.
pub(super) fn client(
    end: &End,
    phase: Phase,
    remote: RemoteAddr,
    stop_after: StopAfter,
) -> Result<Measured, Error> {
    let mut run = Run {
        end,
        phase,
        remote,
        posted: 0,
        completed: 0,
    };
    let slots = phase.slots as u64;
    let start = Instant::now();
    let mut last = match stop_after {
        StopAfter::Messages(messages) => Some(messages),
        StopAfter::Elapsed(_) => None,
    };
    loop {
        let room = slots - (run.posted - run.completed);
        let wanted = last.map_or(room, |last| room.min(last - run.posted));
        if wanted > 0 {
            run.post(wanted as usize, last)?;
        }
        run.reap()?;
        match (stop_after, last) {
            (_, Some(last)) if run.completed == last => break,
            (StopAfter::Elapsed(duration), None) if start.elapsed() >= duration => {
                // One more message, marked as the last.
                last = Some(run.posted + 1);
            }
            _ => {}
        }
    }
    Ok(Measured {
        messages: run.completed,
        elapsed: start.elapsed(),
    })
}

impl Run<'_> {
    /// Posts `count` requests, or as many as fit in a batch.
    fn post(&mut self, count: usize, last: Option<u64>) -> Result<(), Error> {
        let count = count.min(BATCH);
        let mut requests = Vec::with_capacity(count);
        for i in 0..count {
            let number = self.posted + i as u64;
            let is_last = last == Some(number + 1);
            let payload = self.end.region.slice(self.offset(i), self.phase.size)?;
            let request = SendRequest::new(number, self.op(number, is_last), payload);
            requests.push(request.signaled(is_last || self.signals(number)));
        }
        self.end
            .qp
            .post_sends(&requests)
            .map_err(|(_, error)| error)?;
        self.posted += count as u64;
        Ok(())
    }

    /// The offset of the message `ahead` places after the next.
    fn offset(&self, ahead: usize) -> usize {
        let slot = (self.posted + ahead as u64) % self.phase.slots as u64;
        slot as usize * pattern::stride(self.phase.size)
    }

    fn op(&self, number: u64, is_last: bool) -> SendOp {
        let slot = number % self.phase.slots as u64;
        let at = RemoteAddr {
            addr: self.remote.addr + slot * pattern::stride(self.phase.size) as u64,
            ..self.remote
        };
        match self.phase.op {
            Op::Send if is_last => SendOp::SendImm(LAST),
            Op::Send => SendOp::Send,
            Op::Write => SendOp::Write(at),
            Op::Read => SendOp::Read(at),
            // All requests use one counter: each must find the value of the one before.
            Op::Cas => SendOp::CompareSwap {
                remote: self.remote,
                compare: number,
                swap: number + 1,
            },
            Op::Fadd => SendOp::FetchAdd {
                remote: self.remote,
                add: 1,
            },
        }
    }

    /// Whether a request asks for a completion, apart from the last one, which always does.
    fn signals(&self, number: u64) -> bool {
        // If `signal_every` exceeded the number of outstanding messages, no completion would
        // arrive.
        let every = u64::from(self.phase.signal_every).min(self.phase.slots as u64);
        (number + 1).is_multiple_of(every.max(1))
    }

    /// Takes completions: at least one, then all that are available. Each also completes the
    /// unsignaled requests before it.
    fn reap(&mut self) -> Result<(), Error> {
        if self.posted == self.completed {
            return Ok(());
        }
        let mut completion = self.end.next()?;
        loop {
            let missed = (self.completed..completion.wr_id).find(|&number| self.signals(number));
            if completion.wr_id < self.completed || missed.is_some() {
                return Err(self.phase.mismatch(format_args!(
                    "request {} completed where {} was due",
                    completion.wr_id,
                    missed.unwrap_or(self.completed)
                )));
            }
            while self.completed <= completion.wr_id {
                self.check_fetched()?;
                self.completed += 1;
            }
            if self.posted == self.completed {
                return Ok(());
            }
            match self.end.cq.poll()? {
                Some(next) => completion = check(next)?,
                None => return Ok(()),
            }
        }
    }

    /// Checks that an atomic has fetched the number of atomics before it.
    fn check_fetched(&self) -> Result<(), Error> {
        if !self.phase.op.is_atomic() {
            return Ok(());
        }
        let slot = (self.completed % self.phase.slots as u64) as usize;
        let found = self
            .end
            .region
            .atomic_u64(slot * 8)?
            .load(Ordering::Acquire);
        if found == self.completed {
            return Ok(());
        }
        Err(self
            .phase
            .mismatch(format_args!("atomic {} fetched {found}", self.completed)))
    }
}

/// Runs the server's side of SEND: a receive for each message, until the last. The other operations
/// need no work by the server.
pub(super) fn serve_sends(end: &End, phase: Phase) -> Result<(), Error> {
    loop {
        let completion = end.next()?;
        if completion.opcode != WcOpcode::Recv {
            continue;
        }
        if completion.imm == Some(LAST) {
            return Ok(());
        }
        end.post_recv(completion.wr_id as usize, phase.size)?;
    }
}
