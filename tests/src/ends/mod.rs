//! The two ends of a connection between this stack and the kernel's Soft-RoCE.
//!
//! [`Ours`] is this stack behind its Rust API, in the lab's namespace; [`Theirs`]
//! is rxe behind libibverbs, in the guest. Both implement [`End`], so that a test can run in the
//! other direction by exchanging the two:
//!
//! ```no_run
//! use roce_tests::ends::{End, Options, connect};
//! use roce_tests::lab::Lab;
//! use roce_tests::peer::Operation;
//!
//! fn write(from: &mut dyn End, to: &mut dyn End) {
//!     from.write_memory(0, b"hello");
//!     let (addr, rkey) = to.remote(100);
//!     from.post(1, Operation::Write { addr, rkey }, &[(0, 5)]);
//!     assert!(from.completion().is_success());
//!     assert_eq!(to.read_memory(100, 5), b"hello");
//! }
//!
//! let Some(lab) = Lab::get_or_skip() else { return };
//! let (mut ours, mut theirs) = connect(&lab, &Options::default());
//! write(&mut ours, &mut theirs);
//! write(&mut theirs, &mut ours);
//! ```
//!
//! They are for tests only, so they panic where a test would unwrap.

pub mod mix;
mod ours;
mod theirs;

use std::time::Duration;

use crate::lab::Lab;
use crate::peer::{Access, Completion, GidIndex, Operation};

pub use ours::Ours;
pub use theirs::Theirs;

/// The longest time to wait for a completion.
pub const COMPLETION_TIMEOUT: Duration = Duration::from_secs(60);

/// One end of a connection: a queue pair, its completion queue, and one region.
pub trait End {
    /// The end's name, for messages.
    fn name(&self) -> &'static str;

    /// Writes into the end's own region, at an offset in bytes.
    fn write_memory(&mut self, offset: u32, bytes: &[u8]);

    /// Reads the end's own region.
    fn read_memory(&mut self, offset: u32, length: u32) -> Vec<u8>;

    /// Address of a byte of the region, and the region's key, with which the other end accesses it.
    fn remote(&self, offset: u32) -> (u64, u32);

    /// Posts a signaled request. Its memory consists of parts of the region, each with offset and
    /// length in bytes.
    fn post(&mut self, wr_id: u64, operation: Operation, parts: &[(u32, u32)]);

    /// Posts a receive into parts of the region.
    fn receive(&mut self, wr_id: u64, parts: &[(u32, u32)]);

    /// Waits for the next `count` completions, of either queue.
    ///
    /// # Panics
    /// If they have not arrived after [`COMPLETION_TIMEOUT`].
    fn completions(&mut self, count: usize) -> Vec<Completion>;

    /// Waits for the next completion.
    fn completion(&mut self) -> Completion {
        self.completions(1).remove(0)
    }

    /// State of the queue pair: `RTS`, `ERR` ...
    fn state(&mut self) -> String;

    /// An aligned word of the region, in host order.
    fn word(&mut self, offset: u32) -> u64 {
        let bytes = self.read_memory(offset, 8);
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes were read"))
    }
}

/// The options of a connection. Retries and timers are the same for both ends.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address family.
    pub gid: GidIndex,
    /// Path MTU in bytes; `None` for the largest that the link carries.
    pub path_mtu: Option<u32>,
    /// Length of each end's region in bytes.
    pub length: u32,
    /// Rights to our region.
    pub our_region: roce_verbs::Access,
    /// Rights to their region.
    pub their_region: Access,
    /// Local ACK timeout: 4.096 us × 2^timeout.
    pub timeout: u8,
    /// Transport retries, at most 7.
    pub retry_count: u8,
    /// Retries after an RNR NAK; 7 means unlimited.
    pub rnr_retry: u8,
    /// Code of the delay in RNR NAKs.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding in either direction.
    pub max_rd_atomic: u8,
}

impl Default for Options {
    /// IPv4, 1 MiB with all rights, a timeout of 67 ms, seven retries, unlimited RNR retries after
    /// 0.64 ms each, four READs and atomics.
    fn default() -> Self {
        Self {
            gid: GidIndex::Ip4,
            path_mtu: None,
            length: 1 << 20,
            our_region: roce_verbs::Access::ANY_MEMORY,
            their_region: Access::ALL_REMOTE | Access::MW_BIND,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_rd_atomic: 4,
        }
    }
}

/// Two ends, connected to each other.
///
/// # Panics
/// If any step fails.
pub fn connect(lab: &Lab, options: &Options) -> (Ours, Theirs) {
    let mut ours = Ours::open(lab, options);
    let mut theirs = Theirs::open(lab, options);
    let (to_us, to_them) = (ours.endpoint(), theirs.endpoint());
    ours.connect(lab, options, &to_them);
    theirs.connect(options, &to_us);
    (ours, theirs)
}

/// Bytes that differ from each other and from those of another seed.
pub fn pattern(length: u32, seed: u32) -> Vec<u8> {
    (0..length)
        .map(|i| ((i ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 24) as u8)
        .collect()
}
