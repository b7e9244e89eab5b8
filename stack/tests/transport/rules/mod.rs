//! Rules that other tests imply, but that none shows by itself. Each test here fails if one line of
//! the stack changes.

mod memory;
mod packets;
mod requester;
mod responder;
mod states;
mod unreliable;
