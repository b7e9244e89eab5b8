//! A kernel that lies in its netlink messages, for the fuzz target `netlink` and for tests.

use std::collections::BTreeMap;

use crate::net::netlink::hostile as events;
use crate::offer::{driver_of, queues_in, routes};
use crate::program::program_of;
use crate::sys::netlink::{LINK_HEADERS, read_as_any_answer};

/// Plays a script. The first byte says whether the rest is datagrams between uses of a core, or one
/// datagram that answers each other request.
///
/// # Panics
/// If a bound or a law of the parsers is broken.
pub fn run_netlink_script(script: &[u8]) {
    match script.split_first() {
        Some((0, datagram)) => answer_all(datagram),
        _ => events::run_script(script),
    }
}

/// Reads a datagram as the answer to each request about interfaces, programs and routes.
fn answer_all(datagram: &[u8]) {
    let mut links = BTreeMap::new();
    let mut through = Vec::new();
    let mut messages = 0;
    read_as_any_answer(datagram, |message| {
        messages += 1;
        links.extend(routes::link(message));
        through.extend(routes::default_route(message));
        for attributes in [message, message.get(LINK_HEADERS..).unwrap_or_default()] {
            if let Some((id, _)) = program_of(attributes) {
                assert_ne!(id, 0);
            }
            if let Some(driver) = driver_of(attributes) {
                let _ = driver.zero_copy_mtu();
            }
            let _ = queues_in(attributes);
        }
    });
    // At least 16 bytes each, and the first one up to three times.
    assert!(messages <= datagram.len() / 16 + 2);
    assert!(through.len() <= 3 * datagram.len());
    let first = links.keys().next().copied().unwrap_or(1);
    let above = routes::with_links_above(first, &links);
    assert!(above.contains(&first) && above.len() <= 2 * links.len() + 1);
}

#[cfg(test)]
mod tests {
    use super::run_netlink_script;

    #[test]
    fn scripts_of_random_bytes_are_played() {
        let mut state = 7_u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for kind in (0..4).cycle().take(2000) {
            let mut script: Vec<u8> = (0..300).map(|_| draw()).collect();
            script[0] = kind;
            // A length that fits, of a message about a link.
            script[1..7].copy_from_slice(&[200, 0, 0, 0, 16, 0]);
            run_netlink_script(&script);
        }
    }
}
