"""The picture for tools/ocr.sh, and the comparison of what the example's networks made of it.

    ocr.py picture FILE.png       draws four lines of text, one of them upside down
    ocr.py compare FOLDER REEF    FOLDER as tools/ocr.sh fills it
"""

import json
import pathlib
import subprocess
import sys

import numpy

LINES = ["Real-time kernels start within microseconds.", "Invoice 2026-11-22: 1,234.56 EUR", "best-effort work loses nothing"]
TURNED = "THIS LINE IS UPSIDE DOWN"
TOLERANCE = 1e-3


def picture(file):
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=32)
    image = Image.new("RGB", (800, 320), "white")
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(LINES):
        draw.text((40, 24 + 72 * row), line, "black", font)
    line = Image.new("RGB", (520, 48), "white")
    ImageDraw.Draw(line).text((4, 4), TURNED, "navy", font)
    image.paste(line.rotate(180), (40, 24 + 72 * len(LINES)))
    image.save(file)


def off(have, want):
    return float(numpy.abs(have - want).max() / numpy.abs(want).max())


def preempted(reef, model, given, want, folder):
    """Preemptions of the same inference by the command; its outputs must have the example's bits."""
    command = [reef, "run", model, f"x={given}", "--out", folder, "--preempt", "--json"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    made = numpy.load(said["outputs"][0]["file"])
    return said["preemptions"], made.tobytes() == want.tobytes()


def compare(folder, reef):
    import onnxruntime

    wrong = []
    for given in sorted((folder / "out").glob("*.x.npy")):
        name = given.name.split(".onnx")[0]
        model = folder / "rapidocr_onnxruntime" / "models" / f"{name}.onnx"
        have = numpy.load(given.with_name(given.name.replace(".x.npy", ".y.npy")))
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        array = numpy.load(given)
        [want] = session.run(None, {"x": array})
        error = off(have, want)
        count, same = preempted(reef, model, given, have, folder / "again")
        print(f"{given.name.removesuffix('.x.npy')} {list(array.shape)}: off by {error:.1e}; "
              f"{count} preemptions, {'the same bits' if same else 'OTHER BITS'}")
        if not (error <= TOLERANCE and same):
            wrong.append(given.name)
    read = (folder / "read.txt").read_text()
    wrong += [line for line in [*LINES, TURNED] if line.replace(" ", "") not in read.replace(" ", "")]
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")
    print("all lines were read, and no network differs")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["picture", file]:
            picture(file)
        case ["compare", folder, reef]:
            compare(pathlib.Path(folder), reef)
        case _:
            sys.exit(__doc__)
