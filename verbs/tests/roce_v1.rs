//! RoCE v1 is requested where only sockets are possible: on the loopback.

use roce_verbs::datagram::AddressOptions;
use roce_verbs::datapath::{DatapathChoice, DatapathOptions};
use roce_verbs::device::RoceVersion;
use roce_verbs::qp::{ConnectError, QKey};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{ConnectOptions, Context, Device, QpKind, QpOptions};

fn open(datapath: DatapathChoice, roce_v1: bool) -> Context {
    let device = Device::with_address([127, 0, 0, 1].into()).expect("the loopback");
    let options = DatapathOptions {
        datapath,
        roce_v1,
        ..DatapathOptions::default()
    };
    let context = OpenOptions::new().datapath(options).open(&device);
    let context = context.expect("sockets");
    assert_eq!(context.gids(), device.gids_with(&options));
    context
}

fn versions(context: &Context) -> Vec<RoceVersion> {
    context.gids().iter().map(|entry| entry.version).collect()
}

// shows: A16-gid-types
#[test]
fn it_is_off_unless_asked_for() {
    let versions = versions(&open(DatapathChoice::Udp, false));
    assert!(!versions.is_empty());
    assert!(versions.iter().all(|&of| of == RoceVersion::V2));
}

/// The indices are those that AF_XDP would have. The error for an index of RoCE v1 says why it
/// can't be used, and what would help.
// shows: A16-gid-types
#[test]
fn over_sockets_its_indices_are_refused_by_name() {
    for datapath in [DatapathChoice::Udp, DatapathChoice::Auto] {
        let context = open(datapath, true);
        assert_eq!(versions(&context)[..2], [RoceVersion::V1, RoceVersion::V2]);
        let pd = context.alloc_pd();
        let cq = context.create_cq(4);
        let qp = || pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
        let endpoint = qp().endpoint(0).expect("a GID");
        let options = ConnectOptions::default();
        let refused = qp().connect(0, &endpoint, &options);
        let datagrams = QpOptions {
            kind: QpKind::Ud,
            ..QpOptions::default()
        };
        let ud = pd.create_qp(&cq, &cq, &datagrams).expect("a QP");
        let handle = pd.create_ah(0, endpoint.gid, &AddressOptions::default());
        for refused in [refused, ud.activate(0, QKey(1)), handle.map(drop)] {
            let error = refused.expect_err("sockets can't carry it");
            assert!(matches!(error, ConnectError::NotCarried { index: 0, .. }));
            let said = error.to_string();
            let why = ["RoCE v1", "UDP sockets", "AF_XDP", "ROCE_DATAPATH=xdp"];
            assert!(why.iter().all(|word| said.contains(word)), "{said}");
        }
        // RoCEv2 works on the same device.
        qp().connect(1, &endpoint, &options).expect("RoCEv2");
    }
}
