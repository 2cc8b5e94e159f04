"""Makes golden.json and the images next to it: what torchvision's transform gives, by PIL and numpy.

    python3 -m venv venv && venv/bin/pip install pillow numpy && venv/bin/python make.py

The rules are those of torchvision 0.2x, written out: transforms/_presets.py (ImageClassification: resize,
center_crop, pil_to_tensor, convert_image_dtype, normalize), transforms/functional.py
(_compute_resized_output_size, center_crop). PIL's BILINEAR is antialiased, as torchvision's default is.
"""

import json
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
# transform_input of torchvision's inception_v3, on top of IMAGENET, gives this.
HALF = ([0.5] * 3, [0.5] * 3)


def waves(width, height, seed):
    """Smooth colours with some noise, so that resizing has something to average."""
    y, x = np.mgrid[0:height, 0:width]
    rng = np.random.default_rng(seed)
    planes = [127 + 90 * np.sin(x / (3.0 + c) + c) * np.cos(y / (4.0 - c)) for c in range(3)]
    noise = rng.normal(0, 12, (height, width, 3))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def resized(width, height, size):
    """The shorter side becomes `size`; the longer one is cut to a whole number."""
    short, long = min(width, height), max(width, height)
    new = int(size * long / short)
    return (size, new) if width <= height else (new, size)


def transform(image, resize, crop):
    """Planes of bytes."""
    image = image.convert("RGB")
    if min(image.size) != resize:
        image = image.resize(resized(*image.size, resize), Image.BILINEAR)
    width, height = image.size
    top, left = int(round((height - crop) / 2.0)), int(round((width - crop) / 2.0))
    image = image.crop((left, top, left + crop, top + crop))
    return np.asarray(image).transpose(2, 0, 1)


def case(file, network, resize, size):
    """What a file becomes."""
    bytes_ = transform(Image.open(HERE / file), resize, size)
    mean, deviation = (np.array(v).reshape(3, 1, 1) for v in (HALF if "inception" in network else IMAGENET))
    planes = (bytes_ / 255.0 - mean) / deviation
    return {
        "file": file,
        "network": network,
        "size": size,
        "resize": resize,
        "bytes": bytes_.flatten().tolist(),
        "first": [round(float(v), 5) for v in planes[:, 0, 0]],
    }


def main():
    """Writes all files."""
    wide = waves(61, 40, 1)
    Image.fromarray(wide).save(HERE / "wide.png")
    Image.fromarray(waves(33, 70, 2)).save(HERE / "tall.png")
    Image.fromarray(wide[:, :, 0]).save(HERE / "grey.png")
    alpha = np.dstack([wide, np.tile(np.arange(61, dtype=np.uint8) * 4, (40, 1))])
    Image.fromarray(alpha).save(HERE / "alpha.png")
    Image.fromarray(waves(96, 64, 3)).save(HERE / "photo.jpg", quality=92, subsampling=0)
    cases = [
        case("wide.png", "resnet50", 18, 16),  # made smaller
        case("wide.png", "resnet50", 27, 24),  # an odd margin
        case("tall.png", "densenet121", 18, 16),
        case("tall.png", "resnet18", 42, 37),  # made larger
        case("wide.png", "resnet50", 40, 35),  # as large as it is
        case("grey.png", "resnet50", 18, 16),
        case("alpha.png", "resnet50", 18, 16),
        case("photo.jpg", "resnet50", 18, 16),
        case("tall.png", "inception_v3", 23, 20),
    ]
    (HERE / "golden.json").write_text(json.dumps(cases, separators=(",", ":")) + "\n")


main()
