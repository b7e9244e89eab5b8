//! A device's datapath, as far as it is known before the device is opened.

use super::{Datapath, DatapathOptions, choose};
use crate::device::Device;
use crate::error::StartError;
use crate::gid::{GidEntry, GidTable};

impl Device {
    /// The GID table that the device would have if it were opened now with these options, including
    /// entries for RoCE v1 if they ask for it.
    pub fn gids_with(&self, options: &DatapathOptions) -> Vec<GidEntry> {
        GidTable::new(&self.known_addresses(), options.roce_v1).entries()
    }

    /// Predicts the datapath that the device would have if it were opened and used now, and why.
    /// This does not touch the interface. [`Context::datapath`](crate::Context::datapath) returns
    /// the datapath of an open device.
    ///
    /// # Errors
    /// If the datapath can't start, as far as that can be known beforehand.
    pub fn datapath(&self, options: &DatapathOptions) -> Result<Datapath, StartError> {
        choose::predict(self, options)
    }
}
