//! Attacks on connections over the real datapaths, by packets on a wire and by calls of a peer.
//! docs/design/security.md has a table of them. Needs root.
//!
//! Each test says who the attacker is, what it knows and what must hold. Where an attack fails for
//! one reason only, the test ends with the same packet without this reason, which must succeed:
//! otherwise a packet that is malformed would pass for an attack that fails.
//!
//! The attacker is a third host at the victims' switch ([`roce_tests::lan::Lan`]). It sees none of
//! their packets. What a test lets it know, the test has learned at the switch or from the victims.

mod attacker;
mod connections;
mod floods;
mod guesses;
mod injection;
mod keys;
mod memory;
mod notifications;
mod responses;
mod scene;
mod victim;
