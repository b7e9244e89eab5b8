//! The port of a datapath, and the layers around it.

use super::{Datapath, DatapathKind, NotTaken};
#[cfg(feature = "faults")]
use roce_faults::{FaultLayer, LinkGate};
use roce_local::{LaneConfig, Lanes};
#[cfg(feature = "observe")]
use roce_observe::capture::Tap;
#[cfg(not(feature = "observe"))]
use roce_port::NoLayer as Tap;
use roce_port::{Layered, Neighbours as _, Port};
#[cfg(not(feature = "faults"))]
use roce_port::{NoLayer as FaultLayer, NoLayer as LinkGate};
use roce_udp::UdpPort;
#[cfg(feature = "xdp")]
use roce_xdp::XdpPort;

/// The port of an open device, inside its layers. The NIC sends through a `dyn Transmit`, so the type
/// costs a packet nothing.
pub(crate) type DevicePort = Box<dyn Port + Send>;

/// The layers around the port of an open device. Packets that arrive pass through them in this
/// order. Lanes to other devices on this host lie inside of all of them.
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
    /// Whether one of the layers looks at packets, or damages them, so that they need their ICRC.
    pub(crate) fn look_at_packets(&self) -> bool {
        self.faults.is_some() || self.tap.is_some()
    }

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
    /// With lanes, once they are open, or the reason why there are none.
    Udp(Box<UdpPort>, Result<Option<Box<Lanes>>, String>),
    #[cfg(feature = "xdp")]
    Xdp(Box<XdpPort>, DatapathKind),
}

impl DatapathPort {
    pub(crate) fn as_port(&mut self) -> &mut dyn Port {
        match self {
            Self::Udp(port, _) => &mut **port,
            #[cfg(feature = "xdp")]
            Self::Xdp(port, _) => &mut **port,
        }
    }

    /// The port with the layers around it.
    pub(crate) fn inside(self, layers: Layers) -> DevicePort {
        match self {
            Self::Udp(port, Ok(None) | Err(_)) => layers.around(*port),
            Self::Udp(port, Ok(Some(layer))) => layers.around(Layered {
                layer: *layer,
                port: *port,
            }),
            #[cfg(feature = "xdp")]
            Self::Xdp(port, _) => layers.around(*port),
        }
    }

    /// Lets packets to other devices on this host take lanes, if the port has sockets.
    pub(crate) fn open_lanes(&mut self, with_icrc: bool) {
        match self {
            Self::Udp(port, lanes) => {
                let opened = Lanes::new(LaneConfig {
                    with_icrc,
                    source_port_secret: source_port_secret(),
                });
                if let Ok(opened) = &opened {
                    port.take_offers(opened.inbox());
                }
                *lanes = opened
                    .map(|lanes| Some(Box::new(lanes)))
                    .map_err(|error| error.to_string());
            }
            #[cfg(feature = "xdp")]
            Self::Xdp(..) => {}
        }
    }

    /// The kind and limits of the port, with the datapaths that were not chosen.
    pub(crate) fn describe(&mut self, not_taken: Vec<NotTaken>) -> Datapath {
        let capabilities = self.as_port().capabilities();
        let kind = match self {
            Self::Udp(port, lanes) => {
                let why_no_lanes = lanes.as_ref().err().cloned();
                let offer = port.offer();
                DatapathKind::Udp {
                    segmentation: offer.segmentation,
                    coalescing: offer.coalescing,
                    flow_sockets: offer.flow_sockets,
                    why_copied: offer.why_copied,
                    why_no_lanes,
                }
            }
            #[cfg(feature = "xdp")]
            Self::Xdp(_, kind) => kind.clone(),
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

/// A random secret for source ports. If the system has no random numbers, opening the device has
/// failed already.
pub(super) fn source_port_secret() -> u16 {
    getrandom::u32().unwrap_or_default() as u16
}
