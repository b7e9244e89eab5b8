//! The distance between the machine's processors. A hypervisor may move them apart, which makes each
//! cache line transfer several times as expensive. Figures are comparable only within one state.

use crate::median;
use std::fmt;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

/// The distance of two processors: half a round trip over one cache line, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance(pub f64);

/// Round trips of one sample: a few milliseconds.
const ROUNDS: u32 = 20_000;

/// Samples of a measurement.
const SAMPLES: usize = 5;

/// A cache line that two threads share.
#[repr(align(64))]
struct Line(AtomicU32);

impl Distance {
    /// Measures it, which takes about 20 ms. `None` if there is only one processor.
    pub fn measure() -> Option<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        if processors < 2 {
            return None;
        }
        let samples: Vec<f64> = (0..SAMPLES).map(|_| half_round_trip_us()).collect();
        median(&samples).map(Self)
    }

    fn name(self) -> &'static str {
        match self.0 {
            us if us < 0.145 => "near",
            us if us < 0.195 => "between",
            _ => "far",
        }
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} {}", self.0, self.name())
    }
}

/// Two threads take turns writing to the line; each waits for its own number.
fn half_round_trip_us() -> f64 {
    let line = Line(AtomicU32::new(0));
    let play = |first: u32| {
        for turn in (first..2 * ROUNDS).step_by(2) {
            while line.0.load(Ordering::Acquire) != turn {
                spin_loop();
            }
            line.0.store(turn + 1, Ordering::Release);
        }
    };
    let elapsed = thread::scope(|scope| {
        scope.spawn(|| play(1));
        let start = Instant::now();
        play(0);
        start.elapsed()
    });
    elapsed.as_secs_f64() * 1e6 / f64::from(2 * ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_threads_take_their_turns() {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        match Distance::measure() {
            Some(Distance(us)) => assert!(us > 0.0, "{us}"),
            None => assert_eq!(processors, 1),
        }
    }

    #[test]
    fn a_distance_says_its_state() {
        let texts = [0.094, 0.17, 0.281].map(|us| Distance(us).to_string());
        assert_eq!(texts, ["0.09 near", "0.17 between", "0.28 far"]);
    }
}
