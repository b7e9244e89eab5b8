//! Completion counters: numbers of the work requests of QPs that have completed, which a program reads
//! without polling a CQ.

use crate::kind::QpState;
use crate::wr::{WcOpcode, WcStatus};
use bitflags::bitflags;
use core::fmt;
use core::hint::cold_path;
use core::sync::atomic::{AtomicU64, Ordering};
use roce_wire::Qpn;
use std::sync::Arc;

/// Two numbers: of the work requests that have succeeded, and of those that have failed. Each QP that
/// it is attached to adds those that it completes ([`Nic::attach_completion_counter`]). After
/// `u64::MAX` comes 0. Any thread may read and change them.
///
/// [`Nic::attach_completion_counter`]: crate::Nic::attach_completion_counter
#[derive(Debug)]
pub struct CompletionCounter {
    unit: CounterUnit,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

/// The unit in which a [`CompletionCounter`] counts successes. Failures are always requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterUnit {
    /// Work requests.
    #[default]
    Requests,
    /// Their bytes: [`Completion::byte_len`](crate::Completion::byte_len).
    Bytes,
}

impl CompletionCounter {
    /// A counter of nothing.
    pub fn new(unit: CounterUnit) -> Self {
        Self {
            unit,
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// The requests that have succeeded, or their bytes. The bytes that a counted request placed
    /// in memory are visible to the thread that reads the number.
    pub fn succeeded(&self) -> u64 {
        self.succeeded.load(Ordering::Acquire)
    }

    /// The requests that have failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Acquire)
    }

    /// Sets the number of successes. What completes at the same time may be lost.
    pub fn set_succeeded(&self, value: u64) {
        self.succeeded.store(value, Ordering::Release);
    }

    /// Sets the number of failures. What completes at the same time may be lost.
    pub fn set_failed(&self, value: u64) {
        self.failed.store(value, Ordering::Release);
    }

    /// Adds to the number of successes. None is lost.
    pub fn add_succeeded(&self, amount: u64) {
        self.succeeded.fetch_add(amount, Ordering::Release);
    }

    /// Adds to the number of failures. None is lost.
    pub fn add_failed(&self, amount: u64) {
        self.failed.fetch_add(amount, Ordering::Release);
    }

    fn count(&self, status: WcStatus, bytes: u32) {
        match (status, self.unit) {
            (WcStatus::Success, CounterUnit::Requests) => self.add_succeeded(1),
            (WcStatus::Success, CounterUnit::Bytes) => self.add_succeeded(bytes.into()),
            _ => self.add_failed(1),
        }
    }
}

bitflags! {
    /// Work requests that a [`CompletionCounter`] counts for a QP, signaled or not. Requests of other
    /// operations, such as atomics, count nowhere.
    ///
    /// No flag stands for the READs and WRITEs of the peer: the peer may send one of them as several
    /// messages, as this stack does, so the QP can't know their number.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CountedOps: u32 {
        /// SENDs.
        const SEND = 1;
        /// Receives, including those that a WRITE with immediate consumes.
        const RECV = 2;
        /// READs.
        const READ = 4;
        /// WRITEs, with immediate or without.
        const WRITE = 16;
    }
}

impl CountedOps {
    fn of(opcode: WcOpcode) -> Self {
        match opcode {
            WcOpcode::Send => Self::SEND,
            WcOpcode::RdmaWrite => Self::WRITE,
            WcOpcode::RdmaRead => Self::READ,
            WcOpcode::Recv | WcOpcode::RecvRdmaWithImm => Self::RECV,
            _ => Self::empty(),
        }
    }
}

/// Why a counter was not attached to a QP.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachCounterError {
    /// No QP has this number.
    UnknownQp(Qpn),
    /// The QP may have begun to work.
    WrongState {
        /// Its state.
        state: QpState,
    },
    /// No operation was named.
    NoOperation,
    /// Another counter, or the same one, counts these operations already.
    Counted(CountedOps),
}

impl fmt::Display for AttachCounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownQp(qpn) => write!(f, "no QP has number {qpn}"),
            Self::WrongState { state } => {
                let state = state.name();
                write!(
                    f,
                    "the QP is in state {state}, and must be in RESET or INIT"
                )
            }
            Self::NoOperation => write!(f, "no operation is named: at least one must be"),
            Self::Counted(ops) => {
                let names: Vec<_> = ops.iter_names().map(|(name, _)| name).collect();
                let names = names.join(", ");
                write!(
                    f,
                    "a counter that is attached to the QP counts {names} already"
                )
            }
        }
    }
}

impl fmt::Debug for AttachCounterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for AttachCounterError {}

/// The counters that are attached to a QP: no two for the same operation.
#[derive(Debug, Default)]
pub(crate) struct AttachedCounters(Vec<(CountedOps, Arc<CompletionCounter>)>);

impl AttachedCounters {
    pub(crate) fn attach(
        &mut self,
        counter: &Arc<CompletionCounter>,
        ops: CountedOps,
    ) -> Result<(), AttachCounterError> {
        if ops.is_empty() {
            return Err(AttachCounterError::NoOperation);
        }
        let counted: CountedOps = self.0.iter().map(|(ops, _)| *ops).collect();
        if counted.intersects(ops) {
            return Err(AttachCounterError::Counted(counted & ops));
        }
        self.0.push((ops, Arc::clone(counter)));
        Ok(())
    }

    /// Counts a work request that has completed.
    #[inline(always)]
    pub(crate) fn count(&self, opcode: WcOpcode, status: WcStatus, bytes: u32) {
        if !self.0.is_empty() {
            cold_path();
            self.count_attached(opcode, status, bytes);
        }
    }

    #[inline(never)]
    fn count_attached(&self, opcode: WcOpcode, status: WcStatus, bytes: u32) {
        let op = CountedOps::of(opcode);
        let counter = self.0.iter().find(|(ops, _)| ops.intersects(op));
        if let Some((_, counter)) = counter {
            counter.count(status, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_after_the_largest_is_0() {
        let counter = CompletionCounter::new(CounterUnit::Bytes);
        counter.set_succeeded(u64::MAX - 1);
        counter.set_failed(u64::MAX);
        counter.count(WcStatus::Success, 5);
        counter.count(WcStatus::WorkRequestFlushed, 5);
        assert_eq!((counter.succeeded(), counter.failed()), (3, 0));
        counter.add_succeeded(u64::MAX - 2);
        counter.add_failed(2);
        assert_eq!((counter.succeeded(), counter.failed()), (0, 2));
    }
}
