//! All headers of fixed length: their bytes, in both directions.

use std::fmt::Debug;
use std::vec::Vec;

use crate::testing::Numbers;
use crate::{
    Aeth, AtomicAckEth, AtomicEth, Credits, Deth, Feth, FlushPlacement, FlushSelectivity, Grh,
    Ieth, ImmDt, Layer, NakCode, ParseError, QKey, Qpn, Reason, Reth, RnrTimer, Syndrome, XrcEth,
};

type Parse<H> = fn(&[u8]) -> Result<H, ParseError>;
type Emit<H> = fn(&H, &mut [u8]);

/// Checks that `header` has `bytes` on the wire, that bytes behind it are neither used nor changed,
/// and that each shorter slice is refused.
#[track_caller]
fn check<H: Copy + Debug + PartialEq>(
    parse: Parse<H>,
    emit: Emit<H>,
    layer: Layer,
    header: H,
    bytes: &[u8],
) {
    let mut behind = bytes.to_vec();
    behind.extend([0x5a; 3]);
    assert_eq!(parse(bytes), Ok(header));
    assert_eq!(parse(&behind), Ok(header));

    let mut out: Vec<u8> = behind.iter().map(|byte| !byte).collect();
    out[bytes.len()..].fill(0x5a);
    emit(&header, &mut out);
    assert_eq!(out, behind);

    for len in 0..bytes.len() {
        let error = parse(&bytes[..len]).unwrap_err();
        assert_eq!(error.layer, layer);
        assert_eq!(
            error.reason,
            Reason::Truncated {
                available: len as u32,
                needed: bytes.len() as u32
            }
        );
    }
}

// shows: 9.3.3-reth
#[test]
fn reth() {
    let header = Reth {
        va: 0x0102_0304_0506_0708,
        rkey: 0x1112_1314,
        dma_len: 0x2122_2324,
    };
    let bytes = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,
    ];
    check(Reth::parse, Reth::emit, Layer::Reth, header, &bytes);
}

// shows: 9.3.5-aeth
#[test]
fn aeth() {
    for (syndrome, byte) in [
        (Syndrome::Ack(Credits::from_count(6)), 0x05),
        (Syndrome::Ack(Credits::INVALID), 0x1f),
        (Syndrome::RnrNak(RnrTimer::SHORTEST), 0x21),
        (Syndrome::Nak(NakCode::PsnSequenceError), 0x60),
        (Syndrome::Nak(NakCode::RemoteAccessError), 0x62),
        (Syndrome::Reserved(0x40), 0x40),
    ] {
        let header = Aeth {
            syndrome,
            msn: 0x010203,
        };
        check(
            Aeth::parse,
            Aeth::emit,
            Layer::Aeth,
            header,
            &[byte, 1, 2, 3],
        );
    }
}

// shows: 9.3.5-msn-24-bits
#[test]
fn an_msn_is_cut_to_24_bits() {
    let mut out = [0; 4];
    Aeth {
        syndrome: Syndrome::Ack(Credits::from_count(0)),
        msn: 0xff01_0203,
    }
    .emit(&mut out);
    assert_eq!(out, [0, 1, 2, 3]);
}

// shows: 9.3.4-atomiceth
#[test]
fn atomic_eth() {
    let header = AtomicEth {
        va: 0x0102_0304_0506_0708,
        rkey: 0x1112_1314,
        swap_or_add: 0x2122_2324_2526_2728,
        compare: 0x3132_3334_3536_3738,
    };
    let bytes = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27,
        0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38,
    ];
    check(
        AtomicEth::parse,
        AtomicEth::emit,
        Layer::AtomicEth,
        header,
        &bytes,
    );
}

// shows: 9.3.5-atomicacketh
#[test]
fn atomic_ack_eth() {
    let header = AtomicAckEth {
        original: 0x0102_0304_0506_0708,
    };
    let layer = Layer::AtomicAckEth;
    check(
        AtomicAckEth::parse,
        AtomicAckEth::emit,
        layer,
        header,
        &[1, 2, 3, 4, 5, 6, 7, 8],
    );
}

// shows: 9.3.2-deth
#[test]
fn deth() {
    let header = Deth {
        qkey: QKey(0x0102_0304),
        src_qpn: Qpn::from_bits(0x060708),
    };
    check(
        Deth::parse,
        Deth::emit,
        Layer::Deth,
        header,
        &[1, 2, 3, 4, 0, 6, 7, 8],
    );
    assert_eq!(
        Deth::parse(&[1, 2, 3, 4, 0xff, 6, 7, 8]),
        Ok(header),
        "reserved"
    );
}

// shows: A14-xrceth
#[test]
fn xrceth() {
    let header = XrcEth {
        srqn: Qpn::from_bits(0x020304),
    };
    check(
        XrcEth::parse,
        XrcEth::emit,
        Layer::XrcEth,
        header,
        &[0, 2, 3, 4],
    );
    assert_eq!(XrcEth::parse(&[0xff, 2, 3, 4]), Ok(header), "reserved");
}

// shows: 9.3-immdt, 9.3-ieth
#[test]
fn imm_dt_and_ieth() {
    let bytes = [1, 2, 3, 4];
    check(
        ImmDt::parse,
        ImmDt::emit,
        Layer::ImmDt,
        ImmDt(0x0102_0304),
        &bytes,
    );
    check(
        Ieth::parse,
        Ieth::emit,
        Layer::Ieth,
        Ieth(0x0102_0304),
        &bytes,
    );
}

// shows: A19-feth
#[test]
fn feth() {
    let both = FlushPlacement::GLOBAL_VISIBILITY.union(FlushPlacement::PERSISTENCE);
    for (placement, selectivity, byte) in [
        (FlushPlacement::NONE, FlushSelectivity::Range, 0x00),
        (
            FlushPlacement::GLOBAL_VISIBILITY,
            FlushSelectivity::Range,
            0x01,
        ),
        (FlushPlacement::PERSISTENCE, FlushSelectivity::Region, 0x12),
        (both, FlushSelectivity::Reserved(2), 0x23),
        (
            FlushPlacement::from_bits(0xff),
            FlushSelectivity::Reserved(3),
            0x3f,
        ),
    ] {
        let header = Feth {
            placement,
            selectivity,
        };
        check(
            Feth::parse,
            Feth::emit,
            Layer::Feth,
            header,
            &[0, 0, 0, byte],
        );
        assert_eq!(
            Feth::parse(&[0xff, 0xff, 0xff, byte | 0xc0]),
            Ok(header),
            "reserved"
        );
    }
    assert!(both.contains(FlushPlacement::PERSISTENCE));
    assert!(!FlushPlacement::PERSISTENCE.contains(both));
}

#[test]
fn grh() {
    let header = Grh {
        traffic_class: 0x12,
        flow_label: 0x34567,
        payload_len: 0x89ab,
        next_header: Grh::NEXT_HEADER_BTH,
        hop_limit: 0xcd,
        sgid: core::array::from_fn(|i| i as u8),
        dgid: core::array::from_fn(|i| 0x20 + i as u8),
    };
    let mut bytes = [0; Grh::LEN];
    bytes[..8].copy_from_slice(&[0x61, 0x23, 0x45, 0x67, 0x89, 0xab, 0x1b, 0xcd]);
    bytes[8..].copy_from_slice(&core::array::from_fn::<_, 32, _>(|i| {
        if i < 16 { i as u8 } else { 0x10 + i as u8 }
    }));
    check(Grh::parse, Grh::emit, Layer::Grh, header, &bytes);
    bytes[0] = 0x41;
    let error = Grh::parse(&bytes).unwrap_err();
    assert_eq!((error.layer, error.field), (Layer::Grh, "version"));
}

/// For any bytes, parsing and emitting restores them, except reserved bits.
#[test]
fn any_bytes_make_the_round_trip() {
    fn round_trip<const N: usize, H>(
        numbers: &mut Numbers,
        parse: Parse<H>,
        emit: Emit<H>,
        mask: [u8; N],
    ) {
        for _ in 0..500 {
            let bytes: [u8; N] = numbers.array();
            let mut out = [0xaa; N];
            emit(&parse(&bytes).unwrap(), &mut out);
            assert_eq!(out, core::array::from_fn(|i| bytes[i] & mask[i]));
        }
    }
    let n = &mut Numbers(3);
    round_trip(n, Reth::parse, Reth::emit, [0xff; Reth::LEN]);
    round_trip(n, Aeth::parse, Aeth::emit, [0xff; Aeth::LEN]);
    round_trip(n, AtomicEth::parse, AtomicEth::emit, [0xff; AtomicEth::LEN]);
    round_trip(
        n,
        AtomicAckEth::parse,
        AtomicAckEth::emit,
        [0xff; AtomicAckEth::LEN],
    );
    round_trip(n, ImmDt::parse, ImmDt::emit, [0xff; ImmDt::LEN]);
    round_trip(n, Ieth::parse, Ieth::emit, [0xff; Ieth::LEN]);
    round_trip(
        n,
        Deth::parse,
        Deth::emit,
        [0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff],
    );
    round_trip(n, XrcEth::parse, XrcEth::emit, [0, 0xff, 0xff, 0xff]);
    round_trip(n, Feth::parse, Feth::emit, [0, 0, 0, 0x3f]);
}
