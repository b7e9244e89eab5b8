//! Responses: completion queue entries that a target sends.

use super::Status;
use super::field::{put, u16_at, u64_at};

/// The length of a response in bytes.
pub const RESPONSE_LEN: usize = 16;

/// The response to a command (Base, 3.3.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// What the command returns, in the first 8 bytes. Most commands return nothing.
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
