//! Two processes on one host with AF_XDP: what works, and the errors otherwise.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use roce_tests::programs;
use roce_tests::veth::{End, Pair};
use roce_verbs::Device;
use roce_verbs::datapath::{DatapathChoice, DatapathOptions};
use roce_verbs::device::Gid;
use roce_verbs::settings::OpenOptions;
use serde_json::Value;

use super::perf::Server;

/// `roce perf` at an end, with a few messages.
fn perf(end: &End, datapath: &str) -> Command {
    let mut command = end.command(programs::roce());
    command.args(["perf", "--json"]);
    command.env("ROCE_DATAPATH", datapath);
    command
}

/// Serves one client at an address. Returns the server, its port, and its report.
fn serve(end: &End, datapath: &str, address: &str) -> (Server, String, impl FnOnce() -> Value) {
    let mut command = perf(end, datapath);
    command.args(["--once", "--port", "0", "--server", address]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("roce starts");
    let mut said = BufReader::new(child.stdout.take().expect("piped"));
    let server = Server(child);
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    let port = line
        .trim()
        .rsplit(' ')
        .next()
        .unwrap_or_default()
        .to_owned();
    let report = move || serde_json::from_reader(said).expect("JSON");
    (server, port, report)
}

fn client(end: &End, datapath: &str, port: &str, options: &[&str]) -> Output {
    let mut command = perf(end, datapath);
    command.args(["--port", port, "--size", "64,5000"]);
    command.args(["--duration", "5", "--iterations", "20", "--depth", "16"]);
    command.args(options).output().expect("roce starts")
}

/// The report of a client that must succeed.
fn report_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The error of a client that must fail.
fn refusal_of(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn counted(report: &Value, name: &str) -> u64 {
    report["port_counters"][name].as_u64().expect("a count")
}

/// Each process has an interface. A cable connects the two, so each packet passes their queues.
#[test]
fn two_processes_with_an_interface_each() {
    let Some(pair) = Pair::on_one_host_or_skip(1500, 1) else {
        return;
    };
    for ipv6 in [false, true] {
        let [near, far] = [&pair.near, &pair.far].map(|end| end.address(ipv6).to_string());
        let (mut server, port, report) = serve(&pair.far, "xdp", &far);
        let ours = client(&pair.near, "xdp", &port, &["--bind", &near, &far]);
        let reports = [report_of(&ours), report()];
        for report in &reports {
            assert_eq!(report["datapath"], "xdp", "{report}");
            for name in ["rx_frames", "tx_frames"] {
                assert!(counted(report, name) > 500, "{name}: {report}");
            }
            assert_eq!(counted(report, "tx_looped"), 0);
        }
        // The packets that one sends arrive at the other.
        let [ours, theirs] = &reports;
        let (sent, arrived) = (counted(ours, "tx_frames"), counted(theirs, "rx_frames"));
        assert!(2 * arrived > sent, "{sent} sent, {arrived} arrived");
        assert!(server.0.wait().expect("a process of ours").success());
    }
}

/// A client without `--bind` gets the peer's interface, which is in use. The error says so.
#[test]
fn an_address_that_another_process_has_is_refused_and_sockets_go() {
    let Some(pair) = Pair::on_one_host_or_skip(1500, 1) else {
        return;
    };
    let far = pair.far.ip4.to_string();
    let options = DatapathOptions {
        datapath: DatapathChoice::Xdp,
        ..DatapathOptions::default()
    };
    let holder = pair.far.enter(|| {
        let device = Device::named("roce_far").expect("it has addresses");
        let context = OpenOptions::new().datapath(options).open(&device);
        let context = context.expect("nothing is touched");
        context.start().map(drop)?;
        Ok::<_, roce_verbs::device::StartError>(context)
    });
    let _holder = holder.expect("AF_XDP");
    let (mut server, port, _report) = serve(&pair.far, "auto", &far);
    let said = refusal_of(&client(&pair.near, "xdp", &port, &[&far]));
    for words in [
        "roce_far can't use AF_XDP",
        "roce_redirect",
        "ROCE_DATAPATH=udp",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    server.0.kill().expect("a process of ours");
    let (mut server, port, theirs) = serve(&pair.far, "auto", &far);
    let report = report_of(&client(&pair.near, "auto", &port, &[&far]));
    assert_eq!(report["datapath"], "udp");
    assert_eq!(theirs()["datapath"], "udp");
    assert!(server.0.wait().expect("a process of ours").success());
}

#[test]
fn the_loopback_is_refused_and_sockets_go() {
    let Some(pair) = Pair::on_one_host_or_skip(1500, 1) else {
        return;
    };
    let (mut server, port, _report) = serve(&pair.near, "auto", "127.0.0.1");
    let said = refusal_of(&client(&pair.near, "xdp", &port, &["127.0.0.1"]));
    for words in ["roce_lo can't use AF_XDP", "one queue", "ROCE_DATAPATH=udp"] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
    server.0.kill().expect("a process of ours");
    let (mut server, port, theirs) = serve(&pair.near, "auto", "127.0.0.1");
    let report = report_of(&client(&pair.near, "auto", &port, &["127.0.0.1"]));
    assert_eq!(report["datapath"], "udp");
    assert_eq!(theirs()["datapath"], "udp");
    assert!(server.0.wait().expect("a process of ours").success());
    let mut command = pair.near.command(programs::roce());
    let output = command.args(["devices", "-v"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let why = "not xdp         traffic that stays on this machine uses one queue";
    assert!(said.contains(why), "{said}");
}

/// An address of this host that no link reaches is an error, not a hang.
#[test]
fn connecting_to_an_address_without_a_link_is_an_error() {
    let Some(pair) = Pair::on_one_host_or_skip(1500, 1) else {
        return;
    };
    pair.far
        .ip("address add 10.99.0.2/32 dev far")
        .expect("free");
    let said = pair.near.enter(|| {
        let options = DatapathOptions {
            datapath: DatapathChoice::Xdp,
            ..DatapathOptions::default()
        };
        let device = Device::named("roce_near").expect("it has addresses");
        let context = OpenOptions::new()
            .datapath(options)
            .open(&device)
            .expect("AF_XDP");
        let near = Gid::from(pair.near.address(false));
        let gids = context.gids();
        let index = gids
            .iter()
            .find(|entry| entry.gid == near)
            .expect("its own")
            .index;
        let to = |address: &str| {
            let gid = Gid::from(address.parse::<std::net::IpAddr>().expect("an address"));
            context
                .path(index, gid, 0, 0)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        assert_eq!(to("10.91.0.2"), Ok(()));
        to("10.99.0.2").expect_err("beyond")
    });
    for words in [
        "10.99.0.2",
        "another interface of this host",
        "ROCE_DATAPATH=udp",
    ] {
        assert!(said.contains(words), "no {words:?} in {said}");
    }
}
