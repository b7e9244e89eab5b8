//! The packets of a capture of the lab, and checks of them.

use std::fs;
use std::path::Path;

use roce_wire::{
    ETHERTYPE_ROCE_V1, Frame, IcrcVerdict, NetworkHeader, Packet, Qpn, Syndrome, UDP_PORT,
};

use crate::decode::assert_decode_agrees_but_for_icrcs;
use crate::lab::{GUEST_IP4, GUEST_LL6, HOST_IP4, HOST_LL6, Lab};

/// Length of a pcap file's header, and of the header of each packet, in bytes.
const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;

/// The sender of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// This stack, outside the guest.
    Ours,
    /// The guest's Soft-RoCE.
    Theirs,
}

/// The RoCE frames of one capture.
#[derive(Clone, Debug)]
pub struct Frames {
    frames: Vec<Vec<u8>>,
}

impl Frames {
    /// Reads a capture that the lab has made: a pcap file, little-endian, with link
    /// type Ethernet. Skips other frames. Checks that `roce decode` and tshark agree about each
    /// packet.
    ///
    /// # Panics
    /// If the file does not exist or is not such a capture, or they do not agree.
    pub fn read(file: &Path) -> Self {
        // Some packets were corrupted on purpose: the test knows which ICRCs must be right.
        assert_decode_agrees_but_for_icrcs(file);
        let bytes = fs::read(file).expect("the capture is there");
        let (header, mut rest) = bytes.split_at(FILE_HEADER);
        assert_eq!(header[..4], [0xd4, 0xc3, 0xb2, 0xa1], "{}", file.display());
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let (header, after) = rest.split_at(PACKET_HEADER);
            let [captured, original] = [8, 12].map(|at| {
                let field = header[at..at + 4].try_into().expect("four bytes");
                u32::from_le_bytes(field) as usize
            });
            assert_eq!(captured, original, "a packet is cut off");
            let (frame, after) = after.split_at(captured);
            if is_roce(frame) {
                frames.push(frame.to_vec());
            }
            rest = after;
        }
        Self { frames }
    }

    /// The number of frames.
    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// All of them, parsed.
    ///
    /// # Panics
    /// At a frame that is malformed.
    pub fn packets(&self) -> impl Iterator<Item = (Sender, Packet<'_>)> {
        self.frames.iter().map(|bytes| {
            let frame = parse(bytes);
            let packet = frame.packet();
            let packet = packet.unwrap_or_else(|e| panic!("{e}: {bytes:02x?}"));
            (sender(&frame), packet)
        })
    }

    /// The syndromes of the acknowledgements that `from` sent to a queue pair, in
    /// order.
    pub fn syndromes(&self, from: Sender, to: Qpn) -> Vec<Syndrome> {
        self.packets()
            .filter(|(sender, packet)| *sender == from && packet.bth.dest_qpn == to)
            .filter_map(|(_, packet)| Some(packet.ext.aeth?.syndrome))
            .collect()
    }

    /// Checks the ICRC of each frame of both senders.
    ///
    /// # Panics
    /// If one is wrong, or if either side sent nothing.
    pub fn assert_icrcs(&self) {
        for from in [Sender::Ours, Sender::Theirs] {
            let frames: Vec<_> = self
                .frames
                .iter()
                .map(|bytes| parse(bytes))
                .filter(|frame| sender(frame) == from)
                .collect();
            assert!(!frames.is_empty(), "no frame of {from:?}");
            for frame in frames {
                let verdict = frame.icrc_verdict();
                assert_eq!(verdict, IcrcVerdict::Valid, "of {from:?}: {frame:?}");
            }
        }
    }
}

/// Checks that tshark, which shares no code with this stack, considers each RoCE frame of a capture
/// well-formed.
///
/// tshark looks for other protocols in the payload of a SEND: for an EtherType followed by two
/// zeros, even in an empty payload, which it then reports as malformed. So SENDs of less than 8
/// bytes are excused here. Longer ones are not, and must not have zeros as their third and fourth
/// byte.
///
/// # Panics
/// If it does not.
pub fn assert_tshark_content(lab: &Lab, file: &Path) {
    let matching = |filter: &str| {
        let mut tshark = lab.host_command("tshark");
        // Without this, a source port of another protocol would make it that one.
        let output = tshark
            .args(["-n", "-d", "udp.port==4791,infiniband", "-Y", filter, "-r"])
            .arg(file)
            .output()
            .expect("tshark runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("tshark writes UTF-8")
    };
    // UDP's length counts 8 bytes of its own, 12 of the BTH, 4 of the ICRC.
    let short_send = "infiniband.bth.opcode <= 4 && udp.length < 32";
    let malformed = matching(&format!(
        "(_ws.malformed && !({short_send})) || ip.checksum.status == 0"
    ));
    assert!(malformed.is_empty(), "tshark says:\n{malformed}");
    let understood = matching("infiniband.bth").lines().count();
    assert_eq!(understood, Frames::read(file).count(), "{}", file.display());
}

fn is_roce(frame: &[u8]) -> bool {
    let port = UDP_PORT.to_be_bytes();
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame[23] == 17 && frame.get(36..38) == Some(&port),
        Some([0x86, 0xdd]) => frame[20] == 17 && frame.get(56..58) == Some(&port),
        other => other == Some(&ETHERTYPE_ROCE_V1.to_be_bytes()),
    }
}

fn parse(frame: &[u8]) -> Frame<'_> {
    Frame::parse_ethernet(frame).unwrap_or_else(|e| panic!("{e}: {frame:02x?}"))
}

fn sender(frame: &Frame<'_>) -> Sender {
    let (ours, theirs) = match frame.network {
        NetworkHeader::V4 { src, .. } => (src == HOST_IP4.octets(), src == GUEST_IP4.octets()),
        NetworkHeader::V6 { src, .. } => (src == HOST_LL6.octets(), src == GUEST_LL6.octets()),
        NetworkHeader::Grh(_) => (false, false),
    };
    match (ours, theirs) {
        (true, false) => Sender::Ours,
        (false, true) => Sender::Theirs,
        _ => panic!("neither end sent {frame:?}"),
    }
}
