//! Numbers and names in narrow columns.

/// A rate; 0 if there was no time.
pub(crate) fn per_second(value: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { value / seconds } else { 0.0 }
}

/// At most five columns: `0`, `950`, `1.23k`, `45.6M`, `789G`.
pub(crate) fn short(value: f64) -> String {
    const STEPS: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    if !value.is_finite() || value < 0.05 {
        return "0".to_owned();
    }
    if value < 1.0 {
        return format!("{value:.1}");
    }
    // A value that rounds up to the next unit is shown in that unit.
    let found = STEPS.iter().find(|(step, _)| value >= step * 0.9995);
    let (step, unit) = found.copied().unwrap_or((1.0, ""));
    let scaled = value / step;
    let digits = match scaled {
        _ if unit.is_empty() && (scaled - scaled.round()).abs() < 0.05 => 0,
        scaled if scaled < 9.995 && !unit.is_empty() => 2,
        scaled if scaled < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$}{unit}")
}

/// A time in at most six columns: `12.3us`.
pub(crate) fn time(seconds: f64) -> String {
    let ns = seconds * 1e9;
    let (value, unit) = match ns {
        ns if !ns.is_finite() || ns < 0.0 => return "?".to_owned(),
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "us"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = usize::from(value < 99.95 && unit != "ns");
    format!("{value:.digits$}{unit}")
}

/// A text without control characters, in at most `columns` columns. It may come from another user's
/// process.
pub(crate) fn plain(text: &str, columns: usize) -> String {
    let printable = |char: char| {
        if char.is_ascii_graphic() || char == ' ' {
            char
        } else {
            '?'
        }
    };
    let length = text.chars().count();
    let shown = text.chars().map(printable);
    if length <= columns {
        return shown.collect();
    }
    let begun: String = shown.take(columns.saturating_sub(1)).collect();
    format!("{begun}~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (f64::NAN, "0"),
            (0.5, "0.5"),
            (7.0, "7"),
            (7.25, "7.2"),
            (950.0, "950"),
            (999.6, "1.00k"),
            (1234.0, "1.23k"),
            (99_960.0, "100k"),
            (999_960.0, "1.00M"),
            (45.64e6, "45.6M"),
            (12.345e9, "12.3G"),
        ] {
            assert_eq!(short(value), text, "{value}");
        }
        let mut value = 0.01;
        while value < 9e14 {
            assert!(short(value).len() <= 5, "{value}: {}", short(value));
            value *= 1.01;
        }
    }

    #[test]
    fn times_are_short() {
        for (seconds, text) in [
            (0.0, "0ns"),
            (850e-9, "850ns"),
            (12.34e-6, "12.3us"),
            (999.7e-6, "1.0ms"),
            (0.25, "250ms"),
            (1.5, "1.5s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn names_are_harmless() {
        assert_eq!(plain("\x1b[2Ja\u{202e}", 10), "?[2Ja?");
        assert_eq!(plain("a_long_name", 6), "a_lon~");
        assert_eq!(plain("name", 4), "name");
    }
}
