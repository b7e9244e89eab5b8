//! Which part of the QPNs is whose.

use std::io::{self, ErrorKind};

use roce_stack::QpnPart;
use socket2::Socket;

use super::names;

/// The last part has the number that all multicast packets carry, and is nobody's.
const PARTS: u8 = QpnPart::COUNT - 1;

/// A part of the QPNs that nobody else on the interface in this network namespace has, as
/// long as this value lives. It ends with the process, however that ends.
#[derive(Debug)]
pub struct PartClaim {
    part: QpnPart,
    _claimer: PartClaimer,
}

impl PartClaim {
    /// Takes the first part that is free on the interface of this index.
    ///
    /// # Errors
    /// If all are taken, or the kernel refuses.
    pub fn take(interface_index: u32) -> io::Result<Self> {
        let claimer = PartClaimer::new(interface_index)?;
        Ok(Self {
            part: claimer.claim()?,
            _claimer: claimer,
        })
    }

    /// The part.
    pub fn part(&self) -> QpnPart {
        self.part
    }
}

/// What a part can be claimed with, later and by any thread: in the network namespace of the
/// thread that made this value.
#[derive(Debug)]
pub struct PartClaimer {
    interface_index: u32,
    /// Has no name before the claim.
    socket: Socket,
}

impl PartClaimer {
    /// Claims nothing yet.
    ///
    /// # Errors
    /// If the kernel gives no socket.
    pub fn new(interface_index: u32) -> io::Result<Self> {
        Ok(Self {
            interface_index,
            socket: names::nameless()?,
        })
    }

    /// Claims the first part that is free on the interface, for as long as this value lives.
    /// To be called once.
    ///
    /// # Errors
    /// If all are taken, or the kernel refuses: a second time, too.
    pub fn claim(&self) -> io::Result<QpnPart> {
        for part in (0..PARTS).filter_map(QpnPart::new) {
            let name = names::part_of_interface(self.interface_index, part);
            match names::give(&self.socket, &name) {
                Ok(()) => return Ok(part),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            ErrorKind::AddrInUse,
            format!("{PARTS} open devices have QPs on the interface, and no more can share it"),
        ))
    }
}
