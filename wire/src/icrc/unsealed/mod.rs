//! A packet that still needs its payload and its ICRC.

use core::ops::Range;

use super::{IpHeader, seal};
use crate::ICRC_LEN;

/// A packet that is complete except for payload and ICRC.
///
/// [`Unsealed::copy_from`] computes the ICRC while it copies the payload, which saves a pass over
/// it.
#[derive(Debug)]
pub struct Unsealed<'a> {
    ip: IpHeader,
    src_port: u16,
    dst_port: u16,
    transport: &'a mut [u8],
    payload: Range<usize>,
    /// The ICRC, if it is already known.
    icrc: Option<u32>,
}

impl<'a> Unsealed<'a> {
    /// The packet whose bytes from the BTH to the ICRC are `transport`. Its payload is the range
    /// `payload` of them.
    ///
    /// # Panics
    /// If `payload` is not within `transport`.
    #[inline(always)]
    pub fn new(
        ip: IpHeader,
        src_port: u16,
        dst_port: u16,
        transport: &'a mut [u8],
        payload: Range<usize>,
    ) -> Self {
        assert!(
            payload.start <= payload.end && payload.end <= transport.len(),
            "a payload of {payload:?} in {} bytes",
            transport.len()
        );
        Self {
            ip,
            src_port,
            dst_port,
            transport,
            payload,
            icrc: None,
        }
    }

    /// Length of the payload in bytes.
    #[inline(always)]
    pub fn payload_len(&self) -> usize {
        self.payload.len()
    }

    /// The payload, for writing.
    #[inline(always)]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        self.icrc = None;
        &mut self.transport[self.payload.clone()]
    }

    /// Copies the whole payload from `from`, which other threads may write at the same time. In
    /// that case the packet may contain any part of their writes, but the ICRC always matches the
    /// packet.
    ///
    /// # Safety
    /// [`Unsealed::payload_len`] bytes must be readable at `from`, none of them inside the packet.
    #[inline(always)]
    #[expect(
        unsafe_code,
        reason = "it copies memory that no reference may be made to"
    )]
    pub unsafe fn copy_from(&mut self, from: *const u8) {
        #[cfg(all(target_arch = "x86_64", feature = "std"))]
        if self.payload.len() >= super::clmul::MIN_COPIED_LEN {
            // SAFETY: our contract.
            self.icrc = unsafe { self.copy_at_once(from) };
            if self.icrc.is_some() {
                return;
            }
        }
        let payload = self.payload_mut();
        // SAFETY: as above.
        unsafe {
            payload
                .as_mut_ptr()
                .copy_from_nonoverlapping(from, payload.len())
        };
    }

    /// # Safety
    /// As [`Unsealed::copy_from`].
    #[cfg(all(target_arch = "x86_64", feature = "std"))]
    #[inline(never)]
    #[expect(unsafe_code, reason = "as for `copy_from`")]
    unsafe fn copy_at_once(&mut self, from: *const u8) -> Option<u32> {
        let covered = self.transport.len().checked_sub(ICRC_LEN)?;
        let covered = self.transport.get_mut(..covered)?;
        let (first, second) = super::headers_v4(&self.ip, self.src_port, self.dst_port, covered)?;
        let payload = self.payload.clone();
        // SAFETY: our contract; `copy` refuses what does not fit.
        let register = unsafe { super::clmul::copy(first, second, covered, payload, from) };
        register.map(|register| !register)
    }

    /// Makes the ICRC that of a FLUSH of Soft-RoCE: see [`cover_again`](super::cover_again). Call it
    /// after the payload is written.
    pub fn cover_headers_again(&mut self) {
        if let Some((covered, _)) = self.transport.split_last_chunk::<ICRC_LEN>() {
            let icrc = super::compute(&self.ip, self.src_port, self.dst_port, covered);
            self.icrc = Some(super::cover_again(icrc, covered));
        }
    }

    /// Writes the ICRC.
    #[inline(always)]
    pub fn seal(&mut self) {
        match (self.icrc, self.transport.last_chunk_mut::<ICRC_LEN>()) {
            // rule: CA17-22-order
            (Some(icrc), Some(stored)) => *stored = icrc.to_le_bytes(),
            _ => seal(&self.ip, self.src_port, self.dst_port, self.transport),
        }
    }
}

#[cfg(test)]
mod tests;
