//! Checks whether the port can reach the destination of a path, when the path is chosen.

use std::io;

use roce_port::PortError;
use roce_stack::{RoceVersion, TxMeta};

use super::XdpPort;
use super::transmit::path_of;
use crate::net::Refusal;

impl XdpPort {
    /// See [`Port::check`](roce_port::Port::check).
    pub(super) fn check_path(&mut self, path: &TxMeta) -> Result<(), PortError> {
        let to_other_interface = self.net.is_others(path.dst);
        if path.version == RoceVersion::V2 && !to_other_interface {
            return Ok(());
        }
        match self.net.header_for(path_of(path)) {
            Err(Refusal::Local | Refusal::NoRoute) if to_other_interface => {
                Err(self.not_on_link_error(path))
            }
            Err(Refusal::OffLink) => {
                Err(self.v1_unreachable_error(path, "the route leads through a gateway"))
            }
            Err(Refusal::NoRoute) => Err(self.v1_unreachable_error(path, "no route leads there")),
            // In all other cases, a later send reports the refusal, or the neighbour may still
            // answer.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn v1_unreachable_error(&self, path: &TxMeta, why: &str) -> PortError {
        PortError {
            what: format!(
                "RoCE v1 from {} to {} over {}: {why}, and routers do not forward RoCE v1. Choose \
                 a GID index of RoCE v2, or an address on the same link",
                path.src, path.dst, self.config.sockets.interface
            ),
            source: io::Error::from_raw_os_error(libc::EHOSTUNREACH),
        }
    }

    fn not_on_link_error(&self, path: &TxMeta) -> PortError {
        let interface = &self.config.sockets.interface;
        let dst = path.dst;
        PortError {
            what: format!(
                "from {} to {dst} on {interface}, over AF_XDP: {dst} is an address of another \
                 interface of this host, and {interface} has no route or prefix to it. Use UDP \
                 sockets at both ends (ROCE_DATAPATH=udp), or addresses of one prefix on two \
                 interfaces that a cable or switch joins",
                path.src
            ),
            source: io::Error::from_raw_os_error(libc::EHOSTUNREACH),
        }
    }
}
