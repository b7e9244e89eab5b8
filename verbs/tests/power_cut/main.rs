//! The power fails: a process that holds durable memory is killed at a random point, 1,000 times. What
//! a FLUSH to persistence has acknowledged is on the disk then, and an ATOMIC WRITE behind a FLUSH is
//! there only with what was flushed before it.
//!
//! The disk is a test double, because a kill leaves the kernel's page cache as it is: the memory of
//! the region is the process's own and is lost with it, and a file has what was made durable, and by
//! chance some of the rest.
//!
//! ```sh
//! ROCE_POWER_CUTS=rounds=100,seed=1 cargo test -p roce-verbs --test power_cut
//! ```

mod client;
mod disk;
mod server;

use std::str::FromStr;

/// The number of slots of the memory.
const SLOTS: usize = 256;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u64,
    seed: u64,
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self {
            rounds: 1000,
            // Each run covers new ground. A failure shows the plan, with its seed.
            seed: getrandom::u64().map_err(|error| error.to_string())?,
        };
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let wrong = || format!("{setting:?}: not rounds= or seed= a number");
            let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
            let value = value.parse().map_err(|_| wrong())?;
            match name {
                "rounds" => plan.rounds = value,
                "seed" => plan.seed = value,
                _ => return Err(wrong()),
            }
        }
        Ok(plan)
    }
}

/// Holds the memory if the environment variable is set. Does nothing when run as a test.
#[test]
fn holds_the_memory() {
    if let Ok(role) = std::env::var(server::ROLE) {
        server::serve(&role);
    }
}

#[test]
fn what_was_acknowledged_survives_each_power_cut() {
    let text = std::env::var("ROCE_POWER_CUTS").unwrap_or_default();
    let plan: Plan = text.parse().expect("ROCE_POWER_CUTS is valid");
    println!("{plan:?}");
    client::run(plan);
}
