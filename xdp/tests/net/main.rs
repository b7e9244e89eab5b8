//! Tests of the routes, neighbours and links that `net` learns from the kernel, in network
//! namespaces of the tests' own. They need root and iproute2.

mod follow;
mod frames;
mod lab;
mod other_interfaces;
mod resolve;
