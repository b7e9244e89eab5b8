//! Commands of I/O queues (NVM, 3).

use super::Status;
use super::command::Command;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;

/// "Force unit access": the data are durable when the write is answered.
const FUA: u32 = 1 << 30;

/// Consecutive blocks of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The namespace's number.
    pub namespace: u32,
    /// The first block.
    pub first: u64,
    /// How many blocks, 1 to 65,536.
    pub count: u32,
}

/// A command of an I/O queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes all earlier writes to the namespace durable.
    Flush {
        /// The namespace's number; 0xffffffff: all namespaces.
        namespace: u32,
    },
    /// Writes blocks.
    Write {
        /// Which blocks.
        blocks: Blocks,
        /// Whether they are durable before the command is answered.
        durable: bool,
    },
    /// Reads blocks.
    Read(Blocks),
}

/// Makes all earlier writes to a namespace durable.
pub fn flush(namespace: u32) -> Command {
    Command::new(FLUSH, namespace)
}

/// Writes blocks. If `durable`, they are durable when the response comes.
pub fn write(blocks: &Blocks, durable: bool) -> Command {
    transfer(WRITE, blocks, if durable { FUA } else { 0 })
}

/// Reads blocks.
pub fn read(blocks: &Blocks) -> Command {
    transfer(READ, blocks, 0)
}

fn transfer(opcode: u8, blocks: &Blocks, flags: u32) -> Command {
    let length = blocks.count.saturating_sub(1) & 0xffff;
    Command::new(opcode, blocks.namespace)
        .with(40, &blocks.first.to_le_bytes())
        .with(48, &(length | flags).to_le_bytes())
}

impl Request {
    /// Parses a command of an I/O queue that is no Fabrics command.
    ///
    /// # Errors
    /// The status for the response, if the command is not one of those here.
    pub fn parse(command: &Command) -> Result<Self, Status> {
        let namespace = command.namespace();
        let dword12 = command.u32_at(48);
        let blocks = Blocks {
            namespace,
            first: command.u64_at(40),
            count: (dword12 & 0xffff) + 1,
        };
        match command.opcode() {
            FLUSH => Ok(Self::Flush { namespace }),
            WRITE => Ok(Self::Write {
                blocks,
                durable: dword12 & FUA != 0,
            }),
            READ => Ok(Self::Read(blocks)),
            _ => Err(Status::INVALID_OPCODE.do_not_retry()),
        }
    }
}
