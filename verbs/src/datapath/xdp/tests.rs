use super::*;
use crate::datapath::TxFeatures;
use crate::datapath::choose::why_not_sockets;

fn facts(driver: Option<DriverOffer>) -> Facts {
    Facts {
        loopback: false,
        offer: Ok(Offer {
            ethernet: true,
            queues: 2,
            driver,
            holder: None,
        }),
        permission: OnceCell::from(Ok(())),
        mtu: 1500,
        default_route: Ok(false),
    }
}

const ZERO_COPY: DriverOffer = DriverOffer {
    native: true,
    zero_copy: true,
    zero_copy_pieces: 1,
    tx_checksum: false,
    tx_timestamp: true,
    refusal: None,
};

fn facts_with_offer(change: impl FnOnce(&mut Offer)) -> Facts {
    let mut facts = facts(Some(ZERO_COPY));
    change(facts.offer.as_mut().expect("an offer"));
    facts
}

#[test]
fn auto_chooses_xdp_with_zero_copy_or_unknown_features() {
    let options = DatapathOptions::default();
    assert_eq!(facts(Some(ZERO_COPY)).why_auto_avoids_xdp(&options), None);
    assert_eq!(facts(None).why_auto_avoids_xdp(&options), None);
}

/// AF_XDP in copy mode is slower than sockets, but sockets can't carry RoCE v1.
#[test]
fn auto_chooses_xdp_for_roce_v1_with_any_driver() {
    let options = DatapathOptions {
        roce_v1: true,
        ..DatapathOptions::default()
    };
    let copying = DriverOffer {
        native: false,
        zero_copy: false,
        ..ZERO_COPY
    };
    assert_eq!(facts(Some(copying)).why_auto_avoids_xdp(&options), None);
    assert!(why_not_sockets(&options).contains("ROCE_V1"));
    let loopback = Facts {
        loopback: true,
        ..facts(None)
    };
    assert_avoids_xdp(&loopback, options, "stays on this machine");
}

/// Asserts that `auto` does not choose AF_XDP, for a reason that contains `why`.
#[track_caller]
fn assert_avoids_xdp(facts: &Facts, options: DatapathOptions, why: &str) {
    let reason = facts
        .why_auto_avoids_xdp(&options)
        .expect("AF_XDP is not chosen");
    assert!(reason.contains(why), "{reason}");
}

#[test]
fn auto_avoids_xdp_where_it_is_slower_or_impossible() {
    let options = DatapathOptions::default();
    let copying = DriverOffer {
        zero_copy: false,
        ..ZERO_COPY
    };
    assert_avoids_xdp(&facts(Some(copying)), options, "without zero-copy");
    let generic = DatapathOptions {
        xdp_mode: XdpMode::Generic,
        ..options
    };
    assert_avoids_xdp(&facts(Some(ZERO_COPY)), generic, "without zero-copy");
    let long = Facts {
        mtu: 3815,
        ..facts(Some(ZERO_COPY))
    };
    assert_avoids_xdp(
        &long,
        options,
        "up to a link MTU of 3814 bytes, but the link's is 3815",
    );
    let loopback = Facts {
        loopback: true,
        ..facts(Some(ZERO_COPY))
    };
    assert_avoids_xdp(&loopback, options, "stays on this machine");
    let forbidden = Facts {
        permission: OnceCell::from(Err(PortError {
            what: "making an AF_XDP socket".to_owned(),
            source: io::Error::from_raw_os_error(libc::EPERM),
        })),
        ..facts(Some(ZERO_COPY))
    };
    assert_avoids_xdp(&forbidden, options, "setcap");
    let tunnel = facts_with_offer(|offer| offer.ethernet = false);
    assert_avoids_xdp(&tunnel, options, "not Ethernet");
    let held = facts_with_offer(|offer| {
        offer.holder = Some(roce_xdp::program::Holder {
            id: 7,
            name: Some("other".to_owned()),
            mode: Mode::Native,
        });
    });
    assert_avoids_xdp(&held, options, "program 7 (other)");
}

/// The interface through which the machine is reached is used only if AF_XDP is named.
#[test]
fn auto_avoids_xdp_on_the_interface_of_the_default_route() {
    let of = |default_route| Facts {
        default_route,
        ..facts(Some(ZERO_COPY))
    };
    let auto = DatapathOptions::default();
    let v1 = DatapathOptions {
        roce_v1: true,
        ..auto
    };
    for options in [auto, v1] {
        assert_eq!(of(Ok(false)).why_auto_avoids_xdp(&options), None);
        assert_avoids_xdp(&of(Ok(true)), options, "ROCE_DATAPATH=xdp");
        let unknown = of(Err(io::ErrorKind::PermissionDenied.into()));
        assert_avoids_xdp(&unknown, options, "can't read");
    }
    let named = DatapathOptions {
        datapath: DatapathChoice::Xdp,
        ..auto
    };
    assert_eq!(of(Ok(true)).why_impossible(&named), None);
}

/// The kernel says that virtio_net supports native XDP, but attaching a program fails.
#[test]
fn the_prediction_includes_a_drivers_refusal_of_programs() {
    let refusing = DriverOffer {
        native: false,
        zero_copy: false,
        refusal: Some("it refuses"),
        ..ZERO_COPY
    };
    let auto = DatapathOptions::default();
    assert_avoids_xdp(&facts(Some(refusing)), auto, "it refuses");
    let config = XdpPortConfig::new("eth0", 2, 1500);
    let DatapathKind::Xdp {
        attachment,
        why_not_native,
        zero_copy,
        why_copied,
        ..
    } = predicted_kind(Some(refusing), &config, 1500)
    else {
        panic!("not AF_XDP");
    };
    assert_eq!(attachment, Some(XdpAttachment::Generic));
    assert_eq!(why_not_native.as_deref(), Some("it refuses"));
    assert_eq!(
        (zero_copy, why_copied.as_deref()),
        (Some(false), Some("it refuses"))
    );
}

#[test]
fn more_queues_than_the_interface_has_are_refused() {
    let asks = |queues| DatapathOptions {
        datapath: DatapathChoice::Xdp,
        xdp_queues: NonZeroU32::new(queues),
        ..DatapathOptions::default()
    };
    let facts = facts(None);
    assert_eq!(facts.why_impossible(&asks(2)), None);
    assert_eq!(facts.queues(&asks(1)), 1);
    assert_eq!(facts.queues(&DatapathOptions::default()), 2);
    let reason = facts.why_impossible(&asks(3)).expect("too many");
    assert!(
        reason.contains("3 queues, but the interface has 2"),
        "{reason}"
    );
}

#[test]
fn the_prediction_depends_on_driver_and_mode() {
    let kind = |driver, attach| {
        let mut config = XdpPortConfig::new("eth0", 2, 1500);
        config.attach = attach;
        match predicted_kind(driver, &config, 1500) {
            DatapathKind::Xdp {
                attachment,
                zero_copy,
                why_copied,
                ..
            } => {
                assert_eq!(why_copied.is_some(), zero_copy == Some(false));
                (attachment, zero_copy)
            }
            DatapathKind::Udp { .. } => panic!("not AF_XDP"),
        }
    };
    let native = Some(XdpAttachment::Native);
    let generic = Some(XdpAttachment::Generic);
    let with = Some(ZERO_COPY);
    let without = Some(DriverOffer {
        native: false,
        zero_copy: false,
        ..ZERO_COPY
    });
    assert_eq!(kind(with, AttachMode::Auto), (native, Some(true)));
    assert_eq!(kind(with, AttachMode::Generic), (generic, Some(false)));
    assert_eq!(kind(without, AttachMode::Auto), (generic, Some(false)));
    assert_eq!(kind(None, AttachMode::Auto), (None, None));
    assert_eq!(kind(None, AttachMode::Native), (native, None));
}

#[test]
fn zero_copy_is_predicted_up_to_the_drivers_mtu() {
    let many = DriverOffer {
        zero_copy_pieces: 8,
        ..ZERO_COPY
    };
    let config = XdpPortConfig::new("eth0", 2, 1500);
    let zero_copy = |driver, mtu| match predicted_kind(Some(driver), &config, mtu) {
        DatapathKind::Xdp {
            zero_copy,
            tx_features,
            ..
        } => {
            let features = TxFeatures {
                checksum: false,
                timestamp: true,
            };
            assert_eq!(tx_features, Some(features));
            zero_copy
        }
        DatapathKind::Udp { .. } => panic!("not AF_XDP"),
    };
    assert_eq!(zero_copy(ZERO_COPY, 3814), Some(true));
    assert_eq!(zero_copy(ZERO_COPY, 3815), Some(false));
    assert_eq!(zero_copy(many, 9000), Some(true));
}

/// `auto` chose AF_XDP because the kernel need not copy. If it turns out that it must, sockets are
/// faster.
#[test]
fn auto_requires_zero_copy_unless_roce_v1_was_asked_for() {
    let device = Device::with_address([127, 0, 0, 1].into()).expect("loopback");
    let of = |datapath, roce_v1| {
        let options = DatapathOptions {
            datapath,
            roce_v1,
            ..DatapathOptions::default()
        };
        let config = config(&device, &options, 1);
        let native = config.attach == AttachMode::Native;
        (native, config.sockets.zero_copy == ZeroCopy::Require)
    };
    assert_eq!(of(DatapathChoice::Auto, false), (true, true));
    assert_eq!(of(DatapathChoice::Auto, true), (false, false));
    assert_eq!(of(DatapathChoice::Xdp, false), (false, false));
}
