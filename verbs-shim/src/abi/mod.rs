//! The structures of `verbs.h` and `rdma_cma.h`, as of rdma-core 56: their layout is the ABI. Pointers in
//! them have the types of `pointer`. A test compares each of them with what a C
//! compiler makes of the installed header.

mod attributes;
mod cm;
mod constants;
mod context;
mod extended;
mod grown;
mod layout;
mod objects;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attributes::*;
pub use cm::cm;
pub(crate) use cm::*;
pub use constants::constants;
pub(crate) use constants::*;
pub(crate) use context::*;
pub(crate) use extended::*;
pub use layout::{Constant, Layout, Since};
pub(crate) use objects::*;
pub(crate) use work::*;

/// The layout of every structure.
pub fn layouts() -> impl Iterator<Item = &'static Layout> {
    [
        attributes::LAYOUTS,
        context::LAYOUTS,
        extended::LAYOUTS,
        objects::LAYOUTS,
        work::LAYOUTS,
    ]
    .into_iter()
    .flatten()
}
