//! The objects that a NIC holds, to detect leaks.

use super::Nic;

/// The number of objects of each kind that a NIC holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// QPs, in any state.
    pub qps: usize,
    /// Registered regions.
    pub regions: usize,
    /// Timers that run.
    pub timers: usize,
    /// Send requests of all QPs that have not completed.
    pub sends: usize,
    /// Receive requests of all QPs' own queues that have not completed.
    pub receives: usize,
    /// Events that have not been polled.
    pub events: usize,
}

impl Nic {
    /// The objects that the NIC holds now.
    pub fn usage(&self) -> Usage {
        Usage {
            qps: self.qps.len(),
            regions: self.shared.memory.len(),
            timers: self.timers.len(),
            sends: self.qps.iter().map(|qp| qp.queued().0).sum(),
            receives: self.qps.iter().map(|qp| qp.queued().1).sum(),
            events: self.shared.events.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Access, Buffer};
    use crate::nic::NicConfig;
    use std::sync::Arc;

    #[test]
    fn it_counts_what_there_is_and_nothing_once_that_is_gone() {
        let mut nic = Nic::new(&NicConfig {
            seed: [1; 32],
            max_packet_bytes: 1100,
            window_bytes: 0,
        });
        assert_eq!(nic.usage(), Usage::default());
        let pd = nic.alloc_pd();
        let buffer = Arc::new(Buffer::new(8).expect("a buffer"));
        let key = nic
            .register_buffer(pd, buffer, Access::empty())
            .expect("registered");
        assert_eq!(nic.usage().regions, 1);
        nic.deregister(key);
        assert_eq!(nic.usage(), Usage::default());
    }
}
