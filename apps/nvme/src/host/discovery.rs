//! Asks a discovery service for its subsystems.

use super::HostOptions;
use super::admin::AdminQueue;
use crate::Error;
use crate::wire::discovery::{DISCOVERY_NQN, DiscoveryEntry, ENTRY_LEN, HEADER_LEN, parse_header};
use std::net::SocketAddr;

/// How often the page may change while it is read.
const ATTEMPTS: u32 = 5;

/// The subsystems that the discovery service at `at` knows.
///
/// # Errors
/// If there is no discovery service, or its page changes all the time.
pub fn discover(at: SocketAddr, options: &HostOptions) -> Result<Vec<DiscoveryEntry>, Error> {
    let name = DISCOVERY_NQN.parse()?;
    let mut admin = AdminQueue::connect(at, &name, options)?;
    for _ in 0..ATTEMPTS {
        let (before, count) = header(&mut admin)?;
        let mut entries = Vec::new();
        for index in 0..count {
            let mut entry = [0; ENTRY_LEN];
            let offset = HEADER_LEN + index * ENTRY_LEN;
            admin.discovery_log(offset as u64, &mut entry)?;
            entries.push(DiscoveryEntry::parse(&entry));
        }
        if header(&mut admin)? == (before, count) {
            admin.shut_down()?;
            return Ok(entries);
        }
    }
    let what = format!("its list of subsystems changed {ATTEMPTS} times while it was read");
    Err(Error::Incompatible(what))
}

fn header(admin: &mut AdminQueue) -> Result<(u64, usize), Error> {
    let mut header = [0; HEADER_LEN];
    admin.discovery_log(0, &mut header)?;
    Ok(parse_header(&header))
}
