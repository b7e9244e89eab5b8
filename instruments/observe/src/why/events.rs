//! The last events of a failed QP, with their times before the failure.

use crate::InWords;
use core::fmt;
use roce_stack::{Instant, Recorded};
use serde::{Deserialize, Serialize};

/// The number of events that the text of an explanation shows, the newest ones. JSON has all.
const MOST_AS_TEXT: usize = 12;

/// An event of a QP that has failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QpEventText {
    /// When it happened, in milliseconds from the failure on: negative before it.
    pub ms: f64,
    /// The event, a [`QpEvent`](super::QpEvent) in words.
    pub event: String,
}

impl QpEventText {
    /// The events of a QP that has failed then.
    pub fn all(failed: Instant, recorded: &[Recorded]) -> Vec<Self> {
        let text = |recorded| Self::new(failed, recorded);
        recorded.iter().map(text).collect()
    }

    fn new(failed: Instant, recorded: &Recorded) -> Self {
        let nanos = |at: Instant| at.as_nanos() as i64;
        Self {
            ms: nanos(recorded.at).wrapping_sub(nanos(failed)) as f64 / 1e6,
            event: InWords(&recorded.event).to_string(),
        }
    }
}

/// The time from the failure on, such as `-12.4ms`, and the event.
impl fmt::Display for QpEventText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, unit) = match self.ms.abs() {
            ms if ms < 1.0 => (self.ms * 1e3, "us"),
            ms if ms < 1e3 => (self.ms, "ms"),
            _ => (self.ms / 1e3, "s"),
        };
        let time = match self.ms == 0.0 {
            true => "0".to_owned(),
            false => format!("{time:+.1}{unit}"),
        };
        write!(f, "{time:>8}  {}", self.event)
    }
}

/// Those that the text shows, as lines.
pub(super) fn lines(events: &[QpEventText]) -> Vec<String> {
    let newest = &events[events.len().saturating_sub(MOST_AS_TEXT)..];
    newest.iter().map(QpEventText::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roce_stack::QpEvent;

    #[test]
    fn the_time_is_that_before_the_failure() {
        let failed = Instant::from_nanos(5_000_000_000);
        let text = |at| {
            let recorded = Recorded {
                at: Instant::from_nanos(at),
                event: QpEvent::RnrTimerEnded,
            };
            QpEventText::new(failed, &recorded).to_string()
        };
        let event = "the RNR timer has ended";
        for (at, time) in [
            (4_987_600_000, " -12.4ms"),
            (4_999_999_500, "  -0.5us"),
            (2_900_000_000, "   -2.1s"),
            (5_000_000_000, "       0"),
            (5_000_020_000, " +20.0us"),
        ] {
            assert_eq!(text(at), format!("{time}  {event}"));
        }
    }

    #[test]
    fn the_text_has_the_newest() {
        let event = |number: usize| QpEventText {
            ms: 0.0,
            event: number.to_string(),
        };
        let events: Vec<_> = (0..32).map(event).collect();
        let lines = lines(&events);
        assert_eq!(lines.len(), MOST_AS_TEXT);
        assert!(lines[0].ends_with(" 20"), "{lines:?}");
        assert!(lines[11].ends_with(" 31"), "{lines:?}");
    }
}
