//! Builds pictures: elements with their attributes in the order in which they are given, and text that stays text.

use std::fmt::{Display, Write as _};

/// Text, background and grey of every picture. A picture carries its own background, so that it reads on a light and a dark page.
pub(crate) const TEXT_STYLE: &str = "\
text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1c2128; }
.title { font-weight: 600; font-size: 15px; } .small { font-size: 12px; } .dim { fill: #6b7280; } .ink { fill: #14181d; }
.bg { fill: #ffffff; stroke: #d0d7de; } .grid { stroke: #d0d7de; fill: none; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .dim { fill: #9198a1; } .bg { fill: #0d1117; stroke: #3d444d; } .grid { stroke: #3d444d; }
  .ink { fill: #14181d; }
}
";

/// Elements, one after the other.
#[derive(Default)]
pub(crate) struct Svg(String);

/// An element whose attributes are being written. It is written once it is ended, or has its content.
#[must_use = "an element without its end tag breaks the picture"]
pub(crate) struct Element<'a> {
    svg: &'a mut Svg,
    name: &'static str,
}

impl Svg {
    /// Begins an element.
    pub(crate) fn element(&mut self, name: &'static str) -> Element<'_> {
        self.0.push('<');
        self.0.push_str(name);
        Element { svg: self, name }
    }

    /// Begins an element of a class.
    pub(crate) fn of_class(&mut self, name: &'static str, class: impl Display) -> Element<'_> {
        self.element(name).set("class", class)
    }

    /// Adds elements that were drawn apart.
    pub(crate) fn add(&mut self, other: Self) {
        self.0.push_str(&other.0);
    }

    /// Ends the line of the file.
    pub(crate) fn line(&mut self) {
        self.0.push('\n');
    }

    /// Writes a style sheet and ends the line.
    pub(crate) fn style(&mut self, sheet: &str) {
        self.0.push_str("<style>");
        self.0.push_str(sheet);
        self.0.push_str("</style>\n");
    }

    /// Writes the background with its frame, for a picture of this width and height, and ends the line.
    pub(crate) fn background(&mut self, width: impl Display, height: impl Display) {
        self.of_class("rect", "bg").at(0.5, 0.5).size(width, height).set("rx", 10).end();
        self.line();
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

impl<'a> Element<'a> {
    /// Writes an attribute.
    pub(crate) fn set(self, name: &str, value: impl Display) -> Self {
        let _ = write!(self.svg.0, " {name}=\"{}\"", escape(&value.to_string()));
        self
    }

    /// Writes where the element is: its left and upper end, or where text begins.
    pub(crate) fn at(self, x: impl Display, y: impl Display) -> Self {
        self.set("x", x).set("y", y)
    }

    /// Writes the centre of a circle.
    pub(crate) fn around(self, x: impl Display, y: impl Display) -> Self {
        self.set("cx", x).set("cy", y)
    }

    /// Writes width and height.
    pub(crate) fn size(self, width: impl Display, height: impl Display) -> Self {
        self.set("width", width).set("height", height)
    }

    /// Makes the element a line of this colour.
    pub(crate) fn stroke(self, colour: &str) -> Self {
        self.set("stroke", colour).set("fill", "none")
    }

    /// Ends the element without content.
    pub(crate) fn end(self) {
        self.svg.0.push_str("/>");
    }

    /// Gives the element a text as its content.
    pub(crate) fn text(self, text: impl Display) {
        let text = escape(&text.to_string());
        self.holds(|svg| svg.0.push_str(&text));
    }

    /// Gives the element what `content` writes.
    pub(crate) fn holds(self, content: impl FnOnce(&mut Svg)) {
        self.svg.0.push('>');
        content(self.svg);
        let _ = write!(self.svg.0, "</{}>", self.name);
    }
}

/// A whole picture: its outermost element, with what `content` writes in it, and the end of the line.
pub(crate) fn picture(attributes: &[(&str, &dyn Display)], content: impl FnOnce(&mut Svg)) -> String {
    let mut svg = Svg::default();
    let outermost = svg.element("svg").set("xmlns", "http://www.w3.org/2000/svg");
    let outermost = attributes.iter().fold(outermost, |element, (name, value)| element.set(name, value));
    outermost.holds(|svg| {
        svg.line();
        content(svg);
    });
    svg.line();
    svg.into_text()
}

/// A number with one decimal.
pub(crate) fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

/// Text as it stands in an element or an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_name_stays_text() {
        assert_eq!(escape("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        let mut svg = Svg::default();
        svg.of_class("text", "\"x").text("a<b");
        assert_eq!(svg.into_text(), "<text class=\"&quot;x\">a&lt;b</text>");
    }

    #[test]
    fn elements_have_their_attributes_in_order_and_their_content_inside() {
        let whole = picture(&[("viewBox", &"0 0 4 2")], |svg| {
            svg.background(3, 1);
            svg.element("g").holds(|svg| {
                svg.element("title").text("one");
                svg.element("circle").around(tenths(1.0), 2).set("r", 3).end();
            });
        });
        insta::assert_snapshot!(whole, @r#"
        <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 4 2">
        <rect class="bg" x="0.5" y="0.5" width="3" height="1" rx="10"/>
        <g><title>one</title><circle cx="1.0" cy="2" r="3"/></g></svg>
        "#);
    }
}
