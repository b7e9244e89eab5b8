//! `roce devices` on this machine, which has a loopback interface at least.

use std::process::Command;

use serde_json::Value;

fn devices(options: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_roce"))
        .arg("devices")
        .args(options)
        .output()
        .expect("roce starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_loopback_is_a_device() {
    let table = devices(&[]);
    let row = table
        .lines()
        .find(|line| line.starts_with("roce_lo "))
        .unwrap_or_else(|| panic!("no roce_lo in {table}"));
    assert!(row.contains("active") && row.contains("udp"), "{row}");
    assert!(table.contains("::ffff:127.0.0.1"), "{table}");
}

/// `ROCE_DEVICES` selects devices by their names or their interfaces' names. An empty value counts
/// as unset.
#[test]
fn the_environment_says_which_devices_there_are() {
    for (names, has_lo) in [
        ("lo", true),
        ("roce_lo", true),
        ("lo,roce_lo", true),
        ("", true),
        ("^nosuch", true),
        ("^lo", false),
        ("^nosuch,roce_lo", false),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_roce"))
            .arg("devices")
            .env("ROCE_DEVICES", names)
            .output()
            .expect("roce starts");
        let table = String::from_utf8(output.stdout).expect("text");
        assert_eq!(table.contains("roce_lo "), has_lo, "{names:?}: {table}");
        assert_eq!(output.status.code(), Some(0), "{names:?}");
    }
}

/// Each device has one name, which selects it.
#[test]
fn the_environment_gives_devices_names() {
    for names in ["lo=mlx5_0", "roce_lo=mlx5_0"] {
        let output = Command::new(env!("CARGO_BIN_EXE_roce"))
            .arg("devices")
            .envs([("ROCE_DEVICE_NAMES", names), ("ROCE_DEVICES", "mlx5_0")])
            .output()
            .expect("roce starts");
        let table = String::from_utf8(output.stdout).expect("text");
        assert!(
            table.contains("mlx5_0 ") && !table.contains("roce_lo"),
            "{names:?}: {table}"
        );
        assert_eq!(output.status.code(), Some(0), "{names:?}");
    }
}

#[test]
fn verbose_names_the_datapath_that_was_not_taken() {
    let text = devices(&["-v"]);
    let lo = text
        .split("\n\n")
        .find(|part| part.starts_with("roce_lo\n"));
    let lo = lo.unwrap_or_else(|| panic!("no roce_lo in {text}"));
    assert!(
        lo.contains("not xdp         traffic that stays on this machine"),
        "{lo}"
    );
    assert!(text.contains("KiB for each address"), "{text}");
}

#[test]
fn json_has_all_of_it() {
    let report: Value = serde_json::from_str(&devices(&["--json"])).expect("JSON");
    let all = report["devices"].as_array().expect("a list");
    let lo = all
        .iter()
        .find(|device| device["name"] == "roce_lo")
        .unwrap_or_else(|| panic!("no roce_lo in {report}"));
    let mtu = std::fs::read_to_string("/sys/class/net/lo/mtu").expect("it has one");
    assert_eq!(lo["link_mtu"].to_string(), mtu.trim());
    assert_eq!(lo["datapath"], "udp");
    let gids = lo["gids"].as_array().expect("a list");
    let kinds: Vec<_> = gids.iter().map(|gid| (&gid["gid"], &gid["kind"])).collect();
    let v4 = (&Value::from("::ffff:127.0.0.1"), &Value::from("IPv4"));
    assert!(kinds.contains(&v4), "{kinds:?}");
    for (place, gid) in (0..).zip(gids) {
        assert_eq!(gid["index"], place);
    }
    assert!(lo["receive_buffer_bytes"].as_u64() > Some(0));
}

#[test]
fn the_environment_says_how_large_a_buffer_is_asked_for() {
    let bytes = |mebibytes: Option<&str>| {
        let output = Command::new(env!("CARGO_BIN_EXE_roce"))
            .args(["devices", "--json"])
            .env("ROCE_DEVICES", "lo")
            .envs(mebibytes.map(|count| ("ROCE_UDP_BUFFER_MIB", count)))
            .output()
            .expect("roce starts");
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let bytes = report["devices"][0]["receive_buffer_bytes"].as_u64();
        bytes.unwrap_or_else(|| panic!("no buffer in {report}"))
    };
    // The kernel may give less than either.
    assert_eq!(bytes(Some("1")), bytes(None).min(1 << 20));
}

/// Each network namespace has the devices of its own interfaces: a container sees neither those of
/// its host nor those of its neighbours.
// trap: namespaces
#[test]
fn a_namespace_has_its_own_devices() {
    if !testkit::network_namespace_or_skip() {
        return;
    }
    let output = Command::new("unshare")
        .args(["--net", env!("CARGO_BIN_EXE_roce"), "devices", "--json"])
        .output()
        .expect("unshare starts");
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = report["devices"].as_array().expect("a list");
    let names: Vec<_> = all.iter().map(|device| &device["name"]).collect();
    // A new namespace has a loopback interface, and nothing else.
    assert!(names.iter().all(|name| *name == "roce_lo"), "{names:?}");
}

/// A name for a device that the program does not use is most likely a mistake.
#[test]
fn a_name_for_a_device_that_is_left_out_is_an_error() {
    if !testkit::network_namespace_or_skip() {
        return;
    }
    const CABLE: &str = "
        ip link set lo up
        ip link add near type veth peer name far
        ip address add 10.9.9.1/24 dev near
        ip link set near up
        exec \"$0\" devices";
    let devices = |selected: &str, names: &str| {
        let output = Command::new("unshare")
            .args(["--net", "sh", "-ec", CABLE, env!("CARGO_BIN_EXE_roce")])
            .envs([("ROCE_DEVICES", selected), ("ROCE_DEVICE_NAMES", names)])
            .output()
            .expect("unshare starts");
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.code(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let (code, said) = devices("mlx5_0", "near=mlx5_0");
    assert!(code == Some(0) && said.contains("mlx5_0 "), "{said}");
    let (code, said) = devices("lo", "near=mlx5_0,lo=rxe0");
    assert_eq!(code, Some(2), "{said}");
    let reason =
        "the program does not use mlx5_0 (near), which it names: ROCE_DEVICES selects \"lo\"";
    assert!(said.contains(reason), "{said}");
    let (code, said) = devices("", "near=roce_lo");
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("\"roce_lo\" is the name of another interface"),
        "{said}"
    );
}
