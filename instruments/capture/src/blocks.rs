//! The blocks of a pcapng file.

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

/// The maximum number of bytes of a packet that are recorded: the largest snapshot length of
/// libpcap.
const SNAP_BYTES: usize = 256 << 10;

/// The maximum length of a comment, in bytes. A pcapng option can hold up to 65535.
const COMMENT_BYTES: usize = 4096;

/// The type of the header that a packet's bytes start with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    RawIp,
    /// Another link type, by its number (a LINKTYPE of tcpdump.org).
    Other(u16),
}

/// An interface whose packets are captured.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// The name of the interface.
    pub name: &'a str,
    /// A description for readers of the capture.
    pub description: &'a str,
    /// The link type of its packets.
    pub link_type: LinkType,
}

/// An interface of one capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(pub(crate) u32);

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The packet arrived.
    Received,
    /// The packet was sent.
    Sent,
}

/// A packet to capture.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface, which must belong to this capture.
    pub interface: InterfaceId,
    /// The time of the packet, which is written in nanoseconds.
    pub time: SystemTime,
    /// The direction of the packet.
    pub direction: Direction,
    /// The bytes of the packet, starting with the header of the link type.
    pub bytes: &'a [u8],
    /// The length on the wire, in bytes: at least the length of `bytes`.
    pub wire_len: usize,
    /// Texts that describe what happened to the packet.
    pub comments: &'a [String],
}

pub(crate) fn section_header() -> SectionHeaderBlock<'static> {
    SectionHeaderBlock {
        endianness: Endianness::Little,
        options: vec![
            SectionHeaderOption::Hardware(std::env::consts::ARCH.into()),
            SectionHeaderOption::OS(operating_system().into()),
            SectionHeaderOption::UserApplication(application().into()),
        ],
        ..SectionHeaderBlock::default()
    }
}

pub(crate) fn interface<'a>(interface: &Interface<'a>) -> InterfaceDescriptionBlock<'a> {
    InterfaceDescriptionBlock {
        linktype: match interface.link_type {
            LinkType::Ethernet => DataLink::ETHERNET,
            LinkType::RawIp => DataLink::RAW,
            LinkType::Other(number) => u32::from(number).into(),
        },
        snaplen: SNAP_BYTES as u32,
        options: vec![
            InterfaceDescriptionOption::IfName(interface.name.into()),
            InterfaceDescriptionOption::IfDescription(interface.description.into()),
            // The unit of time stamps is 10⁻⁹ s.
            InterfaceDescriptionOption::IfTsResol(9),
        ],
    }
}

pub(crate) fn packet<'a>(packet: &Packet<'a>) -> EnhancedPacketBlock<'a> {
    // Bits 0 and 1 of epb_flags: inbound, outbound.
    let flags = match packet.direction {
        Direction::Received => 1,
        Direction::Sent => 2,
    };
    let mut options = vec![EnhancedPacketOption::Flags(flags)];
    let comments = packet.comments.iter().map(|text| shortened(text));
    options.extend(comments.map(|text| EnhancedPacketOption::Comment(text.into())));
    let kept = &packet.bytes[..packet.bytes.len().min(SNAP_BYTES)];
    let wire_len = packet.wire_len.max(packet.bytes.len());
    EnhancedPacketBlock {
        interface_id: packet.interface.0,
        timestamp: packet.time.duration_since(UNIX_EPOCH).unwrap_or_default(),
        original_len: u32::try_from(wire_len).unwrap_or(u32::MAX),
        data: Cow::Borrowed(kept),
        options,
    }
}

/// The part of a text that fits in an option.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(COMMENT_BYTES)]
}

fn operating_system() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim()).trim_end().to_owned()
}

/// The name of this program, and its process ID.
fn application() -> String {
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(|path| path.file_name());
    let name = name.unwrap_or_default().to_string_lossy();
    let process = std::process::id();
    let version = env!("CARGO_PKG_VERSION");
    format!("roce {version} ({name}, process {process})")
}
