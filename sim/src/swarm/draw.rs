//! From a seed to a plan.

use super::draw_lives::draw_lives;
use super::draw_memory::draw_memory;
use super::draw_more::draw_more;
use super::draw_most::draw_most;
use super::plan::Plan;

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Self {
        Self::draw_layers(seed, Self::LAYERS)
    }

    /// The number of layers on top of the first one.
    pub const LAYERS: usize = 4;

    /// The plan of a seed with the first layer and `layers` more, at most [`Self::LAYERS`].
    pub fn draw_layers(seed: u64, layers: usize) -> Self {
        let mut plan = Self::draw_first(seed);
        if layers >= 1 {
            draw_more(&mut plan);
        }
        if layers >= 2 {
            draw_most(&mut plan);
        }
        if layers >= 3 {
            draw_lives(&mut plan);
        }
        if layers >= 4 {
            draw_memory(&mut plan);
        }
        plan
    }
}
