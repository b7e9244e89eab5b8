//! The ports that a device can have, as one type.

use super::reasons::{tx_features, why_copied};
use super::{Datapath, DatapathKind, NotTaken, XdpAttachment, XdpQueue};
use roce_port::{Port, PortCapabilities, PortError, PortFd, RxSink, Steering};
use roce_stack::{
    Acknowledged, Flow, ReserveError, RoceVersion, Sequenced, Transmit, TxMeta, TxSlot,
};
use roce_udp::UdpPort;
use roce_xdp::XdpPort;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The port of an open device. Each method dispatches on the kind of port. A call into the stack,
/// which sends many packets, dispatches only once: it gets [`DevicePort::as_transmit`].
pub(crate) enum DevicePort {
    Udp(Box<UdpPort>),
    Xdp(Box<XdpPort>),
}

/// Calls the same method of either port.
macro_rules! either {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self {
            Self::Udp(port) => port.$method($($argument),*),
            Self::Xdp(port) => port.$method($($argument),*),
        }
    };
}

impl Transmit for DevicePort {
    fn reserve(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        either!(self.reserve(to, flow, sequenced, len))
    }

    fn commit(&mut self) {
        either!(self.commit());
    }

    fn commit_last(&mut self) {
        either!(self.commit_last());
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        either!(self.acknowledged(flow, which));
    }
}

impl Port for DevicePort {
    fn capabilities(&self) -> PortCapabilities {
        either!(self.capabilities())
    }

    fn carries(&self, version: RoceVersion) -> bool {
        either!(self.carries(version))
    }

    fn check(&mut self, path: &TxMeta) -> Result<(), PortError> {
        either!(self.check(path))
    }

    fn activate(&mut self, address: IpAddr) -> Result<(), PortError> {
        either!(self.activate(address))
    }

    fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        either!(self.set_addresses(addresses));
    }

    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        either!(self.join(group))
    }

    fn leave(&mut self, group: IpAddr) {
        either!(self.leave(group));
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError> {
        either!(self.receive(budget, sink))
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        either!(self.flush())
    }

    fn queued(&self) -> usize {
        either!(self.queued())
    }

    fn batches_mixed_packets(&self) -> bool {
        either!(self.batches_mixed_packets())
    }

    fn has_looped(&self) -> bool {
        either!(self.has_looped())
    }

    fn packet_fds(&self) -> Vec<PortFd<'_>> {
        either!(self.packet_fds())
    }

    fn network_fd(&self) -> Option<BorrowedFd<'_>> {
        either!(self.network_fd())
    }

    fn next_deadline(&self) -> Option<Duration> {
        either!(self.next_deadline())
    }

    fn follow_network(&mut self) -> Result<(), PortError> {
        either!(self.follow_network())
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        either!(self.each_counter())
    }

    fn steering(&mut self) -> Option<&mut dyn Steering> {
        either!(self.steering())
    }
}

impl DevicePort {
    /// The port itself, without dispatch, for a call that sends many packets.
    #[inline]
    pub(crate) fn as_transmit(&mut self) -> &mut dyn Transmit {
        match self {
            Self::Udp(port) => &mut **port,
            Self::Xdp(port) => &mut **port,
        }
    }

    /// The queues that AF_XDP uses; empty for sockets.
    pub(crate) fn xdp_queues(&self) -> Vec<XdpQueue> {
        let Self::Xdp(port) = self else {
            return Vec::new();
        };
        let each = port.queues().iter().zip(port.each_counter_by_queue());
        each.map(|(queue, counters)| XdpQueue {
            number: queue.kernel().queue(),
            zero_copy: queue.kernel().is_zero_copy(),
            shares_memory: queue.kernel().shares_memory(),
            counters,
        })
        .collect()
    }

    /// The kind and limits of the port, with the datapaths that were not chosen.
    pub(crate) fn describe(&self, not_taken: Vec<NotTaken>) -> Datapath {
        let capabilities = self.capabilities();
        let kind = match self {
            Self::Udp(port) => {
                let offer = port.offer();
                DatapathKind::Udp {
                    segmentation: offer.segmentation,
                    coalescing: offer.coalescing,
                    flow_sockets: offer.flow_sockets,
                    why_copied: offer.why_copied,
                }
            }
            Self::Xdp(port) => DatapathKind::Xdp {
                attachment: Some(match port.attached().mode() {
                    roce_xdp::program::Mode::Native => XdpAttachment::Native,
                    roce_xdp::program::Mode::Generic => XdpAttachment::Generic,
                }),
                why_not_native: port.attached().why_not_native().map(ToString::to_string),
                zero_copy: Some(is_zero_copy(port)),
                why_copied: (!is_zero_copy(port)).then(|| {
                    let native = port.attached().mode() == roce_xdp::program::Mode::Native;
                    let mtu = port.net().link().map_or(0, |link| link.mtu);
                    why_copied(port.driver(), native, mtu)
                        .unwrap_or_else(|| "the driver refused zero-copy".to_owned())
                }),
                queues: port.queues().len(),
                tx_features: port.driver().map(tx_features),
            },
        };
        Datapath {
            kind,
            max_packet_bytes: capabilities.max_packet_bytes,
            receive_buffer_bytes: capabilities.receive_buffer_bytes,
            fallback: None,
            not_taken,
        }
    }
}

/// Whether the driver reads and writes the frames of all queues in the process's memory.
fn is_zero_copy(port: &XdpPort) -> bool {
    port.queues()
        .iter()
        .all(|queue| queue.kernel().is_zero_copy())
}
