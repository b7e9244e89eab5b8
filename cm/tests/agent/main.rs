//! Two agents, or one and a test that writes its MADs, in virtual time.

mod establish;
mod gone;
mod held;
mod hostile;
mod lookup;
mod lossy;
mod refuse;
mod release;
mod stale;
mod world;
