//! Flame graphs: each function is as wide as its share of the samples, above its caller. A tooltip
//! shows its name and share.

use super::stacks::{Side, Stack};
use std::fmt::Write as _;

/// Pixels.
const WIDTH: f64 = 1200.0;
const ROW: usize = 16;
const TITLE: usize = 48;
/// The narrowest function to show, in pixels. Narrower ones are left out with their callees.
const NARROWEST: f64 = 0.6;
/// Approximate width of a letter, in pixels.
const LETTER: f64 = 6.6;

/// A function on a call path, with its callees.
#[derive(Debug)]
struct Node {
    function: String,
    side: Side,
    samples: usize,
    children: Vec<Node>,
}

impl Node {
    fn new(function: &str, side: Side) -> Self {
        Self {
            function: function.to_owned(),
            side,
            samples: 0,
            children: Vec::new(),
        }
    }

    fn add(&mut self, stack: &Stack) {
        self.samples += 1;
        let mut node = self;
        for frame in stack {
            let known = node
                .children
                .iter()
                .position(|c| c.function == frame.function && c.side == frame.side);
            let index = known.unwrap_or_else(|| {
                node.children.push(Node::new(&frame.function, frame.side));
                node.children.len() - 1
            });
            node = &mut node.children[index];
            node.samples += 1;
        }
    }

    /// Sorts alphabetically, so that two profiles can be compared by eye.
    fn sort(&mut self) {
        self.children.sort_by(|a, b| a.function.cmp(&b.function));
        self.children.iter_mut().for_each(Self::sort);
    }

    fn depth(&self, scale: f64) -> usize {
        if self.samples as f64 * scale < NARROWEST {
            return 0;
        }
        let below = self.children.iter().map(|c| c.depth(scale)).max();
        1 + below.unwrap_or(0)
    }
}

/// A flame graph of these stacks with a title, as the text of an SVG file.
pub fn flame_graph(stacks: &[Stack], title: &str) -> String {
    let mut root = Node::new("all", Side::Program);
    stacks.iter().for_each(|stack| root.add(stack));
    root.sort();
    let scale = WIDTH / stacks.len().max(1) as f64;
    let height = TITLE + root.depth(scale) * ROW + ROW;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"600\" y=\"20\" text-anchor=\"middle\" font-size=\"15\">{}</text>\n\
         <text x=\"600\" y=\"38\" text-anchor=\"middle\" fill=\"#555555\">{} samples; \
         orange: the program, yellow: libraries, blue: the kernel</text>\n",
        escape(title),
        stacks.len()
    );
    draw(&root, 0.0, height - ROW, scale, stacks.len(), &mut out);
    out.push_str("</svg>\n");
    out
}

fn draw(node: &Node, x: f64, y: usize, scale: f64, all: usize, out: &mut String) {
    let width = node.samples as f64 * scale;
    if width < NARROWEST {
        return;
    }
    let share = 100.0 * node.samples as f64 / all.max(1) as f64;
    let name = escape(&node.function);
    let letters = (width / LETTER) as usize;
    let label: String = if letters < 4 {
        String::new()
    } else {
        escape(&node.function.chars().take(letters - 1).collect::<String>())
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "<g><title>{name}, {share:.1} %</title><rect x=\"{x:.1}\" y=\"{top}\" \
         width=\"{width:.1}\" height=\"15\" rx=\"1\" fill=\"{}\"/><text x=\"{:.1}\" \
         y=\"{}\">{label}</text></g>",
        colour(node),
        x + 2.0,
        y + 1,
        top = y.saturating_sub(ROW) + 6,
    );
    let mut left = x;
    for child in &node.children {
        draw(child, left, y.saturating_sub(ROW), scale, all, out);
        left += child.samples as f64 * scale;
    }
}

/// The colour: a hue for the side and a shade for the name, so that neighbours differ.
fn colour(node: &Node) -> &'static str {
    let shades = match node.side {
        Side::Program => ["#f4a261", "#f2955a", "#eda873", "#f7b27d"],
        Side::Library => ["#f1d36b", "#ecca58", "#f5dc85", "#e8cf7a"],
        Side::Kernel => ["#8ab6d6", "#7aabd0", "#9cc3de", "#84b9cf"],
    };
    let sum = node.function.bytes().fold(0_usize, |sum, b| {
        sum.wrapping_mul(31).wrapping_add(b.into())
    });
    shades[sum % shades.len()]
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flames::stacks::Frame;

    fn stack(functions: &[&str]) -> Stack {
        let frame = |&function: &&str| Frame {
            function: function.to_owned(),
            side: Side::Program,
        };
        functions.iter().map(frame).collect()
    }

    #[test]
    fn a_function_is_as_wide_as_its_share() {
        let stacks = [
            stack(&["main", "send<T>"]),
            stack(&["main", "send<T>"]),
            stack(&["main", "receive"]),
            stack(&["main"]),
        ];
        let svg = flame_graph(&stacks, "a & b");
        assert!(svg.contains("a &amp; b"), "{svg}");
        for (name, share, width) in [
            ("main", "100.0", "1200.0"),
            ("send&lt;T&gt;", "50.0", "600.0"),
            ("receive", "25.0", "300.0"),
        ] {
            let line = svg
                .lines()
                .find(|line| line.contains(&format!("<title>{name}, {share} %")))
                .unwrap_or_else(|| panic!("no {name} with {share} % in {svg}"));
            assert!(line.contains(&format!("width=\"{width}\"")), "{line}");
        }
    }
}
