//! Devices over AF_XDP, between two namespaces that a veth pair joins. Needs root.

mod chosen;
mod driven;
mod marks;
mod others;
mod perf;
mod priorities;
mod sharing;
mod soak;
mod v1;
