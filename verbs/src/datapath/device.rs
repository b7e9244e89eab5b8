//! What can be known of a device's datapath without opening the device.

use super::{Datapath, DatapathOptions, choose};
use crate::device::Device;
use crate::error::StartError;
use crate::gid::{GidEntry, GidTable};

impl Device {
    /// Its GID table as it is when the device is opened now with these options: with
    /// entries of RoCE v1 if that is asked for.
    pub fn gids_with(&self, options: &DatapathOptions) -> Vec<GidEntry> {
        GidTable::new(&self.known_addresses(), options.roce_v1).entries()
    }

    /// How packets of this device would travel if it were opened and used now, and why not
    /// otherwise. The interface is not touched to find out;
    /// [`Context::datapath`](crate::Context::datapath) tells what an open device has taken.
    ///
    /// # Errors
    /// If its datapath could not start, as far as can be known beforehand.
    pub fn datapath(&self, options: &DatapathOptions) -> Result<Datapath, StartError> {
        choose::expect(self, options)
    }
}
