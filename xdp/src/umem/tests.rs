use super::{CHUNK_BYTES, ChunkFault, Ledger, Owner, Umem, is_in_one_chunk};

const CHUNK: u64 = CHUNK_BYTES as u64;

#[test]
fn shares_are_adjacent() {
    let umem = Umem::new(8).expect("memory");
    let mut shares = umem.cut(&[3, 5]).expect("eight chunks");
    assert_eq!(shares[0].addresses(), 0..3 * CHUNK);
    assert_eq!(shares[1].addresses(), 3 * CHUNK..8 * CHUNK);
    shares[1]
        .bytes_mut(3 * CHUNK, 5 * CHUNK_BYTES)
        .expect("its own")
        .fill(7);
    assert!(
        shares[0]
            .bytes(0, 3 * CHUNK_BYTES)
            .expect("its own")
            .iter()
            .all(|&byte| byte == 0)
    );
    assert!(shares[1].bytes(8 * CHUNK - 1, 1).expect("its own") == [7]);
}

#[test]
fn a_share_gives_no_access_to_others() {
    let umem = Umem::new(8).expect("memory");
    let mut shares = umem.cut(&[3, 4]).expect("eight chunks");
    let outside = [
        (0, 1),
        (3 * CHUNK - 1, 1),
        (3 * CHUNK - 1, 2),
        (7 * CHUNK, 1),
        (7 * CHUNK - 1, 2),
        (u64::MAX, 2),
        (u64::MAX, 1),
    ];
    for (address, len) in outside {
        assert_eq!(shares[1].bytes(address, len), None, "{address} {len}");
        assert_eq!(shares[1].bytes_mut(address, len), None, "{address} {len}");
    }
    assert_eq!(shares[1].bytes(7 * CHUNK, 0).map(<[u8]>::len), Some(0));
}

#[test]
fn more_shares_than_memory_are_refused() {
    let umem = Umem::new(8).expect("memory");
    let there = 2 << 20 >> 12;
    let wanted = [4, if umem.has_huge_pages() { there } else { 5 }];
    assert!(
        umem.cut(&wanted)
            .expect_err("too many")
            .to_string()
            .contains("chunks")
    );
}

#[test]
fn chunks_are_counted_and_taken_back_once() {
    let mut ledger = Ledger::new(2 * CHUNK..5 * CHUNK);
    assert_eq!(
        (ledger.counts().of(Owner::Free), ledger.counts().total()),
        (3, 3)
    );
    ledger.pass(1, Owner::Fill);
    assert_eq!(ledger.address(1), 3 * CHUNK);
    let take =
        |ledger: &mut Ledger, address, owner| ledger.take_back(address, owner, Owner::Received);
    assert_eq!(
        take(&mut ledger, 3 * CHUNK + 256, Owner::Tx),
        Err(ChunkFault::NotOwned)
    );
    assert_eq!(
        take(&mut ledger, 2 * CHUNK, Owner::Fill),
        Err(ChunkFault::NotOwned)
    );
    for address in [0, 2 * CHUNK - 1, 5 * CHUNK, u64::MAX] {
        assert_eq!(
            take(&mut ledger, address, Owner::Fill),
            Err(ChunkFault::Foreign),
            "{address}"
        );
    }
    assert_eq!(take(&mut ledger, 3 * CHUNK + 256, Owner::Fill), Ok(1));
    assert_eq!(
        take(&mut ledger, 3 * CHUNK + 256, Owner::Fill),
        Err(ChunkFault::NotOwned)
    );
    assert_eq!(ledger.owner(1), Owner::Received);
    assert_eq!(ledger.counts().of(Owner::Received), 1);
    assert_eq!(ledger.counts().total(), 3);
}

#[test]
fn a_piece_stays_in_its_chunk() {
    assert!(is_in_one_chunk(CHUNK, 4096) && is_in_one_chunk(CHUNK + 256, 3840));
    assert!(is_in_one_chunk(CHUNK + 4095, 1) && is_in_one_chunk(CHUNK + 4095, 0));
    assert!(!is_in_one_chunk(CHUNK, 4097) && !is_in_one_chunk(CHUNK + 256, 3841));
    assert!(!is_in_one_chunk(CHUNK + 1, u32::MAX));
}
