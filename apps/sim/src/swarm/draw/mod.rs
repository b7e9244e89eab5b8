//! From a seed to a plan.

mod base;
mod cm;
mod cqs;
mod events;
mod memory;
mod multicast;
mod paths;
mod regions;
mod restart;
mod windows_xrc;

use super::plan::Plan;
use cm::draw_cm;
use cqs::draw_cqs;
use events::draw_events;
use memory::draw_memory;
use multicast::draw_multicast;
use paths::draw_paths;
use regions::draw_regions;
use restart::draw_restart;
use windows_xrc::draw_windows_and_xrc;

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        Self::draw_layers(seed, Self::LAYERS)
    }

    /// The number of layers on top of the first one.
    pub const LAYERS: usize = 9;

    /// The plan of a seed with the first layer and `layers` more, at most [`Self::LAYERS`].
    pub fn draw_layers(seed: u64, layers: usize) -> Self {
        let mut plan = Self::draw_base(seed);
        if layers >= 1 {
            draw_windows_and_xrc(&mut plan);
        }
        if layers >= 2 {
            draw_cqs(&mut plan);
        }
        if layers >= 3 {
            draw_restart(&mut plan);
        }
        if layers >= 4 {
            draw_memory(&mut plan);
        }
        if layers >= 5 {
            draw_paths(&mut plan);
        }
        if layers >= 6 {
            draw_multicast(&mut plan);
        }
        if layers >= 7 {
            draw_regions(&mut plan);
        }
        if layers >= 8 {
            draw_events(&mut plan);
        }
        if layers >= 9 {
            draw_cm(&mut plan);
        }
        plan
    }
}
