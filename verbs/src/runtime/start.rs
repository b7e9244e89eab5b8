//! Starts the parts of an open device when something first needs them.
//!
//! Programs open and query devices that they never use. Opening one therefore touches neither the
//! network nor anything that other processes share:
//!
//! - The first QP claims a range of QP numbers for the device. The host's processes divide the QP
//!   numbers among them.
//! - The datapath (sockets, or AF_XDP's program and rings) starts with the first listener, path or
//!   multicast group, or with the first QP that goes to RTR.
//!
//! Each stays until the device is closed. If the datapath stopped with the last QP, it would have
//! to start again with the next one, and AF_XDP can't start again at once: many drivers reset their
//! queues, and the kernel releases a queue some time after its socket is closed.

use super::Engine;
use crate::datapath::{self, Datapath, DatapathOptions, Layers};
use crate::device::Device;
use crate::environment::write_to_stderr;
use crate::error::StartError;
use parking_lot::Mutex;
use roce_port::Port;
use roce_stack::{PriorityMap, QpnRange};
use roce_udp::{PartClaimer, UdpPortConfig};
use std::io;
use std::net::IpAddr;
use std::sync::OnceLock;

/// The parts of an open device that have started, and the options for those that have not. The
/// methods that start something take the locked engine.
pub(crate) struct Starter {
    device: Device,
    options: DatapathOptions,
    priorities: Option<PriorityMap>,
    claimer: PartClaimer,
    /// The layers that the port gets.
    layers: Mutex<Layers>,
    qpn_range: OnceLock<QpnRange>,
    /// Local addresses of address handles that were created before the datapath started.
    addresses_to_activate: Mutex<Vec<IpAddr>>,
    datapath: OnceLock<Datapath>,
}

impl Starter {
    /// Starts nothing. The calling thread's network namespace must be the device's.
    pub(crate) fn new(
        device: &Device,
        options: DatapathOptions,
        priorities: Option<PriorityMap>,
        layers: Layers,
    ) -> io::Result<Self> {
        Ok(Self {
            device: device.clone(),
            options,
            priorities,
            claimer: PartClaimer::new(device.interface().index)?,
            layers: Mutex::new(layers),
            qpn_range: OnceLock::new(),
            addresses_to_activate: Mutex::default(),
            datapath: OnceLock::new(),
        })
    }

    /// The device's QPN range, if it has one yet.
    pub(crate) fn qpn_range(&self) -> Option<QpnRange> {
        self.qpn_range.get().copied()
    }

    pub(super) fn device_name(&self) -> String {
        self.device.name()
    }

    pub(crate) fn datapath(&self) -> Option<&Datapath> {
        self.datapath.get()
    }

    pub(super) fn claim_qpn_range(&self, engine: &mut Engine) -> Result<QpnRange, StartError> {
        if let Some(qpn_range) = self.qpn_range() {
            return Ok(qpn_range);
        }
        let qpn_range = self.claimer.claim().map_err(|source| {
            let device = self.device.name();
            StartError::QpNumbers { device, source }
        })?;
        engine.nic.draw_qpns_from(qpn_range);
        Ok(*self.qpn_range.get_or_init(|| qpn_range))
    }

    pub(super) fn start(&self, engine: &mut Engine) -> Result<&Datapath, StartError> {
        let qpn_range = self.claim_qpn_range(engine)?;
        let (mut datapath_port, not_taken) =
            datapath::open(&self.device, &self.options, self.priorities, qpn_range)?;
        let mut layers = self.layers.lock();
        if !self.options.sockets_only {
            datapath_port.open_lanes(layers.look_at_packets());
        }
        let port = datapath_port.as_port();
        if engine.mad_listener.is_some()
            && let Some(steering) = port.steering()
        {
            let opened = steering.open_general_services();
            opened.map_err(|source| StartError::System {
                what: "steering management datagrams to this process",
                source,
            })?;
        }
        let (max_packet_bytes, window_bytes) = port_limits(port, &self.options);
        engine.nic.set_port_limits(max_packet_bytes, window_bytes);
        for address in std::mem::take(&mut *self.addresses_to_activate.lock()) {
            // An unusable address does not fail the start, because the caller may have started the
            // datapath for another one.
            if let Err(error) = port.activate(address) {
                write_to_stderr(&format!(
                    "roce: warning: datagrams from {address} will not be sent: {error}\n"
                ));
            }
        }
        let datapath = datapath_port.describe(not_taken);
        engine.port = datapath_port.inside(std::mem::take(&mut *layers));
        if let Some(observer) = &engine.observer {
            observer.on_start();
        }
        Ok(self.datapath.get_or_init(|| datapath))
    }

    /// If the datapath has not started, remembers to make `address` usable when it does, and
    /// returns true. Otherwise returns false.
    pub(super) fn activate_when_started(&self, address: IpAddr) -> bool {
        let not_started = self.datapath().is_none();
        let mut addresses_to_activate = self.addresses_to_activate.lock();
        if not_started && !addresses_to_activate.contains(&address) {
            addresses_to_activate.push(address);
        }
        not_started
    }
}

/// The size of the largest packet that a port sends, and the limit of the data that one QP keeps in
/// flight, both in bytes.
pub(crate) fn port_limits(port: &dyn Port, options: &DatapathOptions) -> (usize, usize) {
    let capabilities = port.capabilities();
    let buffer_bytes = capabilities.receive_buffer_bytes;
    // The peer's receive buffer is assumed to be as large as ours, or as large as the default if
    // the user has made ours larger than that. The window is half of it, because the kernel charges
    // more than the payload to the buffer.
    let buffer_bytes = match options.udp_receive_buffer_bytes {
        Some(_) => buffer_bytes.min(UdpPortConfig::RECEIVE_BUFFER_BYTES),
        None => buffer_bytes,
    };
    (capabilities.max_packet_bytes, buffer_bytes / 2)
}
