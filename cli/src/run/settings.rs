//! The options of `roce run` and `roce env`, and the environment variables that pass them to the
//! stack.

use super::frameworks::{self, NamedDevice, has_fence_mode};
use crate::error::Error;
use clap::{Args, ValueEnum};
use roce_trust::environment;
use roce_verbs::Device;
use roce_verbs::datapath::DatapathOptions;
use roce_verbs::device::all_devices;
use roce_verbs::faults::Faults;
use roce_verbs::settings::{
    check_device_names, environment_congestion, environment_datapath, environment_priorities,
};
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// The datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DatapathName {
    /// AF_XDP if the driver supports zero-copy and no default route uses the interface, UDP sockets
    /// otherwise.
    Auto,
    /// UDP sockets.
    Udp,
    /// AF_XDP; if it is not available, opening the device fails.
    Xdp,
}

/// The options of both commands.
#[derive(Args, Clone, Debug, Default)]
pub struct Settings {
    /// The library to load, or its folder [default: ROCE_LIBRARY_DIR, or this command's folder,
    /// or ../lib/roce relative to that]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,

    /// The datapath (ROCE_DATAPATH)
    #[arg(long, value_name = "HOW")]
    pub datapath: Option<DatapathName>,

    /// Faults to inject, such as loss=1%,seed=7 or post_send:ENOMEM@3 (ROCE_FAULTS)
    #[arg(long, value_name = "SPEC")]
    pub faults: Option<String>,

    /// Capture packets to FILE; %p in the name stands for the process ID, and ,limit=SIZE and
    /// ,files=N may follow (ROCE_PCAP)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// The devices that the program sees: names of devices or interfaces, separated by commas; with ^ in
    /// front, those that it does not see [default: all] (ROCE_DEVICES)
    #[arg(long, value_name = "NAMES")]
    pub devices: Option<String>,
}

/// The variable that gives devices other names.
const NAMES: &str = "ROCE_DEVICE_NAMES";

impl Settings {
    /// The variables that pass the options to the stack. Existing variables stay, and are checked.
    pub(crate) fn variables(&self) -> Result<Vec<(&'static str, OsString)>, Error> {
        self.datapath()?;
        environment_congestion().map_err(Error::usage)?;
        environment_priorities().map_err(Error::usage)?;
        let mut variables = Vec::new();
        if let Some(datapath) = self.datapath {
            variables.push(("ROCE_DATAPATH", name_of(&datapath).into()));
        }
        if let Some(faults) = self.faults()? {
            variables.push(("ROCE_FAULTS", faults.into()));
        }
        if let Some(file) = &self.pcap {
            variables.push(("ROCE_PCAP", file.into()));
        }
        let devices = self.device_names();
        check_device_names(devices.as_deref()).map_err(Error::usage)?;
        if let Some(names) = devices {
            check_devices(&names)?;
            variables.push(("ROCE_DEVICES", names.into()));
        }
        // `roce env --write` makes files of these names.
        variables.extend(environment::variable(NAMES).map(|names| (NAMES, names)));
        Ok(variables)
    }

    /// The options with which the program will open its devices, from the environment. `--datapath`
    /// is left out, because the devices' files do not depend on it.
    pub(crate) fn datapath(&self) -> Result<DatapathOptions, Error> {
        environment_datapath().map_err(Error::usage)
    }

    /// The faults that the program will experience.
    pub(crate) fn faults(&self) -> Result<Option<String>, Error> {
        let said = self.faults.clone().map(|text| ("--faults", text));
        let Some((whose, text)) = said.or_else(|| Some(("ROCE_FAULTS", variable("ROCE_FAULTS")?)))
        else {
            return Ok(None);
        };
        match text.parse::<Faults>() {
            Ok(_) => Ok(Some(text)),
            Err(error) => Err(Error::usage(format_args!("{whose} is {text:?}: {error}"))),
        }
    }

    /// The devices that the program will see.
    pub(crate) fn devices(&self) -> Result<Vec<Device>, Error> {
        let mut devices = list_all_devices()?;
        if let Some(names) = self.device_names() {
            devices.retain(|device| device.is_among(&names));
        }
        Ok(devices)
    }

    /// The settings that NCCL, UCX and Open MPI need for these devices, and that the user has not made.
    pub(crate) fn frameworks(&self) -> Result<Vec<(&'static str, OsString)>, Error> {
        let devices: Vec<_> = self.devices()?.iter().map(NamedDevice::from).collect();
        let is_set = |name: &str| env::var_os(name).is_some();
        let lacking = frameworks::lacking(&devices, has_fence_mode(), is_set);
        let variables = lacking.into_iter().map(frameworks::Setting::variable);
        Ok(variables.collect())
    }

    fn device_names(&self) -> Option<String> {
        self.devices.clone().or_else(|| variable("ROCE_DEVICES"))
    }
}

/// The name of a value on the command line.
pub(super) fn name_of(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}

fn variable(name: &str) -> Option<String> {
    let value = environment::variable(name)?;
    Some(value.to_string_lossy().into_owned())
}

fn list_all_devices() -> Result<Vec<Device>, Error> {
    all_devices().map_err(|error| Error::system("finding devices", error))
}

fn check_devices(names: &str) -> Result<(), Error> {
    if names.starts_with('^') {
        return Ok(());
    }
    let all = list_all_devices()?;
    for name in names.split(',') {
        if !all.iter().any(|device| device.is_among(name)) {
            let known: Vec<_> = all.iter().map(Device::name).collect();
            return Err(Error::usage(format_args!(
                "no device is named {name:?}, of {names:?}; there are: {}",
                known.join(", ")
            )));
        }
    }
    Ok(())
}
