//! Devices over AF_XDP, between two namespaces that a veth pair joins, and two interfaces of
//! one. Needs root.

mod chosen;
mod driven;
mod marks;
mod one_host;
mod others;
mod perf;
mod priorities;
mod sharing;
mod soak;
mod v1;
