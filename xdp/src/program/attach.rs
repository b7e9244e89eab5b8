//! Attaching the program to an interface.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use roce_port::fork::NotInherited;

use super::ProgramError;
use super::holder::holder;
use super::mode::{AttachMode, Mode};
use crate::sys::bpf;

/// An attached program. It is detached when this value is dropped or the process ends, even if a
/// forked child lives on.
#[derive(Debug)]
pub struct Attached {
    link: NotInherited,
    mode: Mode,
    native_error: Option<io::Error>,
}

impl Attached {
    /// The mode in which the program is attached.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Why the program is not attached in the driver, if that was tried.
    pub fn why_not_native(&self) -> Option<&io::Error> {
        self.native_error.as_ref()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // A child of this process also has the descriptor, between `fork` and `exec`. If detaching
        // fails (kernels before 5.9), the link ends when the last descriptor is closed.
        let _ = bpf::detach(self.link.as_fd());
    }
}

pub(super) fn attach(
    program: BorrowedFd<'_>,
    interface: &str,
    index: u32,
    mode: AttachMode,
) -> Result<Attached, ProgramError> {
    let link = |mode: Mode| bpf::attach_xdp(program, index, mode.flags());
    let (result, mode, native_error) = match mode {
        AttachMode::Native => (link(Mode::Native), Mode::Native, None),
        AttachMode::Generic => (link(Mode::Generic), Mode::Generic, None),
        AttachMode::Auto => match link(Mode::Native) {
            Err(error) if !is_occupied(&error) => (link(Mode::Generic), Mode::Generic, Some(error)),
            result => (result, Mode::Native, None),
        },
    };
    match result {
        Ok(link) => Ok(Attached {
            link: NotInherited::new(link),
            mode,
            native_error,
        }),
        Err(source) => Err(attach_error(source, interface, index, mode)),
    }
}

/// Whether the error means that another program is attached. EEXIST means that it is attached in
/// the other mode.
fn is_occupied(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn attach_error(source: io::Error, interface: &str, index: u32, mode: Mode) -> ProgramError {
    let what = if is_occupied(&source) {
        let other = holder(index)
            .ok()
            .flatten()
            .map_or("another program".to_owned(), |holder| holder.to_string());
        format!(
            "attaching the redirect program to {interface}: {other} is attached there already. Detach it \
             (`ip link set dev {interface} xdp off`, or end the process that holds its link), choose another \
             interface, or use UDP sockets"
        )
    } else {
        format!(
            "attaching the redirect program to {interface}, {}",
            mode.name()
        )
    };
    ProgramError { what, source }
}
