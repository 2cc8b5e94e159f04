"""Bars for each way to share a device, as SVG: the 99th percentile, and what is kept."""

from xml.sax.saxutils import escape


def drawing(of_latency, of_kept, rows):
    """Draws rows of {name, p99 in milliseconds, kept in percent or None, is_reef} under two titles."""
    most = max((row["p99"] for row in rows), default=1.0)
    height = 46 + 26 * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="760" height="{height}" fill="white"/>',
        f'<text x="250" y="22" font-weight="bold">{escape(of_latency)}</text>',
        f'<text x="520" y="22" font-weight="bold">{escape(of_kept)}</text>',
    ]
    for at, row in enumerate(rows):
        y = 36 + 26 * at
        colour = "#c2410c" if row["is_reef"] else "#78716c"
        parts.append(f'<text x="240" y="{y + 14}" text-anchor="end">{escape(row["name"])}</text>')
        parts += bar(250, y, row["p99"] / most, f"{row['p99']:.1f}", colour)
        if row["kept"] is not None:
            parts += bar(520, y, row["kept"] / 100, f"{row['kept']:.0f}", colour)
    return "\n".join([*parts, "</svg>\n"])


def bar(x, y, part, text, colour):
    width = 180 * min(max(part, 0), 1.1)
    return [
        f'<rect x="{x}" y="{y}" width="{width:.1f}" height="18" fill="{colour}"/>',
        f'<text x="{x + width + 5:.1f}" y="{y + 14}">{text}</text>',
    ]
