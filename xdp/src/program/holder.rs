//! The program that is attached to an interface.

use std::fmt;
use std::io;

use super::mode::Mode;
use crate::sys::bpf;
use crate::sys::netlink::{self, LINK_HEADERS, find};

/// Attributes of a link (`linux/if_link.h`).
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
/// Values of `IFLA_XDP_ATTACHED`.
const ATTACHED_GENERIC: u8 = 2;

/// The program that is attached to an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The program's ID, as in `bpftool prog show id`.
    pub id: u32,
    /// Its name, if the kernel reports it.
    pub name: Option<String>,
    /// How it is attached.
    pub mode: Mode,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program {}", self.id)?;
        if let Some(name) = self.name.as_ref().filter(|name| !name.is_empty()) {
            write!(f, " ({name})")?;
        }
        write!(f, ", {},", self.mode.name())
    }
}

/// The program that is attached to an interface, if there is one.
///
/// # Errors
/// If the kernel does not report it, for instance because there is no such interface.
pub(crate) fn holder(index: u32) -> io::Result<Option<Holder>> {
    let answer = netlink::link(index)?;
    let Some((id, mode)) = answer.get(LINK_HEADERS..).and_then(program_of) else {
        return Ok(None);
    };
    let name = bpf::program_name(id).ok();
    Ok(Some(Holder { id, name, mode }))
}

/// The ID and mode of the program in the attributes of a link.
pub(crate) fn program_of(attributes: &[u8]) -> Option<(u32, Mode)> {
    let xdp = find(attributes, IFLA_XDP)?;
    let id = find(xdp, IFLA_XDP_PROG_ID)?
        .first_chunk()
        .copied()
        .map(u32::from_ne_bytes)?;
    let attached = find(xdp, IFLA_XDP_ATTACHED)?.first().copied()?;
    let mode = if attached == ATTACHED_GENERIC {
        Mode::Generic
    } else {
        Mode::Native
    };
    (id != 0).then_some((id, mode))
}

#[cfg(test)]
mod tests {
    use super::{IFLA_XDP, Mode, program_of};
    use crate::sys::netlink::attribute;

    #[test]
    fn a_program_is_found_among_other_attributes() {
        for (attached, mode) in [(1, Mode::Native), (2, Mode::Generic)] {
            let inner = [
                attribute(2, &[attached]),
                attribute(4, &77_u32.to_ne_bytes()),
            ]
            .concat();
            let all = [
                attribute(3, b"eth0\0"),
                attribute(IFLA_XDP | 0x8000, &inner),
                attribute(44, &[1]),
            ]
            .concat();
            assert_eq!(program_of(&all), Some((77, mode)));
            for cut in 0..all.len() - 8 {
                assert_eq!(program_of(&all[..cut]), None, "{cut}");
            }
        }
        assert_eq!(
            program_of(&attribute(IFLA_XDP, &attribute(2, &[0]))),
            None,
            "none attached"
        );
    }
}
