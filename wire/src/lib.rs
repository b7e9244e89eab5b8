//! RoCEv2 packet formats: bytes to values and back.
//!
//! This crate knows every header that a RoCEv2 packet may carry, which of them
//! each opcode calls for, the arithmetic of 24-bit packet sequence numbers and the
//! invariant CRC. It knows no queue pair, reads only the bytes it is handed,
//! allocates nothing and needs no `std`.
//!
//! # Layers
//!
//! ```text
//! Ethernet │ 802.1Q │ IPv4/IPv6 │ UDP │ BTH │ RETH, AETH … │ payload │ pad │ ICRC
//! └──────────────── Frame ───────────┘└──────────────── Packet ──────────────┘
//! ```
//!
//! - [`Packet::parse`] takes the bytes from the BTH to the ICRC (the payload of the
//!   UDP datagram) and gives typed headers and a borrowed payload;
//!   [`PacketRepr::emit_headers`] is the way back.
//! - [`icrc`] computes, writes and checks the invariant CRC of those bytes.
//! - [`Frame`] parses a whole frame, for decoders and for ports that see the link
//!   layer; [`FrameRepr`] is the way back.
//! - [`Opcode::info`] says for each opcode which headers follow the BTH and what
//!   payload is legal.
//! - [`cm`] has the management datagrams that make and end connections.
//!
//! # Promises
//!
//! No `parse` function panics, whatever the bytes; a [`ParseError`] says which
//! field of which header was wrong, what was found and what would be right. An
//! `emit` function panics only if the buffer is shorter than the length that its
//! type documents, which no input from a network can bring about.
//!
//! Names and section numbers are those of the InfiniBand Architecture
//! Specification, volume 1, release 1.7 ("IBTA 1.7"), and of its Annex A17
//! ("RoCEv2 Annex").

#![no_std]
#![deny(unsafe_code)]
#![warn(missing_docs)]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod aeth;
mod atomic;
mod bth;
pub mod cm;
mod datagram;
mod error;
mod flush;
mod frame;
mod grh;
mod header;
pub mod icrc;
mod ids;
mod immediate;
mod mad;
mod mtu;
mod opcode;
mod packet;
mod payload;
mod psn;
mod reth;
mod syndrome;
mod udp;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod vectors;

pub use aeth::Aeth;
pub use atomic::{AtomicAckEth, AtomicEth};
pub use bth::Bth;
pub use datagram::{Deth, XrcEth};
pub use error::{Layer, ParseError, Reason};
pub use flush::{Feth, FlushPlacement, FlushSelectivity};
pub use frame::{ETHERTYPE_ROCE_V1, Frame, FrameRepr, IcrcVerdict, Link, NetworkHeader, VlanTag};
pub use grh::Grh;
pub use ids::{PKey, QKey, Qpn};
pub use immediate::{Ieth, ImmDt};
pub use mad::{MAD_LEN, MadHeader};
pub use mtu::PathMtu;
pub use opcode::{
    CNP_RESERVED_LEN, Headers, Opcode, OpcodeInfo, Operation, Position, Suffix, Transport,
};
pub use packet::{ExtHeaders, ICRC_LEN, Packet, PacketRepr};
pub use payload::PayloadRule;
pub use psn::Psn;
pub use reth::Reth;
pub use syndrome::{Credits, NakCode, RnrTimer, Syndrome};
pub use udp::{UDP_PORT, UdpHeader};
