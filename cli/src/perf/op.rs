//! The operations to measure.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// An operation to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// SEND into a receive request of the peer.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ.
    Read,
    /// Compare-and-swap of 8 bytes.
    Cas,
    /// Fetch-and-add to 8 bytes.
    Fadd,
}

impl Op {
    /// All of them, in the order of measurement.
    pub const ALL: [Op; 5] = [Op::Send, Op::Write, Op::Read, Op::Cas, Op::Fadd];

    /// Whether it is an atomic, whose size is 8.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::Cas | Self::Fadd)
    }

    /// Its name in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::Write => "WRITE",
            Self::Read => "READ",
            Self::Cas => "CMP_SWAP",
            Self::Fadd => "FETCH_ADD",
        }
    }
}
