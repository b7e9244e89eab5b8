//! WRITEs from one NIC to another in virtual time, without loss, in one thread: the number of
//! instructions does not depend on the machine.
//!
//! ```text
//! cargo build --profile fat-lto -p roce-benches --example two_nics
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/fat-lto/examples/two_nics 8 10000
//! ```
//!
//! The difference between two counts, divided by the difference of their instructions, is the cost
//! of one WRITE: both NICs, the CRC and the copies, and the wire of the benchmark. With `record` as
//! a third argument, both NICs record the events of their QPs.

use roce_benches::recovery::{Run, run, wire};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = || "usage: two_nics BYTES COUNT [record]".to_owned();
    let (bytes, count, records) = match &arguments[..] {
        [bytes, count] => (bytes, count, false),
        [bytes, count, word] if word == "record" => (bytes, count, true),
        _ => return Err(usage()),
    };
    let message_bytes: u32 = bytes.parse().map_err(|_| usage())?;
    let messages: u64 = count.parse().map_err(|_| usage())?;
    run(&Run {
        wire: wire(0.0),
        reads: false,
        selective: true,
        records,
        messages,
        message_bytes,
        seed: 1,
    })?;
    println!("{messages} WRITEs of {message_bytes} bytes");
    Ok(())
}
