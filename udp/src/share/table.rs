//! Which process receives which management datagrams at an address, according to the names.
//!
//! A reply carries an ID that the requesting agent chose, and the high bits of the ID are the
//! agent's part. A request carries a service ID. This table says which process receives the
//! requests for each service, and which agent rejects requests for services without a process.

use std::fs;
use std::io;

use roce_stack::QpnRange;

use super::names::SharedAddress;
use super::owned_names::{OwnedNames, base};

/// The maximum number of times to read a table that keeps changing.
pub(super) const MAX_READS: u32 = 20;

/// The table of one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    /// The services, as the lower half of their IDs, and the part that receives the requests for
    /// each; ascending.
    pub(super) services: Vec<(u32, QpnRange)>,
    /// The parts of all agents; ascending.
    pub(super) agents: Vec<QpnRange>,
}

impl Table {
    /// Reads the table from the names that exist now.
    pub(super) fn read(shared: &SharedAddress) -> io::Result<Self> {
        Ok(Self::of(shared, &names()?))
    }

    /// The table that these names make.
    pub(super) fn of(shared: &SharedAddress, names: &[String]) -> Self {
        let (agents, services) = (shared.agents(), shared.services());
        let mut table = Self::default();
        for name in names {
            if let Some(part) = name.strip_prefix(&agents).and_then(part) {
                table.agents.push(part);
            } else if let Some((service, of)) = name
                .strip_prefix(&services)
                .and_then(|rest| rest.split_once('/'))
                && let (Ok(service), Some(part)) = (u32::from_str_radix(service, 16), part(of))
            {
                table.services.push((service, part));
            }
        }
        table.sort();
        table
    }

    /// Sorts the table. Normally one process receives a service's requests. If two names announce
    /// it, the lower part wins.
    pub(super) fn sort(&mut self) {
        self.agents.sort_unstable();
        self.services.sort_unstable();
        self.services.dedup_by_key(|(service, _)| *service);
    }

    /// The part that receives requests for services without a listener: the lowest part with an
    /// agent, or part 0 if there is no agent.
    pub(super) fn default_agent(&self) -> QpnRange {
        self.agents.first().copied().unwrap_or(QpnRange::FIRST)
    }

    /// Whether any name announces something for the part.
    pub(super) fn mentions(&self, part: QpnRange) -> bool {
        self.agents.contains(&part) || self.services.iter().any(|(_, of)| *of == part)
    }
}

/// This crate's names of abstract Unix sockets that this user's processes have in the calling
/// thread's network namespace, sorted. A variant counts as the name. The kernel returns its list in
/// pieces, so this reads it until two reads agree.
pub(super) fn names() -> io::Result<Vec<String>> {
    let kernel = OwnedNames::new();
    let mut last = read_names(&kernel)?;
    for _ in 0..MAX_READS {
        let again = read_names(&kernel)?;
        if again == last {
            break;
        }
        last = again;
    }
    Ok(last)
}

fn read_names(kernel: &OwnedNames) -> io::Result<Vec<String>> {
    if let Some(mut names) = kernel.list(super::names::PREFIX) {
        for name in &mut names {
            name.truncate(base(name).len());
        }
        names.sort_unstable();
        return Ok(names);
    }
    const TABLE: &str = "/proc/thread-self/net/unix";
    let text = fs::read(TABLE)
        .map_err(|error| io::Error::new(error.kind(), format!("reading {TABLE}: {error}")))?;
    // The names of other programs may contain any bytes.
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// Returns this crate's names in the kernel's table, sorted. The eighth field of a line is the
/// name, and begins with `@` if it is an abstract one. Names of this crate have no spaces.
pub(super) fn parse(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let name = line.split_ascii_whitespace().nth(7)?;
        let name = name.strip_prefix('@')?;
        name.starts_with(super::names::PREFIX)
            .then(|| name.to_owned())
    };
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort_unstable();
    names
}

fn part(text: &str) -> Option<QpnRange> {
    QpnRange::new(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn the_kernels_table_is_read() {
        let shared = SharedAddress::new(IpAddr::from([10, 0, 0, 1]), 3);
        let other = SharedAddress::new("fe80::1".parse().expect("an address"), 3);
        let of = |number| QpnRange::new(number).expect("a part");
        let names = [
            shared.agent(of(9)),
            shared.agent(of(2)),
            shared.server(0x0106_1234, of(9)),
            shared.server(0x0106_0001, of(2)),
            shared.server(0x0106_1234, of(3)),
            shared.member(of(4)),
            shared.lock(),
            other.agent(of(1)),
            other.server(0x0106_1111, of(1)),
        ];
        let mut text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0: 00000002 00000000 00010000 0001 01 1 /run/a socket\n\
            0: 00000002 00000000 00000000 0001 01 2\n\
            0: 00000002 00000000 00010000 0001 01 3 @else where\n"
            .to_owned();
        for name in &names {
            text += &format!("0: 00000002 00000000 00010000 0001 01 4711 @{name}\n");
        }
        let table = Table::of(&shared, &parse(&text));
        let services = vec![(0x0106_0001, of(2)), (0x0106_1234, of(3))];
        let agents = vec![of(2), of(9)];
        assert_eq!(table, Table { services, agents });
        assert_eq!(table.default_agent(), of(2));
        assert!(table.mentions(of(3)) && table.mentions(of(9)) && !table.mentions(of(4)));
        let table = Table::of(&other, &parse(&text));
        assert_eq!(table.services, [(0x0106_1111, of(1))]);
        assert_eq!(Table::default().default_agent(), of(0));
    }
}
