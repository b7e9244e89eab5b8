//! Reliable connections end to end, against the rules of the InfiniBand
//! Architecture Specification: two NICs over a faulty wire, or one against packets
//! written by hand, in virtual time and from a seed. The unreliable services are
//! tested in [`uc`] and [`ud`], with the same means.

mod acks;
mod answers;
mod congestion;
mod cq;
mod credits;
mod crowd;
mod drops;
mod duplicates;
mod edges;
mod errors;
mod fence;
mod fetches;
mod hostile;
mod inline;
mod kept;
mod limits;
mod local_errors;
mod losses;
mod management;
mod nic;
mod on_demand;
mod operations;
mod placement;
mod posting;
mod read_recovery;
mod recovery;
mod regions;
mod retry;
mod rules;
mod runs;
mod sequences;
mod sim;
mod soak;
mod softroce;
mod spared;
mod srq;
mod states;
mod stretch;
mod teardown;
mod traffic;
mod uc;
mod ud;
mod waiting;
mod windows;
mod xrc;
