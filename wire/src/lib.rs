//! RoCEv2 packet formats: bytes to values and back.
//!
//! This crate has every header that a RoCEv2 packet may carry, the headers of each opcode, the
//! arithmetic of 24-bit packet sequence numbers and the invariant CRC. It has no state of queue
//! pairs, reads only the bytes that it is given, allocates no memory and needs no `std`.
//!
//! # Layers
//!
//! ```text
//! Ethernet │ 802.1Q │ IPv4/IPv6 │ UDP │ BTH │ RETH, AETH … │ payload │ pad │ ICRC
//! └──────────────── Frame ───────────┘└──────────────── Packet ──────────────┘
//! ```
//!
//! - [`Packet::parse`] takes the bytes from the BTH to the ICRC (the payload of the UDP datagram)
//!   and returns typed headers and a borrowed payload; [`PacketRepr::emit_headers`] is the inverse.
//! - [`icrc`] computes, writes and checks the invariant CRC of those bytes.
//! - [`Frame`] parses a whole frame, for decoders and for ports that see the link layer;
//!   [`FrameRepr`] is the inverse.
//! - [`Opcode::info`] has for each opcode the headers that follow the BTH and the legal payload.
//! - [`cm`] has the management datagrams that establish and release connections.
//!
//! # Promises
//!
//! No `parse` function panics, whatever the bytes; a [`ParseError`] contains the header and the
//! field that were wrong, the value found and the valid values. An `emit` function panics only if
//! the buffer is shorter than the length that its type documents, which no input from a network can
//! cause.
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
