//! The kernel's netlink messages: events and answers about links, addresses, neighbours and routes,
//! which drive a core, and answers about interfaces, drivers and programs.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &[u8]| roce_xdp::hostile::run_netlink_script(script));
