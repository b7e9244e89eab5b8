//! Tests of two agents, or of one agent with hand-written MADs, in virtual time.

mod establish;
mod gone;
mod held;
mod hostile;
mod lookup;
mod lossy;
mod pending;
mod refuse;
mod release;
mod sequential;
mod stale;
mod world;
