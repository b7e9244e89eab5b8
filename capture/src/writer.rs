//! Encodes packets as pcapng blocks, and writes the blocks to the file.

use crate::CreateError;
use crate::file::Output;
use crate::ring::Ring;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, Endianness, PcapError};
use std::borrow::Cow;
use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

/// Buffered blocks are written when they have at least this many bytes.
const BUFFER_BYTES: usize = 128 << 10;

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
pub struct InterfaceId(u32);

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

/// A capture being written.
pub(crate) struct Writer {
    /// Blocks that are not written to the file yet.
    blocks: PcapNgWriter<Vec<u8>>,
    interfaces: u32,
    /// The blocks at the start of each file: the section header, and the interfaces.
    head: Vec<u8>,
    /// Number of packets in `blocks`.
    pending: u64,
    /// Number of packets in the file.
    written: u64,
    ring: Ring,
    /// The file, or the reason why the capture ended.
    output: Result<Output, String>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("interfaces", &self.interfaces)
            .field("written", &self.written)
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins a section. Writes its header at once, so that an unwritable file is reported here.
    pub(crate) fn new(mut output: Output, ring: Ring) -> Result<Self, CreateError> {
        let header = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![
                SectionHeaderOption::Hardware(std::env::consts::ARCH.into()),
                SectionHeaderOption::OS(operating_system().into()),
                SectionHeaderOption::UserApplication(application().into()),
            ],
            ..SectionHeaderBlock::default()
        };
        let result = PcapNgWriter::with_section_header(Vec::new(), header)
            .map_err(into_io)
            .and_then(|mut blocks| {
                output.write(blocks.get_ref())?;
                let head = std::mem::take(blocks.get_mut());
                Ok((blocks, head))
            });
        match result {
            Ok((blocks, head)) => Ok(Self {
                blocks,
                interfaces: 0,
                head,
                pending: 0,
                written: 0,
                ring,
                output: Ok(output),
            }),
            Err(source) => {
                let path = ring.path().to_owned();
                Err(CreateError::Io { path, source })
            }
        }
    }

    pub(crate) fn add_interface(&mut self, interface: &Interface<'_>) -> InterfaceId {
        let id = InterfaceId(self.interfaces);
        self.interfaces += 1;
        let block = InterfaceDescriptionBlock {
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
        };
        // The buffered packets come before the new interface.
        self.flush();
        self.add(block);
        let added = self.blocks.get_ref().clone();
        self.flush();
        self.head.extend(added);
        id
    }

    pub(crate) fn packet(&mut self, packet: &Packet<'_>) {
        if self.output.is_err() {
            return;
        }
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
        let since = packet.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.add(EnhancedPacketBlock {
            interface_id: packet.interface.0,
            timestamp: since,
            original_len: u32::try_from(wire_len).unwrap_or(u32::MAX),
            data: Cow::Borrowed(kept),
            options,
        });
        self.pending += 1;
        if self.blocks.get_ref().len() >= BUFFER_BYTES {
            self.flush();
        }
    }

    fn add<'a>(&mut self, block: impl PcapNgBlock<'a>) {
        let complete_len = self.blocks.get_ref().len();
        if let Err(error) = self.blocks.write_pcapng_block(block) {
            // Writing to memory can't fail, so the block is invalid. For example, its interface
            // belongs to another capture.
            self.blocks.get_mut().truncate(complete_len);
            self.end(&into_io(error));
        }
    }

    pub(crate) fn flush(&mut self) {
        if self.blocks.get_ref().is_empty() {
            return;
        }
        let result = self.write();
        self.blocks.get_mut().clear();
        match result {
            Ok(()) => self.written += self.pending,
            Err(error) => self.end(&error),
        }
        self.pending = 0;
    }

    /// Writes the buffered blocks, to the next file if this one has no space for them.
    fn write(&mut self) -> io::Result<()> {
        let Ok(output) = &mut self.output else {
            return Ok(());
        };
        let blocks = self.blocks.get_ref();
        if self.ring.has_space(output.len(), blocks.len()) {
            return output.write(blocks);
        }
        let mut next = self.ring.next()?;
        next.write(&self.head)?;
        next.write(blocks)?;
        *output = next;
        Ok(())
    }

    /// Ends the capture, reports it once, and frees its memory.
    fn end(&mut self, error: &io::Error) {
        if self.output.is_ok() {
            let (path, packets) = (self.ring.path().display(), self.written);
            let message = format!("the capture {path} ends after {packets} packets: {error}");
            // Write the line at once, because another process may write to the same stderr.
            let line = format!("roce: {message}\n");
            let _ = io::stderr().write_all(line.as_bytes());
            self.output = Err(message);
        }
        *self.blocks.get_mut() = Vec::new();
    }

    pub(crate) fn written_packets(&self) -> u64 {
        self.written
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.output.as_ref().err().cloned()
    }
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
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
