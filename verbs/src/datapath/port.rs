//! The port of a datapath, and the layers around it.

use super::reasons::{tx_features, why_copied};
use super::{Datapath, DatapathKind, NotTaken, XdpAttachment};
use crate::capture::Tap;
use roce_port::fault::FaultLayer;
use roce_port::{Layered, LinkGate, Port};
use roce_udp::UdpPort;
use roce_xdp::XdpPort;

/// The port of an open device, inside its layers. The NIC sends through a `dyn Transmit`, so the type
/// costs a packet nothing.
pub(crate) type DevicePort = Box<dyn Port + Send>;

/// The layers around the port of an open device. Packets that arrive pass through them in this
/// order.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// Injects faults of the network.
    pub(crate) faults: Option<FaultLayer>,
    /// Drops everything while an injection has taken the link down.
    pub(crate) gate: Option<LinkGate>,
    /// Captures packets.
    pub(crate) tap: Option<Tap>,
}

impl Layers {
    /// Puts the layers around a port. Each combination is a type of its own: layers that are absent
    /// cost nothing, and packets pass those that are there without dynamic dispatch.
    fn around(self, port: impl Port + Send + 'static) -> DevicePort {
        let Self { faults, gate, tap } = self;
        match faults {
            None => around_faults(port, gate, tap),
            Some(layer) => around_faults(Layered { layer, port }, gate, tap),
        }
    }
}

fn around_faults(
    port: impl Port + Send + 'static,
    gate: Option<LinkGate>,
    tap: Option<Tap>,
) -> DevicePort {
    match gate {
        None => around_gate(port, tap),
        Some(layer) => around_gate(Layered { layer, port }, tap),
    }
}

fn around_gate(port: impl Port + Send + 'static, tap: Option<Tap>) -> DevicePort {
    match tap {
        None => Box::new(port),
        Some(layer) => Box::new(Layered { layer, port }),
    }
}

/// The port of a datapath that has just been chosen.
pub(crate) enum DatapathPort {
    Udp(Box<UdpPort>),
    Xdp(Box<XdpPort>),
}

impl DatapathPort {
    pub(crate) fn as_port(&mut self) -> &mut dyn Port {
        match self {
            Self::Udp(port) => &mut **port,
            Self::Xdp(port) => &mut **port,
        }
    }

    /// The port with the layers around it.
    pub(crate) fn inside(self, layers: Layers) -> DevicePort {
        match self {
            Self::Udp(port) => layers.around(*port),
            Self::Xdp(port) => layers.around(*port),
        }
    }

    /// The kind and limits of the port, with the datapaths that were not chosen.
    pub(crate) fn describe(&mut self, not_taken: Vec<NotTaken>) -> Datapath {
        let capabilities = self.as_port().capabilities();
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
