//! Rules that the tests beside this file imply but none shows by itself. Each test
//! here breaks if one line of the stack does.

mod memory;
mod packets;
mod requester;
mod responder;
mod states;
mod unreliable;
