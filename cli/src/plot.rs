//! Charts with lines, as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

/// An area of a picture.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The points of a line.
pub(crate) type Points = Vec<(f64, f64)>;

/// The labels and ranges of a chart's axes.
pub(crate) struct Axes<'a> {
    pub(crate) caption: &'a str,
    pub(crate) x: (&'a str, f64),
    pub(crate) y: (&'a str, f64),
}

/// Where the names of the lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Nowhere.
    Hidden,
    /// In the lower right corner.
    Inside,
    /// To the right of the chart, for many lines.
    Beside,
}

/// The width in pixels of a key beside a chart, and the height of a line of it.
const KEY_WIDTH: u32 = 250;
const KEY_LINE: i32 = 17;

/// A picture of `size` pixels with one chart.
pub(crate) fn picture(
    size: (u32, u32),
    axes: &Axes<'_>,
    lines: &[(String, Points)],
    key: Key,
) -> Result<String, String> {
    draw(size, |area| chart(area, axes, lines, key))
}

/// A picture of `size` pixels.
pub(crate) fn draw(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let draw = || {
            area.fill(&WHITE)?;
            draw(&area)?;
            area.present()?;
            Ok(())
        };
        draw().map_err(|error: Box<dyn Error>| format!("can't draw: {error}"))?;
    }
    Ok(svg)
}

/// Draws a chart.
pub(crate) fn chart(
    area: &Area<'_>,
    axes: &Axes<'_>,
    lines: &[(String, Points)],
    key: Key,
) -> Result<(), Box<dyn Error>> {
    if key == Key::Beside {
        let (width, _) = area.dim_in_pixel();
        let (left, right) = area.split_horizontally(width.saturating_sub(KEY_WIDTH));
        draw_lines(&left, axes, lines, Key::Hidden, varied_colour)?;
        return draw_key(&right, lines);
    }
    draw_lines(area, axes, lines, key, colour)
}

/// The colour of a line: its number, and the number of lines.
type Palette = fn(usize, usize) -> HSLColor;

fn draw_lines(
    area: &Area<'_>,
    axes: &Axes<'_>,
    lines: &[(String, Points)],
    key: Key,
    palette: Palette,
) -> Result<(), Box<dyn Error>> {
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(56)
        .caption(axes.caption, ("sans-serif", 16))
        .build_cartesian_2d(0.0..axes.x.1, 0.0..axes.y.1)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc(axes.x.0)
        .y_desc(axes.y.0)
        .draw()?;
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = palette(number, lines.len());
        let series = chart.draw_series(LineSeries::new(points.iter().copied(), colour))?;
        if key == Key::Inside {
            let key = move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour);
            series.label(name.as_str()).legend(key);
        }
    }
    if key == Key::Inside {
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.8))
            .position(SeriesLabelPosition::LowerRight)
            .draw()?;
    }
    Ok(())
}

fn colour(number: usize, count: usize) -> HSLColor {
    HSLColor(number as f64 / count.max(1) as f64 * 0.85, 0.8, 0.42)
}

/// Colours for many lines: neighbours also differ in lightness.
fn varied_colour(number: usize, count: usize) -> HSLColor {
    let HSLColor(hue, saturation, lightness) = colour(number, count);
    match (count > 8, number % 2) {
        (true, 0) => HSLColor(hue, saturation, 0.32),
        (true, _) => HSLColor(hue, saturation, 0.55),
        (false, _) => HSLColor(hue, saturation, lightness),
    }
}

fn draw_key(area: &Area<'_>, lines: &[(String, Points)]) -> Result<(), Box<dyn Error>> {
    for (number, (name, _)) in lines.iter().enumerate() {
        let y = 40 + KEY_LINE * i32::try_from(number).unwrap_or(i32::MAX / KEY_LINE - 3);
        let stroke = ShapeStyle::from(varied_colour(number, lines.len())).stroke_width(3);
        area.draw(&PathElement::new([(4, y), (24, y)], stroke))?;
        let text = Text::new(name.clone(), (30, y - 6), ("sans-serif", 12));
        area.draw(&text)?;
    }
    Ok(())
}

/// A round number of at least `value`, for the end of an axis.
pub(crate) fn round_up(value: f64) -> f64 {
    if !(value.is_finite() && value > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.iter().find(|step| *step * power >= value);
    step.unwrap_or(&10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.0, 1.0),
            (f64::NAN, 1.0),
            (1.0, 1.0),
            (1.1, 1.2),
            (9.1, 10.0),
            (420.0, 500.0),
            (0.017, 0.02),
        ] {
            let rounded = round_up(value);
            assert!((rounded - end).abs() < end * 1e-9, "{value}: {rounded}");
        }
    }

    /// Each line has its name and its colour in the key.
    #[test]
    fn a_key_beside_names_every_line() {
        let line = |n: usize| (format!("line-{n}"), vec![(0.0, 0.0), (1.0, n as f64)]);
        let lines: Vec<_> = (0..16).map(line).collect();
        let axes = Axes {
            caption: "all",
            x: ("s", 1.0),
            y: ("Gb/s", 16.0),
        };
        let svg = picture((900, 360), &axes, &lines, Key::Beside).expect("drawn");
        for (number, (name, _)) in lines.iter().enumerate() {
            assert!(svg.contains(name), "{name}");
            let (r, g, b) = varied_colour(number, 16).to_backend_color().rgb;
            let code = format!("#{r:02X}{g:02X}{b:02X}");
            assert_eq!(svg.matches(&code).count(), 2, "{name} {code}");
        }
    }
}
