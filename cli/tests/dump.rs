//! `roce dump` in its own network namespace, compared with the devices' own reports.

use pnet_datalink::{Channel, NetworkInterface};
use roce_wire::icrc;
use roce_wire::{
    Bth, ExtHeaders, FrameRepr, Grh, Link, NetworkHeader, Opcode, PacketRepr, Psn, Qpn, UDP_PORT,
    UdpHeader, VlanTag,
};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ROCE: &str = env!("CARGO_BIN_EXE_roce");

/// Runs a shell script in a folder; `$ROCE` is the command. When the script prints `now`, `work`
/// runs, and the script gets a line to read. Returns the script's output.
fn run(dir: &Path, script: &str, work: impl FnOnce()) -> String {
    let mut child = Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(dir)
        .env("ROCE", ROCE)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut stdin = child.stdin.take().expect("piped");
    let mut work = Some(work);
    let mut said = String::new();
    for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        if line == "now"
            && let Some(work) = work.take()
        {
            work();
            writeln!(stdin).expect("it reads");
        }
        said += &line;
        said.push('\n');
    }
    let status = child.wait().expect("ended");
    assert!(status.success(), "{status}: {said}");
    said
}

fn json(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// The packets of a file, and the summary.
fn decode(file: &Path) -> (Vec<Value>, Value) {
    let output = Command::new(ROCE)
        .args(["decode", "--json"])
        .arg(file)
        .output()
        .expect("the command starts");
    assert!(output.status.success(), "{output:?}");
    let mut lines = json(&String::from_utf8(output.stdout).expect("UTF-8"));
    let summary = lines.pop().expect("a summary");
    (lines, summary)
}

/// The fields of a packet that do not depend on where it is captured.
fn essence(packet: &Value) -> String {
    let fields = [
        "src",
        "dst",
        "src_port",
        "dst_port",
        "ecn",
        "ip_id",
        "opcode",
        "dest_qpn",
        "psn",
        "payload_len",
        "icrc",
    ];
    fields.map(|name| packet[name].to_string()).join(" ")
}

/// `begin NAME ARGS…` starts a dump, whose process ID is then in `$NAME`. It listens when
/// `NAME.said` has a line.
const SCRIPT: &str = r#"
begin() {
    name=$1; shift
    mkfifo $name.said
    "$ROCE" dump "$@" >$name.out 2>$name.said & pid=$!
    eval "$name=$pid"
}
"#;

#[test]
fn a_dump_has_what_the_devices_have_sent() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{SCRIPT}
begin all -i lo -w all.pcapng
exec 3<all.said; read -r line <&3; echo "$line"
begin few -i roce_lo --json --count 50
exec 4<few.said; read -r line <&4; echo "$line"
ROCE_PCAP=own.pcapng "$ROCE" perf --op send,write,read --size 5,9000 --mtu 1024 --duration 1 \
    --iterations 10 >/dev/null
kill -TERM $all
wait $all
wait $few
cat <&3
cat <&4
"#
    );
    if !testkit::enters_network_namespace_or_skip() {
        return;
    }
    let said = run(dir.path(), &script, || {});
    assert_eq!(
        said.matches("listening on lo, Ctrl-C ends it").count(),
        2,
        "{said}"
    );
    let (dumped, summary) = decode(&dir.path().join("all.pcapng"));
    let count = dumped.len();
    assert!(said.contains(&format!("{count} packets, 0 lost")), "{said}");
    // Single packets, in whatever form the kernel delivered them.
    assert_eq!(summary["super_packets"], 0);
    assert_eq!(summary["icrc_ok"], count);
    let mut dumped: Vec<_> = dumped.iter().map(essence).collect();
    let mut own = Vec::new();
    for name in ["own.pcapng", "own-2.pcapng"] {
        let (packets, _) = decode(&dir.path().join(name));
        // The device speaks first in its own capture, or answers the other's first packet.
        let received = |packet: &&Value| {
            let ends_with = |end: &str| packet["src"].as_str().unwrap().ends_with(end);
            ends_with(".1") == (name == "own.pcapng")
        };
        own.extend(packets.iter().filter(received).map(essence));
    }
    dumped.sort();
    own.sort();
    assert!(count > 500, "{count}");
    let differing = dumped.iter().zip(&own).find(|(a, b)| a != b);
    assert_eq!(differing, None);
    assert_eq!(dumped.len(), own.len());

    let few = std::fs::read_to_string(dir.path().join("few.out")).unwrap();
    let few = json(&few);
    assert_eq!(few.len(), 51);
    assert!(
        few[..50]
            .iter()
            .all(|packet| packet["icrc"]["verdict"] == "ok")
    );
    assert_eq!(few[50]["packets"], 50);
}

/// A frame in VLANs, of either version of RoCE.
fn frame(network: NetworkHeader<'_>, vlans: [Option<VlanTag>; 2]) -> Vec<u8> {
    let packet = PacketRepr {
        bth: Bth::new(Opcode::RC_SEND_ONLY, Qpn::new(0x12).unwrap(), Psn::new(3)),
        ext: ExtHeaders::NONE,
    };
    let mut transport = vec![0; packet.buffer_len(64)];
    packet.emit_headers(&mut transport, 64);
    if let Some(ip) = network.ip_header() {
        icrc::seal(&ip, 0xc000, UDP_PORT, &mut transport);
    }
    let repr = FrameRepr {
        link: Some(Link {
            dst: [0; 6],
            src: [2, 0, 0, 0, 0, 1],
            vlans,
        }),
        network,
        udp: Some(UdpHeader {
            src_port: 0xc000,
            dst_port: UDP_PORT,
            checksum: 0,
        }),
    };
    let mut frame = vec![0; repr.buffer_len(transport.len())];
    repr.emit(&mut frame, &transport);
    frame
}

fn ipv4(dst: u8) -> NetworkHeader<'static> {
    NetworkHeader::V4 {
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, dst],
        tos: 2,
        ttl: 64,
        id: 7,
        flags_fragment: 0x4000,
        options: &[],
    }
}

fn tag(tpid: u16, vid: u16) -> Option<VlanTag> {
    Some(VlanTag {
        tpid,
        tci: 0x6000 | vid,
    })
}

/// Sends frames through the loopback interface.
fn inject_frames() {
    let lo: NetworkInterface = pnet_datalink::interfaces()
        .into_iter()
        .find(|interface| interface.name == "lo")
        .expect("a loopback interface");
    let Ok(Channel::Ethernet(mut sender, _)) = pnet_datalink::channel(&lo, Default::default())
    else {
        panic!("no channel");
    };
    let grh = NetworkHeader::Grh(Grh {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 0,
        next_header: Grh::NEXT_HEADER_BTH,
        hop_limit: 64,
        sgid: [1; 16],
        dgid: [2; 16],
    });
    let mut foreign = frame(ipv4(9), [None, None]);
    // Another UDP port.
    foreign[14 + 20 + 3] ^= 1;
    for frame in [
        frame(ipv4(1), [None, None]),
        foreign,
        frame(ipv4(2), [tag(0x8100, 5), None]),
        frame(ipv4(3), [tag(0x88a8, 6), tag(0x8100, 7)]),
        frame(grh, [tag(0x8100, 8), None]),
    ] {
        sender.send_to(&frame, None).expect("lent").expect("sent");
    }
}

#[test]
fn vlans_and_roce_v1_are_seen_and_other_traffic_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!(
        r#"{SCRIPT}
begin all -i lo -w all.pcapng --count 4 --seconds 30
exec 3<all.said; read -r line <&3
echo now; read -r line
wait $all
cat <&3
"#
    );
    if !testkit::enters_network_namespace_or_skip() {
        return;
    }
    let said = run(dir.path(), &script, inject_frames);
    assert!(said.contains("4 packets, 0 lost"), "{said}");
    let (packets, _) = decode(&dir.path().join("all.pcapng"));
    let vlans: Vec<_> = packets.iter().map(|p| p["vlans"].to_string()).collect();
    assert_eq!(vlans, ["null", "[5]", "[6,7]", "[8]"]);
    for packet in &packets[..3] {
        assert_eq!(packet["icrc"]["verdict"], "ok", "{packet}");
    }
    assert_eq!(packets[3]["src_port"], Value::Null);
}

#[test]
fn it_ends_after_the_given_time() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#""$ROCE" dump -i lo --seconds 1 --summary"#;
    if !testkit::enters_network_namespace_or_skip() {
        return;
    }
    let text = run(dir.path(), script, || {});
    assert!(text.starts_with("0 packets"), "{text}");
}

#[test]
fn without_privilege_it_says_what_to_do() {
    let args = ["dump", "-i", "lo", "--seconds", "1"];
    // Root without the capability is an ordinary user here.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-net_raw", "--inh-caps=-all", ROCE]);
    let privileged = command.args(args).output().ok();
    let denied = |output: &Output| output.status.code() == Some(1) && !output.stderr.is_empty();
    let output = match privileged.filter(denied) {
        Some(output) => output,
        None => Command::new(ROCE).args(args).output().expect("it starts"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("setpriv") || output.status.success() {
        testkit::skip("setpriv, or a user without CAP_NET_RAW", "");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in [
        "CAP_NET_RAW",
        "sudo setcap cap_net_raw+ep ",
        "ROCE_PCAP=FILE",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn wrong_usage_says_what_would_be_right() {
    for (args, said) in [
        (&["dump"][..], "--interface"),
        (
            &["dump", "-i", "nowhere0"],
            "named \"nowhere0\"; there are: ",
        ),
        (&["dump", "-i", "lo", "-c", "0"], "--count"),
        (
            &["dump", "-i", "lo", "-w", "x", "--json"],
            "cannot be used with",
        ),
    ] {
        let output = Command::new(ROCE).args(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(said), "{text}");
    }
}
