//! An open device that nothing observes: the program is built without the feature `observe`.

use super::Context;
use crate::datapath::Layers;
use crate::device::Device;
use crate::runtime::{DeviceState, Engine};
use crate::settings::OpenOptions;
use roce_cm::Pending;
use std::sync::Arc;

pub(crate) struct Observing;

pub(crate) struct ShownWaits;

impl Observing {
    pub(super) fn begin(
        _: &Device,
        _: &OpenOptions,
        layers: Layers,
        engine: Engine,
    ) -> (Self, Layers, Engine) {
        (Self, layers, engine)
    }

    pub(super) fn show(&mut self, _: &Arc<DeviceState>, _: &Device, _: &OpenOptions) {}
}

pub(crate) fn show_wait_for_program(_: &str, _: u64, _: &str) -> ShownWaits {
    ShownWaits
}

impl Context {
    pub(crate) fn show_waits(
        &self,
        _: impl Fn() -> Vec<Pending> + Send + Sync + 'static,
    ) -> ShownWaits {
        let Observing = self.inner.observing;
        ShownWaits
    }
}
