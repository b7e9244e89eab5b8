//! Writes the frames of chosen ports to a capture, with a comment on each that was marked or
//! dropped.

use super::names::Names;
use roce_capture::{Capture, Direction, Interface, InterfaceId, LinkType, Packet};
use roce_sim::fabric::{DropReason, Fabric, Fate, Port, SeenPacket, SeenPackets};
use roce_sim::record::PortId;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Bytes of each frame in a capture: whole frames.
pub(crate) const SNAP_BYTES: usize = 65_536;

/// Writes the frames that chosen ports send or drop.
#[derive(Debug)]
pub(crate) struct FrameCapture {
    capture: Capture,
    ports: BTreeMap<PortId, Watched>,
    /// The time of day at the fabric's time 0.
    epoch: SystemTime,
}

/// A port, by its interface in the capture and the names of the nodes.
#[derive(Debug)]
struct Watched {
    interface: InterfaceId,
    from: String,
    to: String,
}

impl FrameCapture {
    /// Watches the ports' cables. The capture gets an interface for each port. `epoch` is the time
    /// of day at the fabric's time 0.
    pub(crate) fn new(
        capture: Capture,
        fabric: &mut Fabric,
        ports: &[Port],
        names: &Names,
        epoch: SystemTime,
    ) -> Self {
        let add = |port: &Port| {
            fabric.watch(port.cable, SNAP_BYTES);
            let [from, to] = [port.from, port.to].map(|node| names.node(node));
            let interface = capture.add_interface(&Interface {
                name: &format!("{from}-{to}"),
                description: &format!("the port of {from} to {to}"),
                link_type: LinkType::Ethernet,
            });
            let watched = Watched {
                interface,
                from,
                to,
            };
            ((port.cable, port.from), watched)
        };
        Self {
            ports: ports.iter().map(add).collect(),
            capture,
            epoch,
        }
    }

    /// Writes the packets of the ports. A packet that is lost on the link is written twice: when it
    /// was sent, and with a comment when it was lost.
    pub(crate) fn add(&self, packets: &SeenPackets) {
        for packet in packets.iter() {
            let Some(port) = self.ports.get(&(packet.cable, packet.from)) else {
                continue;
            };
            if packet.fate == Fate::Arrived {
                continue;
            }
            let time = Duration::from_nanos(packet.time.as_nanos());
            self.capture.packet(&Packet {
                interface: port.interface,
                time: self.epoch + time,
                direction: Direction::Sent,
                bytes: packet.frame,
                wire_len: packet.frame_len,
                comments: port.comment(&packet).as_slice(),
            });
        }
        self.capture.flush();
    }
}

impl Watched {
    /// The fate of a packet, unless it was sent as usual.
    fn comment(&self, packet: &SeenPacket<'_>) -> Option<String> {
        let Self { from, to, .. } = self;
        let queued = packet.queued_bytes;
        let reason = match packet.fate {
            Fate::Sent | Fate::Arrived => return None,
            Fate::Marked => {
                let what = "marked \"congestion experienced\"";
                return Some(format!(
                    "{what} at {from} port to {to}: {queued} bytes queued"
                ));
            }
            Fate::Dropped(reason) => reason,
        };
        Some(match reason {
            DropReason::QueueFull | DropReason::MemoryFull => {
                format!("dropped at {from} port to {to}: {reason}, {queued} bytes queued")
            }
            DropReason::TooLong => format!("dropped at {from} port to {to}: {reason}"),
            DropReason::Lost | DropReason::LinkDown => {
                format!("dropped between {from} and {to}: {reason}")
            }
            DropReason::NoRoute | DropReason::RingFull => format!("dropped by {to}: {reason}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Incast, names};
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn dropped_and_marked_frames_have_comments() {
        let mut incast = Incast::new(4);
        let port = incast.port_to_receiver();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s1.pcapng");
        let capture = Capture::create(&path).expect("a file");
        let epoch = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let frames = FrameCapture::new(capture, &mut incast.fabric, &[port], &names(4), epoch);
        let mut seen = SeenPackets::default();
        incast.run(|fabric| {
            fabric.take_seen(&mut seen);
            frames.add(&seen);
        });
        let bytes = std::fs::read(&path).expect("written");
        let text = String::from_utf8_lossy(&bytes);
        let counters = incast.fabric.counters();
        assert!(counters.dropped > 0 && counters.marked > 0);
        let dropped = text
            .matches("dropped at s1 port to h5: queue full, ")
            .count();
        assert_eq!(dropped as u64, counters.dropped);
        let marked = text.matches("marked \"congestion experienced\" at s1 port to h5: ");
        assert_eq!(marked.count() as u64, counters.marked);
        assert!(text.contains(" bytes queued"));
        assert!(text.contains("the port of s1 to h5"));
    }

    #[test]
    fn a_comment_names_the_node_that_dropped() {
        let mut incast = Incast::new(1);
        let port = incast.port_to_receiver();
        let folder = tempfile::tempdir().expect("a folder");
        let capture = Capture::create(folder.path().join("a.pcapng")).expect("a file");
        let fabric = &mut incast.fabric;
        let frames = FrameCapture::new(capture, fabric, &[port], &names(1), UNIX_EPOCH);
        let watched = &frames.ports[&(port.cable, port.from)];
        let comment = |fate| {
            watched.comment(&SeenPacket {
                time: fabric.now(),
                cable: port.cable,
                from: port.from,
                fate,
                queued_bytes: 7,
                frame: &[],
                frame_len: 60,
            })
        };
        let reasons = DropReason::ALL.map(|reason| comment(Fate::Dropped(reason)));
        let expected = [
            "dropped at s1 port to h2: queue full, 7 bytes queued",
            "dropped at s1 port to h2: switch memory full, 7 bytes queued",
            "dropped by h2: no route",
            "dropped at s1 port to h2: too long for the link",
            "dropped between s1 and h2: lost on the link",
            "dropped between s1 and h2: link down",
            "dropped by h2: receive ring full",
        ];
        assert_eq!(reasons, expected.map(|text| Some(text.to_owned())));
        assert_eq!(comment(Fate::Sent), None);
    }
}
