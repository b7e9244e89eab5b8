//! Steers management datagrams to this process.

use std::io;

use roce_port::Steering;
use roce_stack::Addresses;

use super::UdpPort;
use crate::share::Services;

/// The process that [claims](crate::ServiceClaim) a service first is the only one that receives
/// requests for it.
impl Steering for UdpPort {
    fn interface_index(&self) -> u32 {
        self.config.interface_index
    }

    fn open_general_services(&mut self) -> io::Result<()> {
        self.services.is_open = true;
        self.announce()
    }

    fn close_general_services(&mut self) {
        self.services = Services::default();
        // If this fails, a socket name stays until the process ends, but no requests arrive for it.
        let _ = self.announce();
    }

    fn serve(&mut self, local: Addresses, service: u32) -> io::Result<()> {
        self.services.add(local, service);
        let announced = self.announce();
        if announced.is_err() {
            self.stop_serving(local, service);
        }
        announced
    }

    fn stop_serving(&mut self, local: Addresses, service: u32) {
        self.services.remove(local, service);
        // If this fails, a socket name stays until the process ends, and requests still arrive
        // here.
        let _ = self.announce();
    }
}

impl UdpPort {
    /// Announces at all addresses which management datagrams this process receives.
    fn announce(&mut self) -> io::Result<()> {
        let Self {
            sockets, services, ..
        } = self;
        let mut result = Ok(());
        for socket in sockets {
            result = result.and(socket.announce(services));
        }
        result
    }
}
