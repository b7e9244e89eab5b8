//! The watch server and `roce top`: a client that sends any bytes in any pieces, a process that
//! answers with any bytes, and what is made of its answer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roce_verbs::observation::Processes;

fuzz_target!(|script: &[u8]| {
    let Some(snapshot) = roce_observe::watch::hostile::run_script(script) else {
        return;
    };
    let processes = |snapshots| Processes {
        snapshots,
        ..Processes::default()
    };
    // The same process twice, and a second process with an equal answer.
    let now = processes(vec![snapshot.clone(), snapshot.clone()]);
    let mut earlier = snapshot;
    earlier.seconds -= 1.0;
    for device in &mut earlier.devices {
        device.counters.values_mut().for_each(|count| *count /= 2);
    }
    roce_cli::top::draw_all(&processes(vec![earlier]), &now);
});
