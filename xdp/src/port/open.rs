//! Opening a port.

use std::io;
use std::os::fd::AsFd;

use roce_port::PortError;

use super::clock::Clock;
use super::{XdpPort, program_error};
use crate::net::{Changes, CoreConfig, Net, Waiting};
use crate::offer;
use crate::port::{Ipv6Checksum, XdpCounters, XdpPortConfig};
use crate::program::{Mode, Program};
use crate::socket::{self, SocketConfig, ZeroCopy};

/// The longest frame that can be assembled from pieces, in bytes.
const MAX_FRAME_BYTES: usize = 1 << 16;

/// The configuration of the sockets when the program is attached in `mode`. A program in generic
/// mode sees copies of the frames. If the driver still received into user memory, each frame would
/// be copied twice, although the socket would report zero-copy.
fn sockets_for_mode(sockets: &SocketConfig, mode: Mode, checksum: Ipv6Checksum) -> SocketConfig {
    let mut sockets = sockets.clone();
    sockets.memory.tx_metadata = checksum == Ipv6Checksum::Auto;
    if mode == Mode::Generic && sockets.zero_copy == ZeroCopy::Auto {
        sockets.zero_copy = ZeroCopy::Off;
    }
    sockets
}

pub(super) fn open(config: XdpPortConfig) -> Result<XdpPort, PortError> {
    let sockets = &config.sockets;
    if sockets.queues.is_empty() {
        return Err(PortError {
            what: format!("AF_XDP on {} without any queue", sockets.interface),
            source: io::ErrorKind::InvalidInput.into(),
        });
    }
    let clock = Clock::new();
    let network = CoreConfig {
        roce_v1: config.redirect.roce_v1,
        ..config.net
    };
    let net = Net::open(sockets.interface_index, network, clock.now())?;
    let entries = sockets
        .queues
        .iter()
        .max()
        .map_or(1, |&queue| queue.saturating_add(1));
    let program = Program::load(entries, &config.redirect).map_err(program_error)?;
    // Attach before opening sockets, so that a failed open leaves the interface as it was if
    // another program is attached.
    let attached = program
        .attach(&sockets.interface, sockets.interface_index, config.attach)
        .map_err(program_error)?;
    let sockets = sockets_for_mode(sockets, attached.mode(), config.ipv6_checksum);
    let queues = socket::open(&sockets).map_err(|error| PortError {
        what: format!("{}{}", error.what, error.hint()),
        source: error.source,
    })?;
    for queue in &queues {
        let socket = queue.kernel();
        program
            .set_socket(socket.queue(), socket.as_fd())
            .map_err(program_error)?;
    }
    Ok(XdpPort {
        net,
        queues,
        program,
        attached,
        driver: offer::driver(sockets.interface_index),
        active: Vec::new(),
        groups: Default::default(),
        loopback: Default::default(),
        waiting: Waiting::default(),
        reserved: Default::default(),
        special: Default::default(),
        next_id: 0,
        next_queue: 0,
        assembly: vec![0; MAX_FRAME_BYTES].into(),
        clock,
        changes: Changes::default(),
        counters: XdpCounters::default(),
        config,
    })
}

#[cfg(test)]
mod tests {
    use super::sockets_for_mode;
    use crate::port::Ipv6Checksum;
    use crate::program::Mode;
    use crate::socket::{SocketConfig, ZeroCopy};

    #[test]
    fn generic_mode_disables_zero_copy_unless_required() {
        let of = |mode, zero_copy| {
            let sockets = SocketConfig {
                zero_copy,
                ..SocketConfig::new("eth0", 2, 1500)
            };
            sockets_for_mode(&sockets, mode, Ipv6Checksum::None).zero_copy
        };
        assert_eq!(of(Mode::Generic, ZeroCopy::Auto), ZeroCopy::Off);
        assert_eq!(of(Mode::Generic, ZeroCopy::Require), ZeroCopy::Require);
        assert_eq!(of(Mode::Native, ZeroCopy::Auto), ZeroCopy::Auto);
    }
}
