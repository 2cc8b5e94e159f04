#!/usr/bin/env python3
"""Smallest number of GPUs that meets a fleet's deadlines, and a plot of misses and kept work by number.

how_much_gpu.py FLEET.json [-b REEF] [--gpus 1,2,4] [--missed 1] [--scheduler guests] [-o FILE.svg]

Runs `reef simulate` once for all numbers of GPUs. Needs Python alone.
"""
import argparse
import json
import subprocess

WIDTH, HEIGHT, LEFT, TOP = 560, 320, 60, 40


def simulate(options):
    """Rows of all numbers of GPUs."""
    command = [options.reef, "simulate", options.fleet, "--schedulers", options.scheduler, "--placements",
               "least-interference", "--time", options.time, "--gpus", options.gpus, "--json"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    missed = lambda row: 100 * row["rt_misses"] / max(row["rt_arrivals"], 1)
    return [(row["gpus"], missed(row), row["be_kept_percent"], row["rt_p99_ms"]) for row in rows]


def line(rows, at, colour, x, y):
    """A curve with a dot at each number."""
    points = [(x(row[0]), y(row[at])) for row in rows]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>\n' for a, b in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n{dots}'


def draw(rows, needed):
    """The plot, as SVG."""
    low, high = rows[0][0], max(rows[-1][0], rows[0][0] + 1)
    x = lambda gpus: LEFT + (gpus - low) / (high - low) * (WIDTH - 2 * LEFT)
    y = lambda percent: HEIGHT - 50 - min(percent, 100) / 100 * (HEIGHT - 50 - TOP)
    text = lambda a, b, what, more="": f'<text x="{a:.1f}" y="{b:.1f}" {more}>{what}</text>\n'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">\n',
             '<rect width="100%" height="100%" fill="#fff"/>\n']
    for percent in (0, 25, 50, 75, 100):
        parts.append(f'<path d="M{LEFT} {y(percent):.1f}H{WIDTH - LEFT}" stroke="#ddd"/>\n')
        parts.append(text(LEFT - 8, y(percent) + 4, f"{percent} %", 'text-anchor="end"'))
    parts += [text(x(row[0]), HEIGHT - 32, row[0], 'text-anchor="middle"') for row in rows]
    if needed:
        parts.append(f'<path d="M{x(needed):.1f} {TOP}V{HEIGHT - 50}" stroke="#888" stroke-dasharray="4 4"/>\n')
    parts += [line(rows, 1, "#d62728", x, y), line(rows, 2, "#1f77b4", x, y)]
    parts.append(text(LEFT, 24, "missed deadlines", 'fill="#d62728"'))
    parts.append(text(LEFT + 130, 24, "best-effort work kept", 'fill="#1f77b4"'))
    parts.append(text(WIDTH / 2, HEIGHT - 10, "GPUs", 'text-anchor="middle"'))
    return "".join(parts) + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("fleet")
    parser.add_argument("-b", "--reef", default="reef")
    parser.add_argument("-o", "--out")
    parser.add_argument("--gpus", default="1,2,3,4,5,6,7,8")
    parser.add_argument("--missed", type=float, default=1.0, help="most missed deadlines, in percent")
    parser.add_argument("--scheduler", default="guests")
    parser.add_argument("--time", default="60s")
    options = parser.parse_args()
    rows = simulate(options)
    for gpus, missed, kept, p99 in rows:
        print(f"{gpus:4} GPUs: missed {missed:6.2f} %, p99 {p99:9.2f} ms, best-effort work kept {kept:6.1f} %")
    needed = min((row[0] for row in rows if row[1] <= options.missed), default=None)
    print(f"needed: {needed} GPUs" if needed else "needed: more GPUs than these")
    if options.out:
        with open(options.out, "w") as file:
            file.write(draw(rows, needed))


main()
