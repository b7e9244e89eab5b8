//! A namespace, and how it is accessed.

use super::{Outcome, size};
use crate::host::{Host, NamespaceInfo};

/// A namespace, and how it is accessed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    pub(super) namespace: NamespaceInfo,
    /// Bytes of each command.
    pub(super) block: usize,
    /// Commands outstanding in each queue.
    pub(super) depth: usize,
}

impl Disk {
    /// Checks that the bytes lie in the namespace, and begin and end with a block of it.
    pub(super) fn check(&self, offset: u64, len: u64) -> Outcome {
        let (block, end) = (u64::from(self.namespace.block_len), self.namespace.len());
        if !offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(format!(
                "{len} bytes at offset {offset} are no whole blocks of {block} bytes: pad a file with \
                 `truncate --size %{block} FILE`"
            )
            .into());
        }
        if offset.checked_add(len).is_none_or(|last| last > end) {
            return Err(format!(
                "{len} bytes at offset {offset} reach beyond the end of namespace {}, which has {end} \
                 bytes ({})",
                self.namespace.number,
                size::show(end)
            )
            .into());
        }
        Ok(())
    }
}

/// An error, with the bytes that a failure may have cost.
pub(super) fn with_losses(
    host: &Host,
    error: Box<dyn std::error::Error>,
) -> Box<dyn std::error::Error> {
    const SHOWN: usize = 20;
    let lost = host.not_durable();
    if lost.is_empty() {
        return error;
    }
    let mut text = format!("{error}\nnot known to be durable:");
    for extent in lost.iter().take(SHOWN) {
        text += &format!(
            "\n  namespace {}, bytes {} to {}: {}",
            extent.namespace,
            extent.bytes.start,
            extent.bytes.end - 1,
            extent.reason
        );
    }
    if lost.len() > SHOWN {
        text += &format!("\n  and {} further ranges", lost.len() - SHOWN);
    }
    text.into()
}
