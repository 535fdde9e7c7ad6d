"""Draws a few steps of a trace as SVG, for the README.

    picture.py TRACE OUT.svg [--first STEP] [--steps N] [--title TEXT]

Every block is a slice of the trace, at its recorded time. Needs the packages `perfetto` and `protobuf`.
"""

import argparse
import html
import pathlib

from check_trace import CHAIN, Decoded

LEFT, WIDTH, RIGHT = 190, 880, 30
ROW, GAP, TOP = 34, 20, 58
INK, SOFT, PAPER, EDGE = "#1f2328", "#59636e", "#ffffff", "#d1d9e0"
PALETTE = ["#4c78a8", "#cf6a0c", "#3f8f3a", "#b279a2", "#c44e52", "#8c6d31", "#17a0ae", "#7f7f7f"]
# Category of the slices, what people read, and how a block looks.
ROWS = [
    ("step", "steps", "between two markers", "step"),
    ("upload_batch_window", "upload window", "weights on their way", "full"),
    ("compute_upload_dependency", "compute waits", "for an upload to end", "hatched"),
    ("execution_unit_window", "unit window", "the unit computes", "full"),
]


def short(name, names):
    """A name without the words that all names begin with, but for the last of them."""
    words = [one.split(".") for one in names]
    same = 0
    while all(len(one) > same + 1 and one[same] == words[0][same] for one in words):
        same += 1
    return ".".join(name.split(".")[max(0, same - 1) :]).replace("layer.", "layer ")


class Picture:
    def __init__(self, trace, first, count, title):
        steps = {one.name: one for one in trace.slices if one.category == "step" and "markers" in trace.path(one.track)}
        self.steps = [steps[f"step {number}"] for number in range(first, first + count)]
        self.begin, self.end = self.steps[0].start, self.steps[-1].end
        self.trace, self.title, self.parts = trace, title, []
        self.names = sorted({one.name for one in trace.slices if one.category == "execution_unit_window"})
        self.rows = {category: TOP + at * (ROW + GAP) for at, (category, *_) in enumerate(ROWS)}
        self.bottom = TOP + len(ROWS) * (ROW + GAP)
        self.height = self.bottom + 86

    def x(self, time):
        inside = min(max(time, self.begin), self.end)
        return LEFT + WIDTH * (inside - self.begin) / (self.end - self.begin)

    def add(self, tag, text=None, **attributes):
        words = "".join(f' {name.replace("_", "-")}="{html.escape(str(value))}"' for name, value in attributes.items())
        self.parts.append(f"<{tag}{words}/>" if text is None else f"<{tag}{words}>{html.escape(text)}</{tag}>")

    def text(self, x, y, text, size=13, fill=INK, anchor="start", weight="400"):
        self.add("text", text, x=f"{x:.1f}", y=f"{y:.1f}", font_size=size, fill=fill, text_anchor=anchor, font_weight=weight)

    def block(self, one, look):
        left, right, top = self.x(one.start), self.x(one.end), self.rows[one.category]
        if right - left < 0.4:
            return
        colour = PALETTE[self.names.index(one.name) % len(PALETTE)] if one.name in self.names else "#e6eaef"
        at = self.names.index(one.name) % len(PALETTE) if one.name in self.names else 0
        fill, ink = {"full": (colour, "#ffffff"), "hatched": (f"url(#wait{at})", INK), "step": (colour, INK)}[look]
        self.add("rect", x=f"{left:.2f}", y=top, width=f"{right - left:.2f}", height=ROW, fill=fill, stroke=PAPER, rx=2)
        name = one.name if look == "step" else short(one.name, self.names)
        name = name if right - left > 7.4 * len(name) else name.split()[-1]
        if look != "hatched" and right - left > 7.4 * len(name):
            self.text((left + right) / 2, top + 22, name, 12, ink, "middle", "600")

    def arrow(self):
        """The way of one unit, the first whose upload and forward lie wholly inside."""
        for stops in self.trace.flows.values():
            upload, wait, run = [self.trace.slices[at] for at, _ in stops]
            if self.begin <= upload.start and run.end <= self.end and wait.start > upload.start and wait.end > wait.start:
                break
        else:
            return
        y = {category: self.rows[category] for category in CHAIN}
        points = [(self.x(upload.end), y[CHAIN[0]] + ROW), (self.x(wait.end), y[CHAIN[1]]), (self.x(wait.end), y[CHAIN[1]] + ROW)]
        points.append((self.x(run.start) + 8, y[CHAIN[2]]))
        for (x1, y1), (x2, y2) in (points[:2], points[2:]):
            ends = {"x1": f"{x1 - 4:.1f}", "y1": y1 - 3, "x2": f"{x2 - 4:.1f}", "y2": y2 + 2}
            self.add("line", **ends, stroke=INK, stroke_width=1.8, marker_end="url(#tip)")

    def axis(self):
        span = (self.end - self.begin) / 1e6
        tick = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10**9) if span / step <= 12)
        for at in range(int(span / tick) + 1):
            x = self.x(self.begin + at * tick * 1e6)
            self.add("line", x1=f"{x:.1f}", y1=TOP - 6, x2=f"{x:.1f}", y2=self.bottom, stroke=EDGE, stroke_width=1)
            self.text(x, self.bottom + 16, str(at * tick), 12, SOFT, "middle")
        self.text(LEFT + WIDTH / 2, self.bottom + 36, f"ms since the start of {self.steps[0].name}", 12, SOFT, "middle")

    def svg(self):
        self.text(20, 30, self.title, 16, INK, weight="600")
        self.axis()
        for category, label, meaning, look in ROWS:
            y = self.rows[category]
            self.text(20, y + 15, label, 13, INK, weight="600")
            self.text(20, y + 30, meaning, 11, SOFT)
            for one in self.trace.slices:
                overlaps = one.end > self.begin and one.start < self.end
                if one.category == category and overlaps and (category != "step" or one in self.steps):
                    self.block(one, look)
        self.arrow()
        note = "One colour is one unit: it is uploaded, compute waits for what is left of the upload (hatched), then the unit runs. Arrows follow one of them."
        self.text(20, self.height - 18, note, 12, SOFT)
        whole = LEFT + WIDTH + RIGHT
        hatches = "".join(
            f'<pattern id="wait{at}" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
            f'<rect width="6" height="6" fill="#ffffff"/><rect width="3" height="6" fill="{colour}"/></pattern>'
            for at, colour in enumerate(PALETTE)
        )
        tip = f'<marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {self.height}" role="img" font-family="system-ui, -apple-system, \'Segoe UI\', \'DejaVu Sans\', sans-serif">'
        title = f"<title>{html.escape(self.title)}</title><defs>{hatches}{tip}</defs>"
        paper = f'<rect x="0.5" y="0.5" width="{whole - 1}" height="{self.height - 1}" rx="8" fill="{PAPER}" stroke="{EDGE}"/>'
        return "\n".join([head, title, paper, *self.parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=4, help="first step, zero-based")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--title", default="Weights streamed under a ceiling")
    words = parser.parse_args()
    trace = Decoded(words.trace)
    if trace.errors:
        raise SystemExit(f"picture: {trace.errors[0]}")
    words.out.write_text(Picture(trace, words.first, words.steps, words.title).svg())


if __name__ == "__main__":
    main()
