//! Claims of parts of the QPN space.

use std::io::{self, ErrorKind};

use roce_stack::QpnRange;
use socket2::Socket;

use super::names;
use super::owned_names::OwnedNames;

/// The number of parts that can be claimed. The last part contains QPN 0xFFFFFF, which all
/// multicast packets carry, so no process may claim it.
const PARTS: u8 = QpnRange::COUNT - 1;

/// A claim of one part of the QPN space. While this value lives, no other process has the part on
/// this interface in this network namespace. The claim also ends when the process ends or is
/// killed.
#[derive(Debug)]
pub struct PartClaim {
    part: QpnRange,
    _claimer: PartClaimer,
}

impl PartClaim {
    /// Claims the first free part on the interface with this index.
    ///
    /// # Errors
    /// If all parts are claimed, or the kernel refuses.
    pub fn take(interface_index: u32) -> io::Result<Self> {
        let claimer = PartClaimer::new(interface_index)?;
        Ok(Self {
            part: claimer.claim()?,
            _claimer: claimer,
        })
    }

    /// The claimed part.
    pub fn part(&self) -> QpnRange {
        self.part
    }
}

/// Claims a part later, from any thread. The claim applies to the network namespace of the thread
/// that created this value.
#[derive(Debug)]
pub struct PartClaimer {
    interface_index: u32,
    /// One of them gets the name that is the claim, in [`PartClaimer::claim`]. The second is needed
    /// if another process has claimed the same part at the same time.
    sockets: [Socket; 2],
    names: OwnedNames,
}

impl PartClaimer {
    /// Prepares a claim; claims nothing yet.
    ///
    /// # Errors
    /// If the kernel refuses a socket.
    pub fn new(interface_index: u32) -> io::Result<Self> {
        Ok(Self {
            interface_index,
            sockets: [names::unbound()?, names::unbound()?],
            names: OwnedNames::new(),
        })
    }

    /// Claims the first free part on the interface, for as long as this value lives. Call it once.
    ///
    /// # Errors
    /// If all parts are claimed, the kernel refuses, or this is the second call.
    pub fn claim(&self) -> io::Result<QpnRange> {
        for socket in &self.sockets {
            for part in (0..PARTS).filter_map(QpnRange::new) {
                let name = names::part_of_interface(self.interface_index, part);
                match self.names.bind(socket, &name) {
                    Ok(()) => return Ok(part),
                    Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                    // The socket has the name of a part that another process claimed, too.
                    Err(error) if error.kind() == ErrorKind::InvalidInput => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(io::Error::new(
            ErrorKind::AddrInUse,
            format!(
                "{PARTS} open devices have QPs on the interface, which is the maximum for all \
                 processes together: open the device once in each process, end processes, or use \
                 another interface"
            ),
        ))
    }
}
