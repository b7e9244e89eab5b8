//! In the place of taps, logs and counts, in programs that are built without the feature `observe`:
//! none exists.

use crate::device::Device;
use crate::settings::OpenOptions;
use crate::why::{Explanation, Failure, UnfitPackets};
use roce_port::Layer;
use roce_stack::{Counters, Instant};

#[derive(Debug)]
pub(crate) enum Tap {}

impl Layer for Tap {}

#[derive(Debug)]
pub(crate) enum DeviceCount {}

impl DeviceCount {
    pub(crate) fn note_qp(&self, _: bool) {
        match *self {}
    }

    pub(crate) fn note(&mut self, _: &Counters) {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) enum WhyLog {}

impl WhyLog {
    pub(crate) fn admits(&mut self, _: &Failure) -> bool {
        match *self {}
    }

    pub(crate) fn has_room(&mut self, _: Instant) -> bool {
        match *self {}
    }

    pub(crate) fn write_unfit(&self, _: &UnfitPackets) {
        match *self {}
    }

    pub(crate) fn write(&mut self, _: Explanation) {
        match *self {}
    }
}

impl OpenOptions {
    pub(crate) fn tap_and_log(&self, _: &Device) -> (Option<Tap>, Option<WhyLog>) {
        (None, None)
    }
}
