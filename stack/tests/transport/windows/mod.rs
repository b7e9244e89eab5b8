//! Memory windows (IBTA 1.7, 10.6.7): the access that they give to which QPs, for how long, and
//! which bindings are refused.

mod access;
mod bind;
mod order;

use crate::sim::{B, Mem, Pair};
use roce_stack::{Access, MwBind, MwId, MwType, RemoteAddr};

const TYPES: [MwType; 2] = [MwType::Type1, MwType::Type2];

fn peers_rights() -> Access {
    Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC
}

/// A region at B which gives peers no rights of its own, but lets windows be bound.
fn bindable(pair: &mut Pair, len: usize) -> Mem {
    pair.nodes[B].mem_with(len, Access::LOCAL_WRITE | Access::MW_BIND)
}

fn window(pair: &mut Pair, kind: MwType) -> MwId {
    let node = &mut pair.nodes[B];
    node.nic.alloc_mw(node.pd, kind).expect("a window")
}

/// A binding of the bytes `from .. from + len` with all rights.
fn whole(window: MwId, mem: &Mem, from: usize, len: usize) -> MwBind {
    MwBind {
        window,
        key: 7,
        lkey: mem.key,
        addr: mem.addr() + from as u64,
        len: len as u64,
        access: peers_rights(),
        zero_based: false,
    }
}

/// The remote address of byte `offset` of the region through the binding.
fn through(bind: &MwBind, mem: &Mem, offset: usize) -> RemoteAddr {
    RemoteAddr {
        addr: mem.addr() + offset as u64,
        rkey: bind.window.rkey(bind.key),
    }
}
