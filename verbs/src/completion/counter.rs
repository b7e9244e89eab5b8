//! Completion counters.

use crate::context::Context;
use roce_stack::CounterUnit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts work requests of QPs that have succeeded, and those that have failed, as the counters of
/// `ibv_create_comp_cntr` do. [`QueuePair::attach_counter`] says which. Cheap to clone; any thread may
/// use it.
///
/// [`QueuePair::attach_counter`]: crate::QueuePair::attach_counter
///
/// ```
/// # use roce_verbs::prelude::*;
/// use roce_verbs::completion::{CountedOps, CounterUnit};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let context = Device::named("roce_lo")?.open()?;
/// # let (pd, cq) = (context.alloc_pd(), context.create_cq(64));
/// # let memory = pd.allocate(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
/// # let a = pd.create_qp(&cq, &cq, &QpOptions::default())?;
/// # let b = pd.create_qp(&cq, &cq, &QpOptions::default())?;
/// let arrived = context.create_counter(CounterUnit::Bytes);
/// b.attach_counter(&arrived, CountedOps::RECV)?;
/// # b.to_init(Access::empty())?;
/// # b.post_recv(&RecvRequest { wr_id: 0, sges: &[memory.slice(0, 64)?] })?;
/// # a.connect(0, &b.endpoint(0)?, &ConnectOptions::default())?;
/// # b.connect(0, &a.endpoint(0)?, &ConnectOptions::default())?;
/// a.post_send(&SendRequest::send(memory.slice(64, 5)?))?;
/// while arrived.succeeded() < 5 {}
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CompletionCounter {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    counter: Arc<roce_stack::CompletionCounter>,
    /// The numbers of successes and failures that the last calls returned.
    seen: [AtomicU64; 2],
}

impl Context {
    /// A counter of nothing, for QPs of this context.
    pub fn create_counter(&self, unit: CounterUnit) -> CompletionCounter {
        CompletionCounter {
            inner: Arc::new(Inner {
                context: self.clone(),
                counter: Arc::new(roce_stack::CompletionCounter::new(unit)),
                seen: Default::default(),
            }),
        }
    }
}

impl CompletionCounter {
    /// The requests that have succeeded, or their bytes; after `u64::MAX` comes 0. If the number is
    /// the one that the last call returned, drives the NIC once and looks again: a program can wait
    /// for a number in a loop.
    pub fn succeeded(&self) -> u64 {
        self.look(0, roce_stack::CompletionCounter::succeeded)
    }

    /// The requests that have failed. Drives the NIC as [`CompletionCounter::succeeded`] does.
    pub fn failed(&self) -> u64 {
        self.look(1, roce_stack::CompletionCounter::failed)
    }

    fn look(&self, which: usize, number: impl Fn(&roce_stack::CompletionCounter) -> u64) -> u64 {
        let Inner {
            context,
            counter,
            seen,
        } = &*self.inner;
        let mut found = number(counter);
        if seen[which].swap(found, Ordering::Relaxed) == found {
            context.drive();
            found = number(counter);
            seen[which].store(found, Ordering::Relaxed);
        }
        found
    }

    /// Sets the number of successes. What completes at the same time may be lost.
    pub fn set_succeeded(&self, value: u64) {
        self.inner.counter.set_succeeded(value);
    }

    /// Sets the number of failures. What completes at the same time may be lost.
    pub fn set_failed(&self, value: u64) {
        self.inner.counter.set_failed(value);
    }

    /// Adds to the number of successes. None is lost.
    pub fn add_succeeded(&self, amount: u64) {
        self.inner.counter.add_succeeded(amount);
    }

    /// Adds to the number of failures. None is lost.
    pub fn add_failed(&self, amount: u64) {
        self.inner.counter.add_failed(amount);
    }

    pub(crate) fn counter(&self) -> &Arc<roce_stack::CompletionCounter> {
        &self.inner.counter
    }

    /// Whether a QP uses it.
    pub fn is_attached(&self) -> bool {
        Arc::strong_count(&self.inner.counter) > 1
    }
}

#[cfg(test)]
mod tests {
    use crate::completion::CounterUnit;
    use crate::device::Device;
    use std::net::Ipv4Addr;

    #[test]
    fn only_a_number_that_was_read_before_drives_the_nic() {
        let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let context = device.open().expect("opened");
        let counter = context.create_counter(CounterUnit::Requests);
        let calls = || context.inner.shared.calls();
        counter.set_succeeded(5);
        counter.set_failed(6);
        let before = calls();
        assert_eq!((counter.succeeded(), counter.failed()), (5, 6));
        assert_eq!(calls(), before);
        assert_eq!((counter.succeeded(), counter.failed()), (5, 6));
        assert_eq!(calls(), before + 2);
        counter.add_succeeded(1);
        assert_eq!(counter.succeeded(), 6);
        assert_eq!(calls(), before + 2);
    }
}
