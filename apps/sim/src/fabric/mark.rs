//! ECN marks in whole frames.

/// Sets "congestion experienced" in the header of IP of a frame, as a switch does, and corrects the
/// header's checksum.
pub(super) fn mark(frame: &mut [u8]) {
    let Some((ethernet, header)) = frame.split_at_mut_checked(14) else {
        return;
    };
    match (&ethernet[12..], header) {
        ([0x08, 0x00], [_, class, rest @ ..]) if rest.len() >= 18 => {
            let before = *class;
            *class |= 3;
            // RFC 1624, equation 3: the sum changes as the 16-bit word does.
            let sum = u16::from_be_bytes([rest[8], rest[9]]);
            let added = u32::from(!sum) + u32::from(!u16::from(before)) + u32::from(*class);
            let folded = (added & 0xffff) + (added >> 16);
            let folded = (folded & 0xffff) + (folded >> 16);
            let sum = !u16::try_from(folded).unwrap_or(0);
            rest[8..10].copy_from_slice(&sum.to_be_bytes());
        }
        // The class is the second half of the first byte and the first half of the second.
        ([0x86, 0xdd], [_, second, ..]) => *second |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(header: &[u8]) -> u16 {
        let word = |word: &[u8]| u32::from(u16::from_be_bytes([word[0], word[1]]));
        let sum: u32 = header.chunks(2).map(word).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !u16::try_from((folded & 0xffff) + (folded >> 16)).expect("16 bits")
    }

    #[test]
    fn a_mark_leaves_a_right_checksum_whatever_it_was() {
        for id in 0..=u16::MAX {
            let mut frame = [0; 34];
            frame[12] = 8;
            frame[14..18].copy_from_slice(&[0x45, 0x6a, 0, 40]);
            frame[18..20].copy_from_slice(&id.to_be_bytes());
            let sum = checksum(&frame[14..]);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
            mark(&mut frame);
            assert_eq!(frame[15], 0x6b);
            assert_eq!(checksum(&frame[14..]), 0, "identification {id}");
        }
    }

    #[test]
    fn a_mark_is_set_in_ipv6() {
        let mut frame = [0; 54];
        frame[12..16].copy_from_slice(&[0x86, 0xdd, 0x6a, 0xa0]);
        mark(&mut frame);
        assert_eq!(frame[14..16], [0x6a, 0xb0]);
    }

    #[test]
    fn cut_frames_and_other_protocols_have_no_mark() {
        for ethertype in [[8, 0], [0x86, 0xdd], [8, 6]] {
            for len in 0..34 {
                let mut frame = vec![0; len];
                for (to, from) in frame.iter_mut().skip(12).zip(ethertype) {
                    *to = from;
                }
                let before = frame.clone();
                mark(&mut frame);
                assert!(len >= 16 && ethertype == [0x86, 0xdd] || frame == before);
            }
        }
    }
}
