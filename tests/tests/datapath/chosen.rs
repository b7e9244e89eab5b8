//! The choice of the datapath, and its reports.

use std::process::Command;

use roce_tests::programs;
use roce_tests::veth::{End, Pair};
use roce_verbs::datapath::{Datapath, DatapathChoice, DatapathOptions, XdpMode};
use roce_verbs::device::{QpnRange, StartError};
use roce_verbs::qp::{ConnectError, QpState};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{Access, ConnectOptions, Context, Device, QpOptions};
use serde_json::Value;

fn device(end: &End) -> Device {
    Device::named(&format!("roce_{}", end.interface)).expect("it has addresses")
}

fn options(datapath: DatapathChoice) -> DatapathOptions {
    DatapathOptions {
        datapath,
        ..DatapathOptions::default()
    }
}

fn open(end: &End, options: DatapathOptions) -> Context {
    let opened = end.enter(|| OpenOptions::new().datapath(options).open(&device(end)));
    opened.expect("opening touches nothing that could refuse")
}

/// Opens the device and starts its datapath.
fn start(end: &End, options: DatapathOptions) -> Result<(Context, Datapath), StartError> {
    let context = open(end, options);
    let datapath = end.enter(|| context.start().cloned())?;
    Ok((context, datapath))
}

fn output(mut command: Command) -> (bool, String) {
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// veth copies, so sockets are faster.
#[test]
fn auto_takes_sockets_where_the_driver_copies() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let (_context, datapath) = start(&pair.near, options(DatapathChoice::Auto)).expect("sockets");
    assert_eq!(datapath.name(), "udp");
    let [xdp] = &datapath.not_taken[..] else {
        panic!("one datapath was not taken: {datapath:?}");
    };
    assert_eq!(xdp.datapath, "xdp");
    assert!(xdp.reason.contains("zero-copy"), "{xdp:?}");
    let expected = pair
        .near
        .enter(|| device(&pair.near).datapath(&DatapathOptions::default()));
    assert_eq!(expected.expect("sockets"), datapath);
}

/// The predicted datapath is the one in use later.
#[test]
fn the_predicted_datapath_is_the_one_taken() {
    let Some(pair) = Pair::new_or_skip(9000, 2) else {
        return;
    };
    for mode in [XdpMode::Auto, XdpMode::Native, XdpMode::Generic] {
        for queues in [None, Some(1), Some(2)] {
            let options = DatapathOptions {
                xdp_mode: mode,
                xdp_queues: queues.and_then(std::num::NonZeroU32::new),
                ..options(DatapathChoice::Xdp)
            };
            let expected = pair.near.enter(|| device(&pair.near).datapath(&options));
            let (_context, taken) = start(&pair.near, options).expect("AF_XDP");
            assert_eq!(expected.expect("AF_XDP"), taken);
        }
    }
}

#[test]
fn an_occupied_interface_is_reported_with_its_holder() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let holder = start(&pair.near, options(DatapathChoice::Xdp)).expect("AF_XDP");
    let error = start(&pair.near, options(DatapathChoice::Xdp)).expect_err("it is held");
    let said = error.to_string();
    assert!(said.contains("roce_redirect"), "{said}");
    assert!(said.contains("ROCE_DATAPATH=udp"), "{said}");
    let expected = pair
        .near
        .enter(|| device(&pair.near).datapath(&options(DatapathChoice::Xdp)));
    let said = expected.expect_err("it is held").to_string();
    assert!(said.contains("roce_redirect"), "{said}");
    // With `auto`, the program gets sockets, and the reason.
    let (_other, datapath) = start(&pair.near, options(DatapathChoice::Auto)).expect("sockets");
    let reason = &datapath.not_taken[0].reason;
    assert!(reason.contains("roce_redirect"), "{reason}");
    drop(holder);
    start(&pair.near, options(DatapathChoice::Xdp)).expect("it is free again");
}

/// Programs open each device, and create QPs to probe its limits. The network does not change
/// before a QP needs it; then the call that needs it reports errors.
#[test]
fn the_datapath_starts_with_the_first_path_and_not_before() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let xdp = options(DatapathChoice::Xdp);
    // Opened first, and unused: it does not prevent others from using the interface.
    let idle = open(&pair.near, xdp);
    let domain = idle.alloc_pd();
    let cq = idle.create_cq(1);
    // A thread of another namespace can also create one: its number is claimed in the device's
    // namespace.
    let qp = domain.create_qp(&cq, &cq, &QpOptions::default());
    let qp = qp.expect("a QP in RESET");
    qp.to_init(Access::LOCAL_WRITE).expect("INIT");
    assert_eq!(idle.datapath(), None);
    let (used, taken) = start(&pair.near, xdp).expect("the interface is free");
    assert_eq!(used.datapath(), Some(&taken));
    let cq = used.create_cq(1);
    let other = used.alloc_pd().create_qp(&cq, &cq, &QpOptions::default());
    let parts = [&qp, &other.expect("a QP")].map(|qp| QpnRange::of(qp.qpn()));
    assert_ne!(parts[0], parts[1]);
    // A QP of the device that was opened first goes to RTR.
    let peer = pair.near.enter(|| qp.endpoint(0)).expect("a GID");
    let to_rtr = || {
        pair.near
            .enter(|| qp.to_rtr(0, &peer, &ConnectOptions::default()))
    };
    let refused = to_rtr().expect_err("the interface is held");
    assert!(
        matches!(refused, ConnectError::Start(StartError::Datapath { .. })),
        "{refused}"
    );
    assert!(refused.to_string().contains("roce_redirect"), "{refused}");
    assert_eq!((idle.datapath(), qp.query().0), (None, QpState::Init));
    drop((used, cq));
    to_rtr().expect("it is free by now");
    assert_eq!(idle.datapath().map(Datapath::name), Some("xdp"));
}

#[test]
fn the_command_says_what_is_taken_and_why() {
    let Some(pair) = Pair::new_or_skip(1500, 2) else {
        return;
    };
    let devices = |variables: &[(&str, &str)], option| {
        let mut command = pair.near.command(programs::roce());
        command
            .args(["devices", option])
            .envs(variables.iter().copied());
        output(command)
    };
    let (well, said) = devices(&[], "-v");
    assert!(
        well && said.contains("without zero-copy, AF_XDP is slower"),
        "{said}"
    );
    let xdp = [("ROCE_DATAPATH", "xdp"), ("ROCE_XDP_MODE", "generic")];
    let (well, said) = devices(&xdp, "-v");
    for line in [
        "  datapath        xdp: AF_XDP",
        "  not udp         AF_XDP was asked for",
        "  attachment      generic, in the kernel",
        "  memory          copy",
        "  queues          2",
        "  datapath        none: roce_lo can't use AF_XDP",
    ] {
        assert!(well && said.contains(line), "no {line:?} in {said}");
    }
    let (well, said) = devices(&xdp, "--json");
    let report: Value = serde_json::from_str(&said).expect("JSON");
    let near = &report["devices"][0];
    assert!(well && near["name"] == "roce_near", "{report}");
    assert_eq!(near["datapath"], "xdp");
    assert_eq!(near["xdp"]["attachment"], "generic");
    assert_eq!(near["xdp"]["zero_copy"], false);
    assert_eq!(near["xdp"]["queues"], 2);
    assert_eq!(near["datapaths_not_taken"][0]["datapath"], "udp");
    let (well, said) = devices(&[("ROCE_DATAPATH", "xdp"), ("ROCE_XDP_QUEUES", "3")], "-v");
    assert!(
        well && said.contains("asks for 3 queues, but the interface has 2"),
        "{said}"
    );
}

#[test]
fn without_privilege_the_rights_that_are_missing_are_named() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let run = |datapath: &str| {
        let mut command = pair.near.command("setpriv");
        command.args(["--inh-caps=-all", "--bounding-set=-all"]);
        command.arg(programs::roce()).args(["devices", "-v"]);
        command.env("ROCE_DATAPATH", datapath);
        output(command)
    };
    let (well, said) = run("xdp");
    let none = "datapath        none: roce_near can't use AF_XDP";
    assert!(
        well && said.contains(none) && said.contains("setcap"),
        "{said}"
    );
    let (well, said) = run("auto");
    // The requirements of the interface are checked first.
    assert!(
        well && said.contains("not xdp         the driver does not support zero-copy"),
        "{said}"
    );
}

#[test]
fn a_wrong_value_is_reported_with_valid_ones() {
    for (variable, right) in [
        ("ROCE_DATAPATH", "auto, udp or xdp"),
        ("ROCE_XDP_MODE", "auto, native or generic"),
        ("ROCE_XDP_QUEUES", "1 to 1024"),
        ("ROCE_V1", "0 or 1"),
    ] {
        for subcommand in ["devices", "perf"] {
            let mut command = Command::new(programs::roce());
            command.arg(subcommand).env(variable, "wrong");
            let output = command.output().expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(said.contains(variable) && said.contains(right), "{said}");
        }
    }
}
