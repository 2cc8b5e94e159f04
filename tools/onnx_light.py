"""Makes test data of the light networks in a wheel of onnx, as its own runner does: inputs 0/n, 1/n, 2/n and so on.

Arguments: the folder with light_*.onnx, and one for what is made."""

import shutil, struct, sys
from pathlib import Path

def varint(n):
    out = b""
    while n >= 0x80:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])

light, out = Path(sys.argv[1]), Path(sys.argv[2])
count = 3 * 224 * 224
raw = b"".join(struct.pack("<f", i / count) for i in range(count))
dims = b"".join(b"\x08" + varint(d) for d in (1, 3, 224, 224))
tensor = dims + b"\x10\x01" + b"\x4a" + varint(len(raw)) + raw
for model in sorted(light.glob("*.onnx")):
    data = out / model.stem / "test_data_set_0"
    data.mkdir(parents=True, exist_ok=True)
    shutil.copy(model, out / model.stem / "model.onnx")
    shutil.copy(light / f"{model.stem}_output_0.pb", data / "output_0.pb")
    (data / "input_0.pb").write_bytes(tensor)
