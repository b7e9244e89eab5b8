use super::*;
use QpKind::{Rc, Uc, Ud};
use QpState::{Err, Init, Reset, Rtr, Rts, Sqd, Sqe};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn to(state: QpState) -> QpAttributes {
    QpAttributes {
        state: Some(state),
        ..QpAttributes::default()
    }
}

fn rtr() -> QpAttributes {
    QpAttributes {
        dest_qpn: Some(Qpn::from_bits(5)),
        path: Some(TxMeta {
            src: IpAddr::V4(Ipv4Addr::LOCALHOST),
            dst: IpAddr::V4(Ipv4Addr::LOCALHOST),
            traffic_class: 0,
            hop_limit: 64,
            version: Default::default(),
        }),
        path_mtu: Some(PathMtu::Mtu1024),
        rq_psn: Some(Psn::new(1)),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: RnrTimer::from_code(12),
        ..to(Rtr)
    }
}

// shows: 11.2.5.2-init-needs, 11.2.5.2-rts-needs
#[test]
fn the_textbook_path_needs_its_attributes() {
    let init = QpAttributes {
        access: Some(Access::empty()),
        ..to(Init)
    };
    assert_eq!(init.check(Rc, Reset, 1472), Ok(()));
    assert_eq!(rtr().check(Rc, Init, 1472), Ok(()));
    let rts = QpAttributes {
        sq_psn: Some(Psn::new(1)),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        max_rd_atomic: Some(1),
        ..to(Rts)
    };
    assert_eq!(rts.check(Rc, Rtr, 1472), Ok(()));
    let short = QpAttributes {
        retry_cnt: None,
        ..rts
    };
    assert_eq!(
        short.check(Rc, Rtr, 1472),
        Result::Err(ModifyError::Missing {
            from: Rtr,
            to: Rts,
            attribute: "retry_cnt"
        })
    );
}

// shows: 11.2.5.2-rtr-needs
#[test]
fn every_attribute_of_rtr_is_needed() {
    for name in [
        "dest_qpn",
        "path",
        "path_mtu",
        "rq_psn",
        "max_dest_rd_atomic",
        "min_rnr_timer",
    ] {
        let mut attributes = rtr();
        match name {
            "dest_qpn" => attributes.dest_qpn = None,
            "path" => attributes.path = None,
            "path_mtu" => attributes.path_mtu = None,
            "rq_psn" => attributes.rq_psn = None,
            "max_dest_rd_atomic" => attributes.max_dest_rd_atomic = None,
            _ => attributes.min_rnr_timer = None,
        }
        let missing = ModifyError::Missing {
            from: Init,
            to: Rtr,
            attribute: name,
        };
        assert_eq!(attributes.check(Rc, Init, 1472), Result::Err(missing));
    }
}

// shows: 10.3.1-order, 10.3.1-any-to-reset
#[test]
fn states_are_not_skipped() {
    for (from, target) in [
        (Reset, Rtr),
        (Reset, Rts),
        (Init, Rts),
        (Err, Init),
        (Rtr, Sqd),
    ] {
        assert_eq!(
            to(target).check(Rc, from, 1472),
            Result::Err(ModifyError::InvalidTransition { from, to: target })
        );
    }
    for from in [Reset, Init, Rtr, Rts, Sqd, Err] {
        assert_eq!(to(Reset).check(Rc, from, 1472), Ok(()));
        assert_eq!(to(Err).check(Rc, from, 1472), Ok(()));
    }
}

// shows: 11.2.5.2-path-mtu, A17.3.1-mtu
// trap: mtu-in-words, mtu-4096
#[test]
fn a_path_mtu_beyond_the_link_is_named_with_what_fits() {
    let attributes = QpAttributes {
        path_mtu: Some(PathMtu::Mtu4096),
        ..rtr()
    };
    let error = attributes
        .check(Rc, Init, 1472)
        .expect_err("too large")
        .to_string();
    assert!(
        error.contains("4096") && error.contains("256 to 1024"),
        "{error}"
    );
    assert_eq!(attributes.check(Rc, Init, 8972), Ok(()));
}

// shows: A17.4.2-version, A17.4.2-one-family
// trap: mtu-in-words
#[test]
fn families_may_not_mix() {
    let mut attributes = rtr();
    if let Some(path) = attributes.path.as_mut() {
        path.dst = IpAddr::V6(Ipv6Addr::LOCALHOST);
    }
    assert!(matches!(
        attributes.check(Rc, Init, 1472),
        Result::Err(ModifyError::BadValue { .. })
    ));
}

// shows: 11.2.5.2-ranges
#[test]
fn values_out_of_range_are_refused() {
    let attributes = QpAttributes {
        timeout: Some(32),
        ..QpAttributes::default()
    };
    assert!(attributes.check_ranges(1472).is_err());
    let attributes = QpAttributes {
        rnr_retry: Some(8),
        ..QpAttributes::default()
    };
    assert!(attributes.check_ranges(1472).is_err());
}

// shows: 9.8.2-states
#[test]
fn an_unreliable_connection_has_nothing_to_retry() {
    let complete = rtr();
    let lean = QpAttributes {
        max_dest_rd_atomic: None,
        min_rnr_timer: None,
        ..rtr()
    };
    assert_eq!(lean.check(Uc, Init, 1472), Ok(()));
    assert_eq!(
        complete.check(Uc, Init, 1472),
        Result::Err(ModifyError::NotAllowed {
            from: Init,
            to: Rtr,
            attribute: "max_dest_rd_atomic"
        })
    );
    let rts = QpAttributes {
        sq_psn: Some(Psn::new(1)),
        ..to(Rts)
    };
    assert_eq!(rts.check(Uc, Rtr, 1472), Ok(()));
    let retrying = QpAttributes {
        timeout: Some(14),
        ..rts.clone()
    };
    assert!(retrying.check(Uc, Rtr, 1472).is_err());
    assert!(rts.check(Rc, Rtr, 1472).is_err());
}

// shows: 10.3.1-sqe
#[test]
fn only_an_unreliable_service_comes_back_from_a_send_error() {
    assert_eq!(to(Rts).check(Uc, Sqe, 1472), Ok(()));
    assert!(to(Rts).check(Rc, Sqe, 1472).is_err());
}

// shows: 9.8.3-states
#[test]
fn datagrams_need_a_key_and_no_peer() {
    let init = QpAttributes {
        qkey: Some(QKey(1)),
        ..to(Init)
    };
    assert_eq!(init.check(Ud, Reset, 1472), Ok(()));
    assert!(to(Init).check(Ud, Reset, 1472).is_err());
    assert!(init.check(Rc, Reset, 1472).is_err());
    assert_eq!(to(Rtr).check(Ud, Init, 1472), Ok(()));
    assert!(rtr().check(Ud, Init, 1472).is_err());
    let rts = QpAttributes {
        sq_psn: Some(Psn::new(1)),
        qkey: Some(QKey(2)),
        ..to(Rts)
    };
    assert_eq!(rts.check(Ud, Rtr, 1472), Ok(()));
    assert_eq!(to(Rts).check(Ud, Sqe, 1472), Ok(()));
}
