//! The process that holds the memory, until it is killed.

use crate::SLOTS;
use crate::disk::Disk;
use roce_sim::power_cut::SLOT;
use roce_verbs::memory::{Buffer, Durable, Memory};
use roce_verbs::{Access, ConnectOptions, Device, Endpoint, QpOptions};
use std::fs::OpenOptions;
use std::io::{BufRead, Write, stdin, stdout};
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Makes a process a holder of memory: its address, a seed, and the path of the file.
pub(super) const ROLE: &str = "POWER_CUT_HOLDER";
/// The prefix of the line with the endpoint and the memory. The other lines are the test harness's.
pub(super) const OUTPUT_PREFIX: &str = "MEMORY ";

pub(super) fn serve(role: &str) {
    let mut words = role.splitn(3, ' ');
    let mut word = || words.next().expect("address, seed and path");
    let address: IpAddr = word().parse().expect("an address");
    let seed: u64 = word().parse().expect("a seed");
    let path = word();

    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(path).expect("a file");
    let memory = Arc::new(Buffer::new(SLOTS * SLOT).expect("memory"));
    let mut bytes = vec![0; SLOTS * SLOT];
    file.read_exact_at(&mut bytes, 0).expect("read");
    memory.write(0, &bytes).expect("in range");
    let disk: Arc<dyn Durable> = Arc::new(Disk::new(Arc::clone(&memory), file, seed));

    let context = Device::with_address(address).expect("loopback").open();
    let context = context.expect("opened");
    let gids = context.gids();
    let entry = gids.iter().find(|entry| entry.gid.ip() == address);
    let index = entry.expect("the address has a GID").index;
    let pd = context.alloc_pd();
    let cq = context.create_cq(16);
    let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
    let rights = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::FLUSH_PERSISTENT;
    let region = pd.register_memory(Memory::buffer(memory).with_durable(disk), None, rights);
    let region = region.expect("registered");
    let endpoint = qp.endpoint(index).expect("an endpoint");
    println!(
        "\n{OUTPUT_PREFIX}{endpoint}\n{OUTPUT_PREFIX}{}",
        region.remote(0)
    );
    stdout().flush().expect("written");

    let mut lines = stdin().lock().lines();
    let peer = lines.next().expect("an endpoint").expect("read");
    let peer: Endpoint = peer.parse().expect("an endpoint");
    qp.connect(index, &peer, &ConnectOptions::default())
        .expect("connected");
    println!("\n{OUTPUT_PREFIX}connected");
    // The background thread does the rest, until this process is killed, or its parent is gone.
    assert!(lines.next().is_none(), "nothing more is said");
}
