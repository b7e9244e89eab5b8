//! Writes the blocks of packets to the file.

use crate::CreateError;
use crate::blocks::{self, Interface, InterfaceId, Packet};
use crate::file::Output;
use crate::ring::Ring;
use pcap_file::PcapError;
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use roce_trust::files::is_descriptor_path;
use std::io::{self, Write as _};

/// Buffered blocks are written when they have at least this many bytes.
const BUFFER_BYTES: usize = 128 << 10;

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
        let result = PcapNgWriter::with_section_header(Vec::new(), blocks::section_header())
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
        // The buffered packets come before the new interface.
        self.flush();
        self.add(blocks::interface(interface));
        let added = self.blocks.get_ref().clone();
        self.flush();
        self.head.extend(added);
        id
    }

    pub(crate) fn packet(&mut self, packet: &Packet<'_>) {
        if self.output.is_err() {
            return;
        }
        self.add(blocks::packet(packet));
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
            // A user who pipes a capture into `head` needs no message.
            let quiet =
                error.kind() == io::ErrorKind::BrokenPipe && is_descriptor_path(self.ring.path());
            let (path, packets) = (self.ring.path().display(), self.written);
            let message = format!("the capture {path} ends after {packets} packets: {error}");
            // Write the line at once, because another process may write to the same stderr.
            let line = format!("roce: {message}\n");
            if !quiet {
                let _ = io::stderr().write_all(line.as_bytes());
            }
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

pub(crate) fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
