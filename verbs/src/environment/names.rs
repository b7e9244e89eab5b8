//! The names that `ROCE_DEVICE_NAMES` gives to devices, for programs that look for a name such as
//! `mlx5_0`.

use super::value;
use std::fs;
use std::path::{Path, PathBuf};

const VARIABLE: &str = "ROCE_DEVICE_NAMES";

/// The length of the longest name. `struct ibv_device` has room for 64 bytes, the last one zero.
const MAX_LEN: usize = 63;

/// The kernel's RDMA devices, or under `roce run` this stack's.
const SYSFS: &str = "/sys/class/infiniband";

/// The `board_id` in sysfs of this stack's devices, which tells them from the kernel's.
pub const BOARD_ID: &str = "roce";

/// The name of an interface's device, unless the variable gives it another.
pub(crate) fn default_name(interface: &str) -> String {
    format!("roce_{interface}")
}

/// The names that the variable gives.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenNames {
    /// The devices that get a name, each by its place in the list, with the name.
    pub(crate) names: Vec<(usize, String)>,
    /// The fault of the first name that no device gets.
    pub(crate) fault: Option<String>,
}

impl GivenNames {
    /// The names for the devices of these interfaces, from the environment.
    pub(crate) fn from_environment(interfaces: &[&str]) -> Self {
        let Some(value) = value(VARIABLE) else {
            return Self::default();
        };
        Self::of(&value.to_string_lossy(), interfaces, Path::new(SYSFS))
    }

    /// A value that can't be read gives no name. Interfaces come and go, so a fault of one name does
    /// not keep other devices from getting theirs.
    fn of(value: &str, interfaces: &[&str], sysfs: &Path) -> Self {
        let mut given = Self::default();
        let pairs = match parse(value) {
            Ok(pairs) => pairs,
            Err(fault) => {
                given.fault = Some(fault);
                return given;
            }
        };
        for (device, name) in pairs {
            match given.place(device, name, interfaces, sysfs) {
                Ok(place) => given.names.push((place, name.to_owned())),
                Err(fault) => given.fault = given.fault.or(Some(fault)),
            }
        }
        given
    }

    /// The device that gets a name.
    fn place(
        &self,
        device: &str,
        name: &str,
        interfaces: &[&str],
        sysfs: &Path,
    ) -> Result<usize, String> {
        let is_named =
            |interface: &&str, name| name == *interface || name == default_name(interface);
        let Some(place) = interfaces.iter().position(|it| is_named(it, device)) else {
            let known: Vec<_> = interfaces.iter().map(|it| default_name(it)).collect();
            return Err(unknown_device(device, &known));
        };
        if self.names.iter().any(|(named, _)| *named == place) {
            return Err(format!("{device:?} gets two names; a device has one"));
        }
        let mut others = interfaces.iter().enumerate();
        if others.any(|(other, it)| other != place && is_named(it, name)) {
            return Err(format!(
                "{name:?} is the name of another interface or its device; choose one that is free"
            ));
        }
        if is_of_kernel(sysfs.join(name)) {
            return Err(format!(
                "{name:?} is the name of an RDMA device of the kernel; choose one that is not in {SYSFS}"
            ));
        }
        Ok(place)
    }
}

/// The pairs of a device or interface and its name.
fn parse(value: &str) -> Result<Vec<(&str, &str)>, String> {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for pair in value.split(',') {
        // No name has a `=`, but an interface may.
        let Some((device, name)) = pair.rsplit_once('=') else {
            return Err(format!(
                "{pair:?} must be an interface and a name, such as eth0=mlx5_0; commas separate several"
            ));
        };
        check_name(name)?;
        if pairs.iter().any(|(_, before)| *before == name) {
            return Err(format!(
                "{name:?} is given twice; each device needs its own"
            ));
        }
        pairs.push((device, name));
    }
    Ok(pairs)
}

/// Checks the form of a name. Programs use it in paths, and separate names by commas, colons and
/// blanks.
fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-.".contains(&b);
    let begins_well = name
        .as_bytes()
        .first()
        .is_some_and(u8::is_ascii_alphanumeric);
    match begins_well && name.len() <= MAX_LEN && name.bytes().all(is_allowed) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no name for a device: it must have 1 to {MAX_LEN} ASCII letters, digits, '_', '-' \
             or '.', and begin with a letter or a digit"
        )),
    }
}

/// Whether this folder of sysfs is a device of the kernel.
fn is_of_kernel(device: PathBuf) -> bool {
    let board = || fs::read_to_string(device.join("board_id")).unwrap_or_default();
    device.exists() && board().trim() != BOARD_ID
}

/// The fault of a variable that names a device that is not there.
pub(crate) fn unknown_device(name: &str, known: &[String]) -> String {
    let devices = match known {
        [] => "there is no device: no interface is up and has an address".to_owned(),
        _ => format!(
            "there are: {}. An interface is a device while it is up and has an address",
            known.join(", ")
        ),
    };
    format!("no device is named {name:?}; {devices}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(value: &str) -> GivenNames {
        GivenNames::of(value, &["eth0", "eth1", "lo"], Path::new("/nonexistent"))
    }

    fn names(given: &GivenNames) -> Vec<(usize, &str)> {
        let names = given.names.iter();
        names.map(|(place, name)| (*place, name.as_str())).collect()
    }

    #[test]
    fn devices_get_names_by_their_own_or_their_interfaces_name() {
        let all = given("roce_lo=rxe0,eth0=mlx5_0");
        assert_eq!(names(&all), [(2, "rxe0"), (0, "mlx5_0")]);
        assert_eq!(all.fault, None);
        let long = format!("eth1={}", "x".repeat(MAX_LEN));
        assert_eq!(given(&long).fault, None);
        // Some vendors' drivers name the device as the interface.
        assert_eq!(names(&given("eth0=eth0")), [(0, "eth0")]);
    }

    #[test]
    fn a_value_that_cannot_be_read_gives_no_name() {
        let too_long = format!("eth0={}", "x".repeat(MAX_LEN + 1));
        for (wrong, part) in [
            ("mlx5_0", "\"mlx5_0\" must be an interface and a name"),
            ("eth0=a,", "\"\" must be an interface and a name"),
            ("eth0=", "\"\" is no name for a device"),
            ("eth0=a/b", "\"a/b\" is no name"),
            ("eth0=..", "\"..\" is no name"),
            ("eth0=a\x1bb", "\"a\\u{1b}b\" is no name"),
            ("eth0=a:1", "\"a:1\" is no name"),
            ("eth0=é", "1 to 63 ASCII letters"),
            (&too_long, "1 to 63 ASCII letters"),
            ("eth0=a,eth1=a", "\"a\" is given twice"),
        ] {
            let all = given(&format!("lo=rxe0,{wrong}"));
            assert_eq!(names(&all), [], "{wrong}");
            let fault = all.fault.expect("one is wrong");
            assert!(fault.contains(part), "{wrong}: {fault}");
        }
    }

    #[test]
    fn one_name_that_no_device_gets_leaves_the_others() {
        for (wrong, part) in [
            (
                "eth7=a",
                "no device is named \"eth7\"; there are: roce_eth0, roce_eth1, roce_lo.",
            ),
            ("=a", "no device is named \"\""),
            ("roce_lo=a", "\"roce_lo\" gets two names"),
            (
                "eth0=roce_eth1",
                "\"roce_eth1\" is the name of another interface",
            ),
            ("eth0=eth1", "\"eth1\" is the name of another interface"),
        ] {
            let all = given(&format!("lo=rxe0,{wrong},eth1=mlx5_1"));
            assert_eq!(names(&all), [(2, "rxe0"), (1, "mlx5_1")], "{wrong}");
            let fault = all.fault.expect("one is wrong");
            assert!(fault.contains(part), "{wrong}: {fault}");
        }
        let none = GivenNames::of("eth0=a", &[], Path::new("/nonexistent"));
        assert!(
            none.fault
                .is_some_and(|fault| fault.contains("there is no device"))
        );
    }

    /// `roce run` shows programs this stack's own devices in sysfs, under the same names.
    #[test]
    fn a_device_of_the_kernel_keeps_its_name() {
        let sysfs = tempfile::tempdir().expect("a folder");
        for (name, board) in [
            ("mlx5_0", Some("MT_0000000012\n")),
            ("rxe0", None),
            ("ours", Some("roce\n")),
        ] {
            fs::create_dir(sysfs.path().join(name)).expect("made");
            if let Some(board) = board {
                fs::write(sysfs.path().join(name).join("board_id"), board).expect("written");
            }
        }
        let given = |name| GivenNames::of(&format!("eth0={name}"), &["eth0"], sysfs.path());
        for name in ["mlx5_0", "rxe0"] {
            let fault = given(name).fault.expect("it is taken");
            assert!(
                fault.contains("is the name of an RDMA device of the kernel"),
                "{fault}"
            );
            assert_eq!(names(&given(name)), []);
        }
        for name in ["ours", "mlx5_1"] {
            assert_eq!(names(&given(name)), [(0, name)]);
        }
    }
}
