#!/usr/bin/env python3
"""terminal.py OUT.svg SECONDS COMMAND...: runs a command in a terminal of 124 x 24 (in tmux) for so
long, and draws what it shows then. docs/top.svg was made so, with `flightctl top`."""
import html
import re
import subprocess
import sys
import time
import uuid

COLUMNS, ROWS = 124, 24
WIDE, TALL = 8, 17
PAPER, INK = "#16191d", "#d7dce2"
COLOURS = ["#16191d", "#e06c75", "#7fc98b", "#e0b062", "#6fa8e8", "#c48be0", "#63c2c9", "#d7dce2"]
BRIGHT = ["#6b7480", "#ff8a92", "#a0e0aa", "#ffd084", "#96c4ff", "#dfb0f5", "#8fe0e6", "#ffffff"]


def colour(number):
    if number < 16:
        return (COLOURS + BRIGHT)[number]
    if number < 232:
        number -= 16
        parts = [number // 36, number // 6 % 6, number % 6]
        return "#" + "".join(f"{55 + 40 * part if part else 0:02x}" for part in parts)
    return "#" + f"{8 + 10 * (number - 232):02x}" * 3


class Style:
    def __init__(self):
        self.ink, self.paper = None, None
        self.bold = self.dim = self.reverse = self.underline = False

    def take(self, codes):
        codes = [int(code or 0) for code in codes.split(";")]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()
            elif code in (1, 2, 4, 7):
                setattr(self, {1: "bold", 2: "dim", 4: "underline", 7: "reverse"}[code], True)
            elif code == 22:
                self.bold = self.dim = False
            elif code in (24, 27):
                setattr(self, {24: "underline", 27: "reverse"}[code], False)
            elif code in (38, 48):
                mode = codes.pop(0)
                made = colour(codes.pop(0)) if mode == 5 else "#%02x%02x%02x" % tuple(codes[:3])
                codes = codes if mode == 5 else codes[3:]
                setattr(self, "ink" if code == 38 else "paper", made)
            elif code in (39, 49):
                setattr(self, "ink" if code == 39 else "paper", None)
            elif 30 <= code <= 37:
                self.ink = colour(code - 30)
            elif 40 <= code <= 47:
                self.paper = colour(code - 40)
            elif 90 <= code <= 97:
                self.ink = colour(code - 82)
            elif 100 <= code <= 107:
                self.paper = colour(code - 92)

    def colours(self):
        ink, paper = self.ink or INK, self.paper
        return (paper or PAPER, ink) if self.reverse else (ink, paper)


def shown(command, seconds):
    name = f"picture-{uuid.uuid4().hex}"
    tmux = ["tmux", "-f", "/dev/null", "-L", name]
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    subprocess.run([*tmux, "new-session", "-d", *size, *command], check=True)
    time.sleep(seconds)
    text = subprocess.run([*tmux, "capture-pane", "-e", "-p"], check=True, stdout=subprocess.PIPE)
    subprocess.run([*tmux, "kill-server"], check=False)
    return text.stdout.decode()


def draw(text):
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDE + 24}" '
        f'height="{ROWS * TALL + 20}" font-size="13.3" '
        "font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\">",
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>',
    ]
    style = Style()
    for row, line in enumerate(text.split("\n")[:ROWS]):
        column = 0
        for codes, part in re.findall(r"\x1b\[([\d;]*)m|([^\x1b]+)", line):
            if not part:
                style.take(codes)
                continue
            ink, paper = style.colours()
            x, y = 12 + column * WIDE, 10 + row * TALL
            column += len(part)
            if paper:
                out.append(
                    f'<rect x="{x}" y="{y}" width="{len(part) * WIDE}" height="{TALL}" '
                    f'fill="{paper}"/>'
                )
            if not part.strip():
                continue
            more = ' font-weight="bold"' if style.bold else ""
            more += ' opacity="0.65"' if style.dim else ""
            more += ' text-decoration="underline"' if style.underline else ""
            out.append(
                f'<text x="{x}" y="{y + 13}" fill="{ink}" xml:space="preserve" '
                f'textLength="{len(part) * WIDE}"{more}>{html.escape(part)}</text>'
            )
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    picture = draw(shown(sys.argv[3:], float(sys.argv[2])))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(picture)
