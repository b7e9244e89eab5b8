//! The AETH's syndrome: credits, timers and NAK codes, with a type for each.

use core::fmt;
use core::time::Duration;

/// The meaning of an acknowledgement, from the AETH's first byte (IBTA 1.7, 9.3.5).
///
/// [`Syndrome::from_byte`] and [`Syndrome::byte`] are the inverse of each other for all 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Positive acknowledgement, with end-to-end credits.
    Ack(Credits),
    /// Receiver not ready: retry after this time.
    RnrNak(RnrTimer),
    /// Negative acknowledgement.
    Nak(NakCode),
    /// A byte whose upper three bits have a value that the specification reserves. Don't build it
    /// from a byte that another variant represents.
    Reserved(u8),
}

const KIND: u8 = 0b1110_0000;
const KIND_ACK: u8 = 0b0000_0000;
const KIND_RNR: u8 = 0b0010_0000;
const KIND_NAK: u8 = 0b0110_0000;
const VALUE: u8 = 0b0001_1111;

impl Syndrome {
    /// The meaning of the byte.
    #[inline]
    // rule: 9.3.5-syndrome-kinds
    pub const fn from_byte(byte: u8) -> Syndrome {
        let value = byte & VALUE;
        match byte & KIND {
            KIND_ACK => Syndrome::Ack(Credits(value)),
            KIND_RNR => Syndrome::RnrNak(RnrTimer(value)),
            KIND_NAK => Syndrome::Nak(NakCode::from_code(value)),
            _ => Syndrome::Reserved(byte),
        }
    }

    /// The byte on the wire.
    #[inline]
    pub const fn byte(self) -> u8 {
        match self {
            Syndrome::Ack(credits) => KIND_ACK | credits.0,
            Syndrome::RnrNak(timer) => KIND_RNR | timer.0,
            Syndrome::Nak(code) => KIND_NAK | code.code(),
            Syndrome::Reserved(byte) => byte,
        }
    }
}

impl Default for Syndrome {
    /// A positive acknowledgement without credits.
    fn default() -> Syndrome {
        Syndrome::Ack(Credits::INVALID)
    }
}

/// End-to-end flow control credits: the number of receives that the responder has ready, as a 5-bit
/// code (IBTA 1.7, 9.7.7.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credits(u8);

impl Credits {
    /// The code that gives no credit count: the responder does not limit the requester.
    pub const INVALID: Credits = Credits(0x1f);
    /// Another name for [`Credits::INVALID`], by its effect on the requester.
    pub const UNLIMITED: Credits = Credits::INVALID;

    /// The credits with this code; `None` outside of 0 to 31.
    #[inline]
    pub const fn from_code(code: u8) -> Option<Credits> {
        if code > VALUE {
            None
        } else {
            Some(Credits(code))
        }
    }

    /// The code, 0 to 31.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The number of receives that are ready, 0 to 32768; `None` for [`Credits::INVALID`].
    #[inline]
    pub const fn count(self) -> Option<u32> {
        if self.0 == Credits::INVALID.0 {
            None
        } else {
            Some(decode_credits(self.0))
        }
    }

    /// The largest code whose count is not above `count`.
    // rule: 9.7.7.2-credits-not-above
    #[inline]
    pub const fn from_count(count: u32) -> Credits {
        const LARGEST: u32 = 30;
        if count < 2 {
            return Credits(count as u8);
        }
        // Each power of two has an even code; the next code is for one and a half times the power.
        let power = count.ilog2();
        let code = 2 * power + (count >> (power - 1) & 1);
        Credits(if code < LARGEST { code } else { LARGEST } as u8)
    }
}

/// The count that a code stands for. Codes 0 to 3 stand for themselves. From code 4 on, even codes
/// stand for powers of two, and each odd code for 1.5 times the count of the code before it.
// rule: 9.3.5-credit-codes
const fn decode_credits(code: u8) -> u32 {
    match code {
        0..4 => code as u32,
        _ => (2 + (code & 1) as u32) << (code / 2 - 1),
    }
}

impl fmt::Debug for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count() {
            Some(count) => write!(f, "Credits({count})"),
            None => f.write_str("Credits(INVALID)"),
        }
    }
}

/// The time that a requester must wait after an RNR NAK: a 5-bit code, not a time (IBTA 1.7,
/// 9.7.5.2.8).
#[derive(Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// Code 0, which is the longest time: 655.36 ms.
    pub const LONGEST: RnrTimer = RnrTimer(0);
    /// Code 1, which is the shortest time: 10 us.
    pub const SHORTEST: RnrTimer = RnrTimer(1);

    /// The timer with this code; `None` outside of 0 to 31.
    #[inline]
    pub const fn from_code(code: u8) -> Option<RnrTimer> {
        if code > VALUE {
            None
        } else {
            Some(RnrTimer(code))
        }
    }

    /// The code, 0 to 31.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time that the code represents, 10 us to 655.36 ms.
    #[inline]
    // rule: 9.3.5-rnr-codes
    pub const fn duration(self) -> Duration {
        // In units of 10 us, the codes mean the same numbers as those of credits, except that 0
        // means 2^16.
        let tens_of_us = match self.0 {
            0 => 1 << 16,
            code @ 1..4 => code as u64,
            code => (2 + (code & 1) as u64) << (code / 2 - 1),
        };
        Duration::from_micros(10 * tens_of_us)
    }
}

impl fmt::Debug for RnrTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RnrTimer({}: {:?})", self.0, self.duration())
    }
}

/// Why a request was refused, a 5-bit code (IBTA 1.7, 9.7.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A packet arrived with a PSN beyond the expected one, so at least one packet was lost or
    /// reordered.
    PsnSequenceError,
    /// The queue pair does not support the request.
    InvalidRequest,
    /// The memory may not be accessed in this way.
    RemoteAccessError,
    /// The responder could not complete the request because of an error of its own.
    RemoteOperationalError,
    /// For reliable datagrams only.
    InvalidRdRequest,
    /// A code that the specification reserves: 5 to 31.
    Reserved(u8),
}

impl NakCode {
    /// The code in the low five bits; the others are ignored.
    #[inline]
    // rule: 9.3.5-nak-codes
    pub const fn from_code(code: u8) -> NakCode {
        match code & VALUE {
            0 => NakCode::PsnSequenceError,
            1 => NakCode::InvalidRequest,
            2 => NakCode::RemoteAccessError,
            3 => NakCode::RemoteOperationalError,
            4 => NakCode::InvalidRdRequest,
            reserved => NakCode::Reserved(reserved),
        }
    }

    /// The code, 0 to 31.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            NakCode::PsnSequenceError => 0,
            NakCode::InvalidRequest => 1,
            NakCode::RemoteAccessError => 2,
            NakCode::RemoteOperationalError => 3,
            NakCode::InvalidRdRequest => 4,
            NakCode::Reserved(code) => code & VALUE,
        }
    }
}

#[cfg(test)]
mod tests;
