//! Devices over AF_XDP, between two namespaces connected by a veth pair, and between two interfaces
//! of one namespace. Needs root.

mod cable;
mod chosen;
mod driven;
mod marks;
mod one_host;
mod others;
mod perf;
mod pingpong;
mod priorities;
mod sharing;
mod soak;
mod source_ports;
mod v1;
mod wireguard;
