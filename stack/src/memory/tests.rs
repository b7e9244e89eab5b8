use super::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

const QPN: Qpn = Qpn::from_bits(5);

fn table_with(buffer: &mut [u8], access: Access) -> (MemoryTable, PdId, u32) {
    let mut table = MemoryTable::default();
    let pd = table.alloc_pd();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    // SAFETY: the buffer outlives the table in each test and is not used meanwhile.
    let key = unsafe {
        table.register(
            &mut rng,
            pd,
            buffer.as_mut_ptr(),
            buffer.len() as u64,
            0x1000,
            access,
        )
    };
    (table, pd, key.expect("registered"))
}

// shows: 9.7.4.1-rkey-bounds, 10.6.2-register, 10.6.2-iova
#[test]
fn bounds_are_exact() {
    let mut buffer = [0_u8; 64];
    let (table, pd, key) = table_with(&mut buffer, Access::LOCAL_WRITE);
    let at = |va, len| {
        table
            .local(pd, key, va, len, Access::empty())
            .map(|s| s.len())
    };
    assert_eq!(at(0x1000, 64), Ok(64));
    assert_eq!(at(0x1040, 0), Ok(0));
    assert_eq!(at(0x1041, 0), Err(AccessError::OutOfBounds));
    assert_eq!(at(0x0fff, 1), Err(AccessError::OutOfBounds));
    assert_eq!(at(0x1001, 64), Err(AccessError::OutOfBounds));
    assert_eq!(at(u64::MAX, u64::MAX), Err(AccessError::OutOfBounds));
    assert_eq!(at(0x1001, u64::MAX), Err(AccessError::OutOfBounds));
}

// shows: 9.7.4.1-rkey, 9.7.4.1-rkey-pd, 10.2.3-pd-local
#[test]
fn key_pd_and_rights_are_checked() {
    let mut buffer = [0_u8; 8];
    let (mut table, pd, key) = table_with(&mut buffer, Access::LOCAL_WRITE | Access::REMOTE_READ);
    let other = table.alloc_pd();
    let check = |pd, key, rights| {
        table
            .remote(pd, QPN, key, 0x1000, 8, rights)
            .map(|s| s.len())
    };
    assert_eq!(check(pd, key, Access::REMOTE_READ), Ok(8));
    assert_eq!(
        check(pd, key ^ 1, Access::REMOTE_READ),
        Err(AccessError::BadKey)
    );
    assert_eq!(
        check(other, key, Access::REMOTE_READ),
        Err(AccessError::WrongPd)
    );
    assert_eq!(
        check(pd, key, Access::REMOTE_WRITE),
        Err(AccessError::Denied)
    );
    table.deregister(key);
    assert!(
        table
            .remote(pd, QPN, key, 0x1000, 8, Access::REMOTE_READ)
            .is_err()
    );
}

// shows: 10.6.3-remote-needs-local-write
#[test]
fn remote_writing_needs_local_writing() {
    let mut table = MemoryTable::default();
    let pd = table.alloc_pd();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut buffer = [0_u8; 8];
    // SAFETY: refused; and the buffer outlives the table anyway.
    let result = unsafe {
        table.register(
            &mut rng,
            pd,
            buffer.as_mut_ptr(),
            8,
            0,
            Access::REMOTE_WRITE,
        )
    };
    assert_eq!(result, Err(RegisterError::NeedsLocalWrite));
}

// shows: 9.7.4.1-rkey-invalidated, 10.6.5-invalidated
#[test]
fn invalidation_takes_remote_rights_only() {
    let mut buffer = [0_u8; 8];
    let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
    let (mut table, pd, key) = table_with(&mut buffer, access | Access::REMOTE_INVALIDATE);
    assert_eq!(table.invalidate(pd, QPN, key), Ok(()));
    assert!(table.local(pd, key, 0x1000, 8, Access::LOCAL_WRITE).is_ok());
    let remote = table.remote(pd, QPN, key, 0x1000, 8, Access::REMOTE_READ);
    assert_eq!(remote.map(|s| s.len()), Err(AccessError::BadKey));
    assert_eq!(table.invalidate(pd, QPN, key), Err(AccessError::Denied));
}

// shows: 9.4.1.1-invalidate-permission
#[test]
fn a_region_may_not_be_invalidated_unasked() {
    let mut buffer = [0_u8; 8];
    let (mut table, pd, key) = table_with(&mut buffer, Access::LOCAL_WRITE);
    assert_eq!(table.invalidate(pd, QPN, key), Err(AccessError::Denied));
}

// shows: 10.6.2-register
// trap: predictable-numbers
#[test]
fn keys_differ_between_seeds_and_regions() {
    let keys: std::collections::HashSet<u32> = (0..64)
        .map(|seed| {
            let mut table = MemoryTable::default();
            let pd = table.alloc_pd();
            let mut rng = ChaCha20Rng::seed_from_u64(seed);
            // SAFETY: a region of no bytes is never accessed.
            unsafe { table.register(&mut rng, pd, core::ptr::null_mut(), 0, 0, Access::empty()) }
                .expect("registered")
        })
        .collect();
    assert_eq!(keys.len(), 64);
}

#[test]
fn atomics_need_alignment() {
    let mut buffer = [0_u64; 2];
    let base = buffer.as_mut_ptr().cast::<u8>();
    // SAFETY: 16 bytes of `buffer`, which lives on.
    let span = unsafe { Span::new(base, 8) };
    assert_eq!(span.fetch_add(5), Some(0));
    assert_eq!(span.compare_swap(5, 9), Some(5));
    assert_eq!(span.compare_swap(5, 1), Some(9));
    // SAFETY: within the same 16 bytes.
    let askew = unsafe { Span::new(base.wrapping_add(4), 8) };
    assert_eq!(askew.fetch_add(1), None);
}

// shows: 10.6.2-wraps
// trap: length-wraps
#[test]
fn a_region_does_not_wrap() {
    let mut buffer = [0_u8; 8];
    let mut table = MemoryTable::default();
    let pd = table.alloc_pd();
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    for (iova, expected) in [(u64::MAX - 8, true), (u64::MAX - 7, false)] {
        // SAFETY: as above.
        let result =
            unsafe { table.register(&mut rng, pd, buffer.as_mut_ptr(), 8, iova, Access::empty()) };
        assert_eq!(result.is_ok(), expected, "{result:?}");
    }
}

/// The completion of a binding reports only that it failed; the table reports why.
#[test]
fn a_binding_to_a_region_of_another_domain_is_refused_for_that() {
    let mut buffer = [0_u8; 64];
    let (mut table, pd, key) = table_with(&mut buffer, Access::MW_BIND);
    let other = table.alloc_pd();
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    for (own, expected) in [(pd, Ok(())), (other, Err(BindError::WrongPd))] {
        let window = table.alloc_mw(&mut rng, own, MwType::Type1);
        let bind = MwBind {
            window: window.expect("a window"),
            key: 1,
            lkey: key,
            addr: 0x1000,
            len: 64,
            access: Access::REMOTE_READ,
            zero_based: false,
        };
        assert_eq!(table.bind(own, QPN, &bind), expected);
    }
}
