//! The sockets bound to an address, as the kernel's table lists them.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::IpAddr;

use crate::ROCE_UDP_PORT;

/// The maximum number of times to read a table that keeps changing.
const MAX_READS: u32 = 20;

/// A socket that is bound to port 4791 of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) inode: u64,
    /// The user that owns it.
    pub(super) uid: u32,
}

/// All sockets of any process that are bound to port 4791 of `address` in the calling thread's
/// network namespace.
pub(super) fn bound_to(address: IpAddr) -> io::Result<Vec<Bound>> {
    // The kernel returns its table in pieces. If a socket is closed between two pieces, another
    // socket may be missing.
    let mut last = read_table(address)?;
    for _ in 0..MAX_READS {
        let again = read_table(address)?;
        if again == last {
            break;
        }
        last = again;
    }
    Ok(last)
}

fn read_table(address: IpAddr) -> io::Result<Vec<Bound>> {
    let table = match address {
        IpAddr::V4(_) => "/proc/thread-self/net/udp",
        IpAddr::V6(_) => "/proc/thread-self/net/udp6",
    };
    let text = fs::read_to_string(table)
        .map_err(|error| io::Error::new(error.kind(), format!("reading {table}: {error}")))?;
    Ok(parse(&text, address))
}

pub(super) fn parse(text: &str, address: IpAddr) -> Vec<Bound> {
    let local = local(address);
    let bound = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        if fields.nth(1)? != local {
            return None;
        }
        let uid = fields.nth(5)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        Some(Bound { inode, uid })
    };
    text.lines().filter_map(bound).collect()
}

/// Address and port as the table prints them: groups of four bytes, in this machine's byte order.
fn local(address: IpAddr) -> String {
    let octets = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut text = String::new();
    for bytes in octets.as_chunks::<4>().0 {
        // Writing to a string does not fail.
        let _ = write!(text, "{:08X}", u32::from_ne_bytes(*bytes));
    }
    let _ = write!(text, ":{ROCE_UDP_PORT:04X}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when \
         retrnsmt   uid  timeout inode ref pointer drops\n\
         10832: 0101637F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000    \
         0 2589204 2 000000004f7b5b90 0\n\
         10832: 0101637F:12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0    \
         0 2589205 2 0000000099209ccd 0\n\
         10832: 0101637F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0    \
         0 2589202 2 0000000099209ccd 0\n\
         10832: 0101637F:12B7 00000000:0000 07 cut";

    #[test]
    #[cfg(target_endian = "little")]
    fn the_kernels_table_is_read() {
        let found = parse(TABLE, IpAddr::from([127, 99, 1, 1]));
        let expected = [(2_589_204, 1000), (2_589_202, 0)].map(|(inode, uid)| Bound { inode, uid });
        assert_eq!(found, expected);
        assert_eq!(parse(TABLE, IpAddr::from([127, 99, 1, 2])), []);
        let v6 = local("fe80::1234:5678".parse().expect("an address"));
        assert_eq!(v6, "000080FE000000000000000078563412:12B7");
    }
}
