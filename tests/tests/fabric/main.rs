//! `roce fabric`: unmodified programs on clusters that it makes, without privilege and as root.

mod aborts;
mod deaths;
mod events;
mod incast;
mod mpi;
mod paths;
mod poor;
mod processes;
mod running;
