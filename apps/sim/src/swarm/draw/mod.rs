//! From a seed to a plan.

mod base;
mod cm;
mod cqs;
mod events;
mod multicast;
mod paths;
mod regions;
mod restart;
mod windows_xrc;

use super::plan::Plan;
use cm::draw_cm;
use cqs::draw_cqs;
use events::draw_events;
use multicast::draw_multicast;
use paths::draw_paths;
use regions::draw_regions;
use restart::{draw_memory, draw_restart};
use windows_xrc::draw_windows_and_xrc;

/// The layers on top of the first one. Each has random numbers of its own.
const LAYERS: [fn(&mut Plan); Plan::LAYERS] = [
    draw_windows_and_xrc,
    draw_cqs,
    draw_restart,
    draw_memory,
    draw_paths,
    draw_multicast,
    draw_regions,
    draw_events,
    draw_cm,
];

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
        for draw in LAYERS.iter().take(layers) {
            draw(&mut plan);
        }
        plan
    }
}
