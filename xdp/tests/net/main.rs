//! What `net` learns from the kernel, in network namespaces of the tests' own. Takes
//! root and iproute2.

mod beside;
mod follow;
mod frames;
mod lab;
mod resolve;
