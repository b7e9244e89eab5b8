//! The options of a target.

use super::protocol::Limits;
use std::time::Duration;

/// The options of a target.
#[derive(Clone, Copy, Debug)]
pub struct TargetOptions {
    /// Connections at the same time, over all hosts. Each I/O queue of a host is a connection.
    pub connections: usize,
    /// Connections at the same time whose host has not confirmed them yet, and as many whose host
    /// has not sent its connect command yet; at least 1. If there are more, the oldest of the
    /// address with the most of them ends.
    pub half_open: usize,
    /// A connection whose host does not send its connect command within this time is ended.
    pub connect_within: Duration,
    /// Memory of a queue for the data of its commands, in bytes. Commands for which no memory is
    /// left wait. At least the longest transfer.
    pub queue_memory: usize,
    /// The limits that hosts learn of.
    pub limits: Limits,
}

impl Default for TargetOptions {
    /// 256 connections, 64 of them half open for at most 30 s, and 4 MiB of memory for each queue.
    fn default() -> Self {
        Self {
            connections: 256,
            half_open: 64,
            connect_within: Duration::from_secs(30),
            queue_memory: 4 << 20,
            limits: Limits::default(),
        }
    }
}
