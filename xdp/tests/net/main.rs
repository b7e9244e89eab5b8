//! Tests of the routes, neighbours and links that `net` gets from the kernel. They create network
//! namespaces, and need root and iproute2.

mod follow;
mod frames;
mod lab;
mod other_interfaces;
mod resolve;
