//! A few packets in memory, as a section of a pcapng file.

use crate::blocks::{self, Interface, InterfaceId, Packet};
use crate::writer::into_io;
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use std::io;

/// A complete section of a pcapng file, in memory. A file is one section or several, one after the
/// other, so several processes can append sections to one file.
pub struct Section {
    blocks: PcapNgWriter<Vec<u8>>,
    interfaces: u32,
}

impl Section {
    /// A section without packets.
    ///
    /// # Errors
    /// If it can't be encoded.
    pub fn new() -> io::Result<Self> {
        let blocks = PcapNgWriter::with_section_header(Vec::new(), blocks::section_header());
        Ok(Self {
            blocks: blocks.map_err(into_io)?,
            interfaces: 0,
        })
    }

    /// Adds an interface that packets of this section can belong to.
    ///
    /// # Errors
    /// If it can't be encoded.
    pub fn add_interface(&mut self, interface: &Interface<'_>) -> io::Result<InterfaceId> {
        self.add(blocks::interface(interface))?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// If its interface is of another section.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.add(blocks::packet(packet))
    }

    /// The bytes of the section.
    pub fn into_bytes(self) -> Vec<u8> {
        self.blocks.into_inner()
    }

    fn add<'a>(&mut self, block: impl PcapNgBlock<'a>) -> io::Result<()> {
        self.blocks.write_pcapng_block(block).map_err(into_io)?;
        Ok(())
    }
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section")
            .field("interfaces", &self.interfaces)
            .field("bytes", &self.blocks.get_ref().len())
            .finish_non_exhaustive()
    }
}
