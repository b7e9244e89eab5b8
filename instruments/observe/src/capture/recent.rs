//! The last packets of a device, in memory, until a QP fails.

use super::captured::{Captured, Names};
use crate::DeviceNames;
use parking_lot::Mutex;
use roce_capture::{Packet, Section};
use roce_stack::RoceVersion;
use roce_wire::Qpn;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

/// The number of packets that are kept of a device.
pub(crate) const MOST_PACKETS: usize = 1024;

#[derive(Debug)]
struct Kept {
    qpn: Qpn,
    version: RoceVersion,
    time: SystemTime,
    direction: roce_capture::Direction,
    bytes: Vec<u8>,
    comments: Vec<String>,
}

/// The last packets of a device, oldest first. Clones share them.
#[derive(Clone, Debug)]
pub struct RecentPackets {
    names: Arc<Names>,
    kept: Arc<Mutex<VecDeque<Kept>>>,
}

/// Packets of a QP, as a section of a pcapng file.
#[derive(Debug)]
pub(crate) struct PacketsOfQp {
    /// Their number.
    pub(crate) count: usize,
    /// The section; empty if there are none.
    pub(crate) section: Vec<u8>,
}

impl RecentPackets {
    /// None yet, of the device with these names.
    pub fn new(device: &DeviceNames) -> Self {
        Self {
            names: Arc::new(Names::of(device)),
            kept: Arc::default(),
        }
    }

    /// Keeps a packet, in the place of the oldest one if there are many.
    pub(super) fn keep(&self, packet: &Captured<'_>) {
        let mut all = self.kept.lock();
        let mut bytes = match all.len() {
            MOST_PACKETS.. => all.pop_front().map_or_else(Vec::new, |kept| kept.bytes),
            _ => Vec::new(),
        };
        bytes.clear();
        bytes.extend_from_slice(packet.bytes);
        all.push_back(Kept {
            qpn: packet.qpn,
            version: packet.version,
            time: packet.time,
            direction: packet.direction,
            bytes,
            comments: packet.comments.to_vec(),
        });
    }

    /// The packets of a QP. `explanation` becomes a comment of the last one.
    ///
    /// # Errors
    /// If they can't be encoded.
    pub(crate) fn of_qp(&self, qpn: Qpn, explanation: &str) -> io::Result<PacketsOfQp> {
        let (names, all) = (&self.names, self.kept.lock());
        let kept: Vec<&Kept> = all.iter().filter(|kept| kept.qpn == qpn).collect();
        let mut section = Section::new()?;
        let v2 = section.add_interface(&names.interface(RoceVersion::V2))?;
        let mut v1 = None;
        for (number, packet) in kept.iter().enumerate() {
            let interface = match (packet.version, v1) {
                (RoceVersion::V2, _) => v2,
                (RoceVersion::V1, Some(known)) => known,
                (RoceVersion::V1, None) => {
                    *v1.insert(section.add_interface(&names.interface(RoceVersion::V1))?)
                }
            };
            let mut comments = packet.comments.clone();
            if number + 1 == kept.len() {
                comments.push(explanation.to_owned());
            }
            section.packet(&Packet {
                interface,
                time: packet.time,
                direction: packet.direction,
                bytes: &packet.bytes,
                wire_len: packet.bytes.len(),
                comments: &comments,
            })?;
        }
        Ok(PacketsOfQp {
            count: kept.len(),
            section: match kept.len() {
                0 => Vec::new(),
                _ => section.into_bytes(),
            },
        })
    }
}
