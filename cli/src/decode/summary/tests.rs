use std::time::Duration;

use super::{CellAlignment::Left, CellAlignment::Right, binary_bytes, duration, rate, table};

#[test]
fn numbers_are_readable() {
    assert_eq!(binary_bytes(0), "0 B");
    assert_eq!(binary_bytes(1023), "1023 B");
    assert_eq!(binary_bytes(1024), "1.0 KiB");
    assert_eq!(binary_bytes(1 << 20), "1.0 MiB");
    assert_eq!(binary_bytes(u64::MAX), "16.0 EiB");
    assert_eq!(rate(0.0), "0.0 b/s");
    assert_eq!(rate(999.9), "999.9 b/s");
    assert_eq!(rate(46.25e9), "46.2 Gb/s");
    assert_eq!(duration(Duration::from_nanos(999)), "999 ns");
    assert_eq!(duration(Duration::from_nanos(1500)), "1.5 us");
    assert_eq!(duration(Duration::from_micros(1500)), "1.5 ms");
    assert_eq!(duration(Duration::from_millis(61_500)), "61.500 s");
}

#[test]
fn columns_line_up() {
    let mut table = table(&[("NAME", Left), ("N", Right), ("X", Left)]);
    table.add_row(["a", "100", "y"]);
    table.add_row(["longer", "1", ""]);
    let expected = "  NAME      N  X\n  a       100  y\n  longer    1";
    assert_eq!(table.trim_fmt(), expected);
}
