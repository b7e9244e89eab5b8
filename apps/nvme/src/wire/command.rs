//! Commands, submission queue entries of 64 bytes (Base, 3.3.3.1), and their responses.

use super::field::{put, u16_at, u32_at, u64_at};
use super::{BadSgl, Sgl, Status};

/// The length of a command in bytes, without data in its capsule.
pub const COMMAND_LEN: usize = 64;

/// The opcode of all Fabrics commands.
pub(super) const FABRICS: u8 = 0x7f;
/// PSDT: the data are described by an SGL.
const BY_SGL: u8 = 0x40;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    bytes: [u8; COMMAND_LEN],
}

impl Command {
    /// A command of `opcode` for namespace `namespace` (0: none), without data.
    pub(super) fn new(opcode: u8, namespace: u32) -> Self {
        let mut command = Self {
            bytes: [0; COMMAND_LEN],
        };
        command.bytes[0] = opcode;
        command.bytes[1] = BY_SGL;
        put(&mut command.bytes, 4, &namespace.to_le_bytes());
        command.with_sgl(&Sgl::NONE)
    }

    /// A Fabrics command of type `kind`, without data.
    pub(super) fn fabrics(kind: u8) -> Self {
        let mut command = Self::new(FABRICS, 0);
        command.bytes[4] = kind;
        command
    }

    /// Replaces the bytes from `at` on.
    #[must_use]
    pub(super) fn with(mut self, at: usize, value: &[u8]) -> Self {
        put(&mut self.bytes, at, value);
        self
    }

    /// The same for data at `sgl`.
    #[must_use]
    pub fn with_sgl(self, sgl: &Sgl) -> Self {
        self.with(24, &sgl.encode())
    }

    /// The same with the identifier `id`.
    #[must_use]
    pub fn with_id(self, id: u16) -> Self {
        self.with(2, &id.to_le_bytes())
    }

    /// From the bytes of a capsule. Each pattern of bits is a command; what it asks for is parsed by
    /// [`admin::Request::parse`](super::admin::Request::parse) and its sibling.
    pub fn from_bytes(bytes: [u8; COMMAND_LEN]) -> Self {
        Self { bytes }
    }

    /// The command's bytes.
    pub fn bytes(&self) -> &[u8; COMMAND_LEN] {
        &self.bytes
    }

    /// The identifier, which the response repeats.
    pub fn id(&self) -> u16 {
        self.u16_at(2)
    }

    /// Where the command's data are.
    ///
    /// # Errors
    /// If the descriptor is not one of this transport.
    pub fn sgl(&self) -> Result<Sgl, BadSgl> {
        let mut descriptor = [0; 16];
        descriptor.copy_from_slice(&self.bytes[24..40]);
        Sgl::parse(&descriptor)
    }

    pub(super) fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// The namespace; for a Fabrics command its type is in the first byte.
    pub(super) fn namespace(&self) -> u32 {
        self.u32_at(4)
    }

    pub(super) fn byte_at(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    pub(super) fn u16_at(&self, at: usize) -> u16 {
        u16_at(&self.bytes, at)
    }

    pub(super) fn u32_at(&self, at: usize) -> u32 {
        u32_at(&self.bytes, at)
    }

    pub(super) fn u64_at(&self, at: usize) -> u64 {
        u64_at(&self.bytes, at)
    }
}

/// The length of a response in bytes.
pub const RESPONSE_LEN: usize = 16;

/// The response to a command (Base, 3.3.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The command's result, in the first 8 bytes. Most commands have none.
    pub result: u64,
    /// The target's head of the submission queue.
    pub sq_head: u16,
    /// The identifier of the command.
    pub command_id: u16,
    /// The status of the command.
    pub status: Status,
}

impl Response {
    /// Parses a response. Each pattern of bits is one.
    pub fn parse(bytes: &[u8; RESPONSE_LEN]) -> Self {
        Self {
            result: u64_at(bytes, 0),
            sq_head: u16_at(bytes, 8),
            command_id: u16_at(bytes, 12),
            status: Status::from_bits(u16_at(bytes, 14)),
        }
    }

    /// The response's bytes. The field for the queue's number, which Fabrics does not use, is 0.
    pub fn encode(&self) -> [u8; RESPONSE_LEN] {
        let mut bytes = [0; RESPONSE_LEN];
        put(&mut bytes, 0, &self.result.to_le_bytes());
        put(&mut bytes, 8, &self.sq_head.to_le_bytes());
        put(&mut bytes, 12, &self.command_id.to_le_bytes());
        put(&mut bytes, 14, &self.status.bits().to_le_bytes());
        bytes
    }
}
