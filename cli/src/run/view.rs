//! The way in which a program sees the files of its devices.

use super::folder::Folder;
use super::library::Library;
use super::namespace::{self, Entered};
use super::tree::DeviceFiles;
use super::{Namespace, Preload, RunArgs};
use crate::error::Error;

/// How the program sees its devices' files.
pub(super) enum DeviceView {
    /// In a namespace that this process has entered.
    Namespace(Entered),
    /// In a folder, with a library that the program preloads.
    Folder(Folder),
    /// In neither way: it sees the system's own files.
    System,
}

/// Makes the device files, as far as they are wanted and permitted.
pub(super) fn make(
    args: &RunArgs,
    library: &Library,
    notice: &impl Fn(&str),
) -> Result<DeviceView, Error> {
    let devices = args.settings.devices()?;
    if devices.is_empty() {
        notice("no interface is up and has an address: the program will find no device");
    }
    let device_files = || Ok::<_, Error>(DeviceFiles::of(&devices, &args.settings.datapath()?));
    let why = match args.namespace {
        Namespace::None => return Ok(DeviceView::System),
        Namespace::Preload => "--namespace preload requests no other way".to_owned(),
        Namespace::Auto | Namespace::Require => match namespace::enter(&device_files()?, library) {
            Ok(entered) => {
                report_view(&entered, args.verbose, notice);
                return Ok(DeviceView::Namespace(entered));
            }
            Err(why) => format!("not way 1 or 2, a mount namespace: {why}"),
        },
    };
    if args.namespace == Namespace::Require {
        return Err(Error::not_run(format_args!(
            "no private /sys for the program, which --namespace require asks for: {why} ({REMEDY})"
        )));
    }
    let made = match args.preload {
        Preload::Auto => Folder::of(&device_files()?, library),
        Preload::Never => Err("--preload never".to_owned()),
    };
    match made {
        Ok(folder) => {
            if args.verbose {
                notice(&format!(
                    "way 3 of 3, a preloaded library: it shows the files of {} as /sys/class and \
                     /dev ({why})",
                    folder.root().display()
                ));
            }
            Ok(DeviceView::Folder(folder))
        }
        Err(error) => {
            notice(&format!(
                "the program does not see its devices in /sys/class/infiniband and \
                 /dev/infiniband, only through the library: {why} ({REMEDY}); not way 3, a \
                 preloaded library: {error}; --namespace none silences this message"
            ));
            Ok(DeviceView::System)
        }
    }
}

/// Settings that permit a namespace.
const REMEDY: &str = "where user namespaces are forbidden: sysctl user.max_user_namespaces, \
                      kernel.unprivileged_userns_clone, \
                      kernel.apparmor_restrict_unprivileged_userns; in a container, docs/run.md \
                      says what to allow";

fn report_view(entered: &Entered, verbose: bool, notice: &impl Fn(&str)) {
    if verbose {
        notice(&entered.to_string());
    }
    if let Err(why) = &entered.dev {
        notice(&format!(
            "the program sees no /dev/infiniband of this stack, so UCX will find no device: {why}"
        ));
    }
}
