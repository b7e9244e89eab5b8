//! WRITEs from one NIC to another in virtual time, without loss, in one thread: the number of
//! instructions does not depend on the machine.
//!
//! ```text
//! cargo build --profile fat-lto -p roce-benches --example two_nics
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null target/fat-lto/examples/two_nics 8 10000
//! ```
//!
//! The difference between two counts, divided by the difference of their instructions, is the cost
//! of one WRITE: both NICs, the CRC and the copies, and the wire of the benchmark.

use roce_benches::recovery::{Run, run, wire};

fn main() -> Result<(), String> {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let [message_bytes, messages] = arguments[..] else {
        return Err("usage: two_nics BYTES COUNT".to_owned());
    };
    let message_bytes = u32::try_from(message_bytes).map_err(|error| error.to_string())?;
    run(&Run {
        wire: wire(0.0),
        reads: false,
        selective: true,
        messages,
        message_bytes,
        seed: 1,
    })?;
    println!("{messages} WRITEs of {message_bytes} bytes");
    Ok(())
}
