//! Scatter and gather: copies bytes between packets and lists of local memory.

use crate::memory::{Access, AccessError, DeniedAccess, MemoryTable, PdId, Span};
use crate::queue::PayloadSource;
use crate::wr::{Sge, total_len};
use roce_wire::icrc::Unsealed;

/// The length of a request's payload, in bytes.
pub(crate) fn source_len(source: PayloadSource<'_>) -> u64 {
    match source {
        PayloadSource::Memory(sges) => total_len(sges),
        PayloadSource::Inline(data) => data.len() as u64,
    }
}

/// Fills the payload of `packet` with the request's bytes, from byte `offset` on.
pub(crate) fn fetch(
    memory: &MemoryTable,
    pd: PdId,
    source: PayloadSource<'_>,
    offset: u64,
    packet: &mut Unsealed<'_>,
) -> Result<(), AccessError> {
    let len = packet.payload_len();
    let data = match source {
        PayloadSource::Inline(data) => data,
        PayloadSource::Memory(sges) => {
            return match in_one(sges, offset, len) {
                Some((lkey, addr)) => span(memory, pd, lkey, addr, len)?.read_into(packet),
                None => gather(memory, pd, sges, offset, packet.payload_mut()),
            };
        }
    };
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let part = data.get(start..).and_then(|rest| rest.get(..len));
    let part = part.ok_or(AccessError::OutOfBounds)?;
    packet.payload_mut().copy_from_slice(part);
    Ok(())
}

/// The `len` bytes from byte `offset` of a request on, if the request has only one element and the
/// bytes may be sent.
pub(crate) fn contiguous<'t>(
    memory: &'t MemoryTable,
    pd: PdId,
    source: PayloadSource<'_>,
    offset: u64,
    len: u64,
) -> Option<Span<'t>> {
    let PayloadSource::Memory(sges) = source else {
        return None;
    };
    let len = usize::try_from(len).ok()?;
    let (lkey, addr) = in_one(sges, offset, len)?;
    span(memory, pd, lkey, addr, len).ok()
}

/// A part of one element: its address, and the range of the packet's bytes that it holds.
struct Piece {
    lkey: u32,
    addr: u64,
    range: core::ops::Range<usize>,
}

/// The parts of elements that hold `len` bytes from byte `offset` of the list on.
fn pieces(sges: &[Sge], offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut skip = offset;
    let mut done = 0;
    sges.iter().filter_map(move |sge| {
        let available = u64::from(sge.length).saturating_sub(skip);
        let start = skip.min(u64::from(sge.length));
        skip -= start;
        let take = usize::try_from(available)
            .unwrap_or(usize::MAX)
            .min(len - done);
        // rule: 10.6.3-zero-length-element
        if take == 0 {
            return None;
        }
        let range = done..done + take;
        done += take;
        // An address that wraps is outside of every region, so the later check rejects it.
        Some(Piece {
            lkey: sge.lkey,
            addr: sge.addr.wrapping_add(start),
            range,
        })
    })
}

/// Fills `out` from byte `offset` of the list on.
// rule: 9.4.1-send-gather
pub(crate) fn gather(
    memory: &MemoryTable,
    pd: PdId,
    sges: &[Sge],
    offset: u64,
    out: &mut [u8],
) -> Result<(), AccessError> {
    for piece in pieces(sges, offset, out.len()) {
        let out = &mut out[piece.range];
        span(memory, pd, piece.lkey, piece.addr, out.len())?.read(out)?;
    }
    Ok(())
}

/// Key and address of `len` bytes from byte `offset` of the list on, if there is only one element.
#[inline]
fn in_one(sges: &[Sge], offset: u64, len: usize) -> Option<(u32, u64)> {
    let [sge] = sges else { return None };
    let end = offset.checked_add(len as u64)?;
    let fits = end <= u64::from(sge.length) && len > 0;
    fits.then(|| (sge.lkey, sge.addr.wrapping_add(offset)))
}

/// Bytes of one element that are about to be sent.
#[inline]
fn span<'t>(
    memory: &'t MemoryTable,
    pd: PdId,
    lkey: u32,
    addr: u64,
    len: usize,
) -> Result<Span<'t>, AccessError> {
    // rule: 10.2.3-pd-local
    memory.local(pd, lkey, addr, len as u64, Access::empty())
}

/// Writes `data` to the list from its byte `offset` on. Writes nothing if access to any part is
/// denied; a fault of on-demand memory is found only during the copy.
// rule: 9.4.1-send-scatter
pub(crate) fn scatter(
    memory: &MemoryTable,
    pd: PdId,
    sges: &[Sge],
    offset: u64,
    data: &[u8],
) -> Result<(), AccessError> {
    let writable = |piece: &Piece| {
        let len = piece.range.len() as u64;
        // rule: 10.6.3-local-write
        memory.local(pd, piece.lkey, piece.addr, len, Access::LOCAL_WRITE)
    };
    // rule: 10.6.3-nothing-partly
    if sges.len() > 1 {
        for piece in pieces(sges, offset, data.len()) {
            writable(&piece)?;
        }
    }
    for piece in pieces(sges, offset, data.len()) {
        writable(&piece)?.write(&data[piece.range])?;
    }
    Ok(())
}

/// Why `len` bytes from byte `offset` of the list on can't be accessed: the first element at fault,
/// and what was denied.
#[cold]
pub(crate) fn denied(
    memory: &MemoryTable,
    pd: PdId,
    sges: &[Sge],
    (offset, len): (u64, u64),
    rights: Access,
) -> Option<(usize, DeniedAccess)> {
    let mut first = 0;
    for (index, sge) in sges.iter().enumerate() {
        let (from, to) = (first, first + u64::from(sge.length));
        first = to;
        let (from_used, to_used) = (from.max(offset), to.min(offset.saturating_add(len)));
        if from_used >= to_used {
            continue;
        }
        let addr = sge.addr.wrapping_add(from_used - from);
        let used = to_used - from_used;
        if let Err(error) = memory.local(pd, sge.lkey, addr, used, rights) {
            let access = (sge.lkey, addr, used);
            return Some((index, memory.denied(access, rights, error)));
        }
    }
    // The table allows all of it, so the memory itself could not be read or written.
    let sge = sges.first()?;
    let access = (sge.lkey, sge.addr, u64::from(sge.length));
    Some((0, memory.denied(access, rights, AccessError::Fault)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    // shows: 9.4.1-send-scatter, 9.4.1-send-gather, 10.6.3-zero-length-element
    #[test]
    fn bytes_land_across_elements_and_come_back() {
        let mut buffer = [0_u8; 100];
        let base = buffer.as_mut_ptr();
        let mut table = MemoryTable::default();
        let pd = table.alloc_pd();
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        // SAFETY: the buffer outlives the table and is only looked at through it.
        let key = unsafe { table.register(&mut rng, pd, base, 100, 0, Access::LOCAL_WRITE) };
        let lkey = key.expect("registered");
        let sges = [
            Sge {
                addr: 10,
                length: 5,
                lkey,
            },
            Sge {
                addr: 50,
                length: 0,
                lkey,
            },
            Sge {
                addr: 90,
                length: 10,
                lkey,
            },
            Sge {
                addr: 0,
                length: 3,
                lkey,
            },
        ];
        let data: Vec<u8> = (1..=18).collect();
        for split in 0..=18 {
            scatter(&table, pd, &sges, 0, &data[..split]).expect("first part");
            scatter(&table, pd, &sges, split as u64, &data[split..]).expect("second part");
            let mut out = [0; 18];
            gather(&table, pd, &sges, 0, &mut out).expect("gathered");
            assert_eq!(out[..], data[..]);
            let mut tail = vec![0; 18 - split];
            gather(&table, pd, &sges, split as u64, &mut tail).expect("tail");
            assert_eq!(tail[..], data[split..]);
        }
    }

    // shows: 10.6.3-nothing-partly
    #[test]
    fn nothing_is_written_if_a_later_element_is_bad() {
        let mut buffer = [0_u8; 8];
        let base = buffer.as_mut_ptr();
        let mut table = MemoryTable::default();
        let pd = table.alloc_pd();
        let mut rng = ChaCha20Rng::seed_from_u64(7);
        // SAFETY: as above.
        let key = unsafe { table.register(&mut rng, pd, base, 8, 0, Access::LOCAL_WRITE) };
        let lkey = key.expect("registered");
        let sges = [
            Sge {
                addr: 0,
                length: 4,
                lkey,
            },
            Sge {
                addr: u64::MAX,
                length: 4,
                lkey,
            },
        ];
        let result = scatter(&table, pd, &sges, 0, &[1; 8]);
        assert_eq!(result, Err(AccessError::OutOfBounds));
        let mut out = [9; 4];
        gather(&table, pd, &sges[..1], 0, &mut out).expect("readable");
        assert_eq!(out, [0; 4]);
    }
}
