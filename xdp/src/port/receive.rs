//! Receiving frames.

use roce_port::{PortError, RxSink};

use super::XdpPort;
use super::counters::XdpCounters;
use crate::net::Net;
use crate::queue::Frame;

impl XdpPort {
    /// Delivers packets from all queues. Each call starts after the last queue that the previous
    /// call visited.
    pub(super) fn receive_frames(
        &mut self,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        let count = self.queues.len();
        let mut packets = 0;
        for _ in 0..count {
            if packets >= budget {
                break;
            }
            let queue = self.next_queue % count;
            self.next_queue = queue + 1;
            let (net, assembly, counters) = (&mut self.net, &mut self.assembly, &mut self.counters);
            let mut take = |frame: Frame<'_>| deliver(frame, net, assembly, counters, sink);
            match self.queues[queue].receive(budget - packets, &mut take) {
                Ok(taken) => packets += taken,
                Err(error) => return Err(self.queue_error(queue, error)),
            }
        }
        Ok(packets)
    }
}

/// Removes the headers and delivers the packet. Only frames in several pieces are copied.
fn deliver(
    frame: Frame<'_>,
    net: &mut Net,
    assembly: &mut [u8],
    counters: &mut XdpCounters,
    sink: &mut dyn RxSink,
) {
    let bytes = match frame.contiguous() {
        Some(bytes) => bytes,
        None if frame.len() > assembly.len() => {
            counters.rx_too_long += 1;
            return;
        }
        None => frame.copy_to(assembly),
    };
    // `parse` counts the frames that it drops.
    if let Ok(received) = net.parse(bytes) {
        counters.rx_packets += 1;
        counters.rx_bytes += received.transport.len() as u64;
        sink.packet(&received.meta, received.transport);
    }
}
