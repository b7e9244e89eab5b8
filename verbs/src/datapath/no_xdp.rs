//! In the place of the datapath over AF_XDP, in programs that are built without it.

use super::{Datapath, DatapathOptions, DatapathPort};
use crate::device::Device;
use roce_stack::{PriorityMap, QpnRange};

const WHY: &str = "this program was built without AF_XDP (the feature `xdp` of roce-verbs)";

pub(super) fn open(
    _: &Device,
    _: &DatapathOptions,
    _: Option<PriorityMap>,
    _: QpnRange,
) -> Result<DatapathPort, String> {
    Err(WHY.to_owned())
}

pub(super) fn predict(_: &Device, _: &DatapathOptions) -> Result<Datapath, String> {
    Err(WHY.to_owned())
}
