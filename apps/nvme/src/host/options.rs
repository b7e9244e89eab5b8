//! The options of a host.

use crate::wire::{HostId, Nqn};
use std::time::Duration;

/// The prefix of host names that are made from a UUID (Base, 4.5).
const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// The options of a host.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// I/O queues. The controller may grant fewer.
    pub queues: u16,
    /// Entries of an I/O queue, 2 to 1024. One fewer command may be outstanding. The controller's
    /// limit applies as well.
    pub depth: u16,
    /// The controller gives up on a host that it has not heard from for this long. The host sends a
    /// keep-alive command twice as often. Zero: never.
    pub keep_alive: Duration,
    /// A command that is not answered within this time makes its queue fail.
    pub timeout: Duration,
    /// The host's name.
    pub name: Nqn,
    /// The host's identifier.
    pub id: HostId,
}

impl Default for HostOptions {
    /// One queue of 128 entries, 5 s for keep-alive, 30 s for a command, and a random name.
    fn default() -> Self {
        let mut id = HostId::default();
        // Without randomness the identifier is zero: hosts then cannot be told apart, and still work.
        let _ = getrandom::fill(&mut id.0);
        // The bits that make it a random UUID (RFC 9562, 5.4).
        id.0[6] = id.0[6] & 0x0f | 0x40;
        id.0[8] = id.0[8] & 0x3f | 0x80;
        Self {
            queues: 1,
            depth: 128,
            keep_alive: Duration::from_secs(5),
            timeout: Duration::from_secs(30),
            name: format!("{UUID_PREFIX}{id}")
                .parse()
                .expect("it begins with nqn."),
            id,
        }
    }
}
