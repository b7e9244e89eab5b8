//! QPs whose completions are counted.

use super::QueuePair;
use crate::completion::CompletionCounter;
use roce_stack::{AttachCounterError, CountedOps};

impl QueuePair {
    /// Lets `counter` count these requests of the QP, which must be in RESET or INIT, until the QP is
    /// destroyed. One counter may count for several QPs, and each QP may have one for each operation.
    /// Completions go to the CQs all the same.
    ///
    /// # Errors
    /// See [`AttachCounterError`].
    pub fn attach_counter(
        &self,
        counter: &CompletionCounter,
        ops: CountedOps,
    ) -> Result<(), AttachCounterError> {
        let mut engine = self.context().inner.shared.lock();
        let counter = counter.counter();
        engine.nic.attach_completion_counter(self.qpn, counter, ops)
    }
}

#[cfg(test)]
mod tests {
    use crate::completion::{CountedOps, CounterUnit};
    use crate::device::Device;
    use crate::qp::QpOptions;
    use std::net::Ipv4Addr;

    #[test]
    fn a_counter_is_attached_until_its_qps_are_destroyed() {
        let device = Device::with_address(Ipv4Addr::LOCALHOST.into()).expect("loopback");
        let context = device.open().expect("opened");
        let (pd, cq) = (context.alloc_pd(), context.create_cq(1));
        let counter = context.create_counter(CounterUnit::Requests);
        let other = counter.clone();
        let qps = [(); 2].map(|()| {
            let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
            assert_eq!(qp.attach_counter(&other, CountedOps::all()), Ok(()));
            qp
        });
        let [first, second] = qps;
        first.destroy();
        assert!(counter.is_attached());
        drop(second);
        assert!(!counter.is_attached());
    }
}
