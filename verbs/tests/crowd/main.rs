//! Many processes at one address: each has QPs to others. Some are killed and replaced, some of them
//! after they have forked; one is stopped. Every byte that arrives is checked, and its way: lanes.
//!
//! Five processes run for two seconds, unless the environment says otherwise:
//!
//! ```sh
//! ROCE_CROWD=processes=20,qps=8,seconds=300,seed=1 cargo test -p roce-verbs --test crowd
//! ```

mod parent;
mod player;
mod traces;

use std::str::FromStr;

/// Makes a process a player, and gives its address.
const ROLE: &str = "ROCE_TEST_CROWD_AT";
/// The prefix of a player's output. The other lines are the test harness's.
const OUTPUT_PREFIX: &str = "CROWD ";

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    processes: usize,
    /// The number of QPs of each process.
    qps: usize,
    seconds: u64,
    seed: u64,
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self {
            processes: 5,
            qps: 3,
            seconds: 2,
            seed: 4791,
        };
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let wrong = || format!("{setting:?}: not processes=, qps=, seconds= or seed= a number");
            let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
            let value: u64 = value.parse().map_err(|_| wrong())?;
            match name {
                "processes" => plan.processes = value as usize,
                "qps" => plan.qps = value as usize,
                "seconds" => plan.seconds = value,
                "seed" => plan.seed = value,
                _ => return Err(wrong()),
            }
        }
        Ok(plan)
    }
}

/// Acts as a player if the environment variable is set. Does nothing when run as a test.
#[test]
fn is_a_player() {
    if let Ok(role) = std::env::var(ROLE) {
        player::play(&role);
    }
}

#[test]
fn processes_at_one_address_are_killed_and_replaced() {
    let plan = std::env::var("ROCE_CROWD").unwrap_or_default();
    parent::run(&plan.parse().expect("a plan"));
}
