//! Which part of the QPNs is whose.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;

use roce_stack::QpnPart;

use super::names;

/// The last part has the number that all multicast packets carry, and is nobody's.
const PARTS: u8 = QpnPart::COUNT - 1;

/// A part of the QPNs that nobody else on the interface in this network namespace has, as
/// long as this value lives. It ends with the process, however that ends.
#[derive(Debug)]
pub struct PartClaim {
    part: QpnPart,
    _name: OwnedFd,
}

impl PartClaim {
    /// Takes the first part that is free on the interface of this index.
    ///
    /// # Errors
    /// If all are taken, or the kernel refuses.
    pub fn take(interface_index: u32) -> io::Result<Self> {
        for part in (0..PARTS).filter_map(QpnPart::new) {
            match names::hold(&names::part_of_interface(interface_index, part)) {
                Ok(name) => return Ok(Self { part, _name: name }),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            ErrorKind::AddrInUse,
            format!("the device is open {PARTS} times, and no more can share it"),
        ))
    }

    /// The part.
    pub fn part(&self) -> QpnPart {
        self.part
    }
}
