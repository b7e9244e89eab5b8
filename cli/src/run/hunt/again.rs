//! The commands that repeat a hunt or a run of it.

use super::HuntArgs;
use crate::quote::quoted;
use crate::run::settings::name_of;
use crate::run::{Namespace, Preload, RunArgs};
use std::ffi::OsStr;

/// The options and the command that all of them share.
#[derive(Clone, Debug)]
pub(super) struct Again {
    /// The options that are not about faults, each with a space before it.
    options: String,
    /// The test and its arguments.
    pub(super) test: String,
}

impl Again {
    pub(super) fn of(args: &RunArgs) -> Self {
        let words = args.command.iter().map(|word| word_of(word));
        Self {
            options: options(args),
            test: words.collect::<Vec<_>>().join(" "),
        }
    }

    /// The command that runs the test once.
    pub(super) fn run(&self, faults: &str) -> String {
        let faults = match faults {
            "" => String::new(),
            faults => format!(" --faults '{faults}'"),
        };
        format!("roce run{faults}{} -- {}", self.options, self.test)
    }

    /// The command that hunts again.
    pub(super) fn hunt(&self, hunt: &HuntArgs, runs: u32, seed: u64) -> String {
        let mut command = format!("roce run --hunt {runs} --hunt-seed {seed}");
        if !hunt.with.is_empty() {
            let names: Vec<_> = hunt.with.iter().map(name_of).collect();
            command.push_str(&format!(" --hunt-with {}", names.join(",")));
        }
        if let Some(limit) = hunt.limit {
            command.push_str(&format!(" --hunt-limit {limit}"));
        }
        if !hunt.accept.is_empty() {
            let codes: Vec<_> = hunt.accept.iter().map(u8::to_string).collect();
            command.push_str(&format!(" --hunt-accept {}", codes.join(",")));
        }
        format!("{command}{} -- {}", self.options, self.test)
    }
}

fn options(args: &RunArgs) -> String {
    let settings = &args.settings;
    let mut options = String::new();
    let mut option = |name: &str, value: String| {
        options.push_str(&format!(" --{name} {value}"));
    };
    if let Some(path) = &settings.library {
        option("library", word_of(path.as_os_str()));
    }
    if let Some(datapath) = &settings.datapath {
        option("datapath", name_of(datapath));
    }
    if let Some(file) = &settings.pcap {
        option("pcap", word_of(file.as_os_str()));
    }
    if let Some(names) = &settings.devices {
        option("devices", quoted(names));
    }
    if args.namespace != Namespace::Auto {
        option("namespace", name_of(&args.namespace));
    }
    if args.preload != Preload::Auto {
        option("preload", name_of(&args.preload));
    }
    options
}

fn word_of(word: &OsStr) -> String {
    quoted(&word.to_string_lossy())
}
