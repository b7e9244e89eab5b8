//! The features that a driver offers to AF_XDP, in the terms of [`Datapath`](crate::datapath::Datapath).

use crate::datapath::TxFeatures;
use roce_xdp::offer::DriverOffer;

/// Why frames are copied with this driver, on a link with an MTU of `mtu` bytes. `native` says
/// whether the program runs in the driver. `None` unless something is known to prevent zero-copy.
pub(super) fn why_copied(driver: Option<DriverOffer>, native: bool, mtu: usize) -> Option<String> {
    if !native {
        let refusal = driver.and_then(|driver| driver.refusal);
        return Some(
            refusal
                .unwrap_or("its program runs in the kernel")
                .to_owned(),
        );
    }
    let driver = driver?;
    if !driver.zero_copy {
        return Some("the driver does not support zero-copy".to_owned());
    }
    let max_mtu = driver.zero_copy_mtu();
    (mtu > max_mtu).then(|| {
        format!(
            "the driver supports zero-copy up to a link MTU of {max_mtu} bytes, but the link's is {mtu}"
        )
    })
}

pub(super) fn tx_features(driver: DriverOffer) -> TxFeatures {
    TxFeatures {
        checksum: driver.tx_checksum,
        timestamp: driver.tx_timestamp,
    }
}
