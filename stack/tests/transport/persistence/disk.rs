//! A test double of a file: memory, and what a power cut leaves of it.

use crate::sim::{Mem, Node};
use roce_stack::{Access, Buffer, Durable, Memory, NotDurable};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(super) struct Disk {
    memory: Arc<Buffer>,
    durable: Mutex<Vec<u8>>,
    blocks: bool,
    broken: AtomicBool,
}

impl Disk {
    /// Memory of `len` bytes of zeros, registered with all rights.
    pub(super) fn register(node: &mut Node, len: usize, blocks: bool) -> (Mem, Arc<Self>) {
        Self::register_with(node, len, blocks, Access::all())
    }

    pub(super) fn register_with(
        node: &mut Node,
        len: usize,
        blocks: bool,
        access: Access,
    ) -> (Mem, Arc<Self>) {
        let buffer = Arc::new(Buffer::new(len).expect("a buffer"));
        let disk = Arc::new(Self {
            memory: Arc::clone(&buffer),
            durable: Mutex::new(vec![0; len]),
            blocks,
            broken: AtomicBool::new(false),
        });
        let durable: Arc<dyn Durable> = disk.clone();
        let memory = Memory::buffer(Arc::clone(&buffer)).with_durable(durable);
        let key = node.nic.register_memory(node.pd, memory, None, access);
        let key = key.expect("registered");
        (Mem { buffer, key }, disk)
    }

    /// From now on, nothing becomes durable.
    pub(super) fn break_down(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// The bytes that a power cut leaves.
    pub(super) fn after_power_cut(&self) -> Vec<u8> {
        self.durable.lock().expect("no panic").clone()
    }
}

impl Durable for Disk {
    fn blocks(&self, _: u64) -> bool {
        self.blocks
    }

    fn persist(&self, offset: u64, len: u64) -> Result<(), NotDurable> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(NotDurable);
        }
        let range = offset as usize..(offset + len) as usize;
        let mut durable = self.durable.lock().expect("no panic");
        let read = self.memory.read(range.start, &mut durable[range]);
        read.map_err(|_| NotDurable)
    }
}
