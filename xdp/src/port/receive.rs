//! Frames that arrive.

use roce_port::{PortError, RxSink};

use super::XdpPort;
use super::counters::XdpCounters;
use crate::net::Net;
use crate::queue::Frame;

impl XdpPort {
    /// Hands out packets of all queues, each of which is first in its turn.
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
            let turn = self.turn % count;
            self.turn = turn + 1;
            let (net, assembly, counters) = (&mut self.net, &mut self.assembly, &mut self.counters);
            let mut take = |frame: Frame<'_>| hand_out(frame, net, assembly, counters, sink);
            match self.queues[turn].receive(budget - packets, &mut take) {
                Ok(taken) => packets += taken,
                Err(error) => return Err(self.queue_error(turn, error)),
            }
        }
        Ok(packets)
    }
}

/// Takes the headers off. Only what comes in several pieces is copied.
fn hand_out(
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
    // What is dropped is counted there.
    if let Ok(received) = net.parse(bytes) {
        counters.rx_packets += 1;
        counters.rx_bytes += received.transport.len() as u64;
        sink.packet(&received.meta, received.transport);
    }
}
