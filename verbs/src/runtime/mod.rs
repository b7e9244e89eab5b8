//! The runtime of an open device: the NIC and its port behind one lock, the thread that drives
//! them, and the clock.
//!
//! Nothing here depends on QPs, CQs and the other objects of a device. Those are built on the
//! runtime.

mod at_exit;
mod clock;
mod device_state;
mod driver;
mod driving;
mod engine;
mod engine_lock;
mod event_queue;
#[cfg_attr(
    not(all(feature = "faults", feature = "observe")),
    expect(dead_code, reason = "features use it")
)]
mod hooks;
mod moderation;
mod monitor;
mod pacing;
mod persister;
mod readiness;
mod spin;
mod start;
mod wait;

pub(crate) use at_exit::send_waiting_at_exit;
pub(crate) use clock::{DeviceClock, wall_clock_ns};
pub(crate) use device_state::DeviceState;
pub(crate) use driver::spawn as spawn_driver;
pub use driving::Driving;
pub(crate) use driving::wait_for;
pub(crate) use engine::{Engine, MadListener};
pub use event_queue::EventQueue;
pub(crate) use hooks::{Injector, Observed, Observer, RequestFate, RequestJudge, Tally};
pub(crate) use monitor::{Changes, Monitor};
pub(crate) use pacing::Batch;
pub(crate) use persister::{PersistListener, Persister};
pub(crate) use start::{Starter, port_limits};
