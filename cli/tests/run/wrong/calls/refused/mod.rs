//! Calls that are refused.

mod connections;
mod objects;
mod requests;
mod transitions;

pub(super) use connections::CONNECTION_CALLS;
pub(super) use objects::OBJECTS;
pub(super) use requests::REQUESTS;
pub(super) use transitions::TRANSITIONS;
