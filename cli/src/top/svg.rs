//! A picture of a screen, for documents, with each piece of text at its position.

use super::screen::{Screen, Style};
use std::fmt::Write as _;

/// The size of a cell and the margin, in pixels.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 18.0;
const EDGE: f64 = 10.0;

const GROUND: &str = "#1e1e2e";
const TEXT: &str = "#d8dee9";

/// The screen with `rows` rows as an SVG file.
pub(crate) fn draw(screen: &Screen, rows: usize) -> String {
    let width = screen.columns as f64 * WIDTH + 2.0 * EDGE;
    let height = rows as f64 * HEIGHT + 2.0 * EDGE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{GROUND}\"/>\n\
         <g font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\" \
         xml:space=\"preserve\">\n"
    );
    for (row, line) in screen.lines.iter().take(rows).enumerate() {
        let top = EDGE + row as f64 * HEIGHT;
        let is_title = line
            .0
            .first()
            .is_some_and(|(style, _)| *style == Style::Title);
        if is_title {
            let bar = screen.columns as f64 * WIDTH;
            let _ = writeln!(
                svg,
                "<rect x=\"{EDGE}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{HEIGHT}\" fill=\"{TEXT}\"/>"
            );
        }
        let mut column = 0;
        for (style, text) in &line.0 {
            piece(&mut svg, *style, text, column, top);
            column += text.chars().count();
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// Positions each word separately, so that it is in its column with any font.
fn piece(svg: &mut String, style: Style, text: &str, column: usize, top: f64) {
    let (fill, more) = match style {
        Style::Plain => (TEXT, ""),
        Style::Title => (GROUND, ""),
        Style::Head => (TEXT, " font-weight=\"bold\""),
        Style::Bad => ("#ff6b6b", " font-weight=\"bold\""),
        Style::Dim => ("#8a93a5", ""),
    };
    let mut at = column;
    for word in text.split(' ') {
        let length = word.chars().count();
        if length > 0 {
            let (x, y) = (EDGE + at as f64 * WIDTH, top + 13.5);
            let wide = length as f64 * WIDTH;
            let word = escaped(word);
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{wide:.1}\" fill=\"{fill}\"{more}>{word}</text>"
            );
        }
        at += length + 1;
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
