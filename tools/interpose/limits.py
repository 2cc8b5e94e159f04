# What a limited PyTorch program gets: `memory` allocates until it is refused, `loop SECONDS` multiplies matrices.
import sys
import time

try:
    import torch
except ImportError as error:
    print(f"  skipped: {error}")
    sys.exit(77)

MIB = 1 << 20


def memory():
    free, total = torch.cuda.mem_get_info()
    held, refused = [], ""
    for size in (256, 64, 16, 2):  # the rest goes to ever smaller pieces
        try:
            while True:
                held.append(torch.empty(size * MIB, dtype=torch.uint8, device="cuda"))
        except torch.cuda.OutOfMemoryError as error:
            refused = str(error).split(".")[0]
    got = sum(piece.numel() for piece in held)
    left = torch.cuda.mem_get_info()[0]
    print(f"  told of {total // MIB} MiB, {free // MIB} free; got {got // MIB}, reserved {torch.cuda.memory_reserved() // MIB}, left {left // MIB}: {refused}")
    held.clear()
    torch.cuda.empty_cache()
    try:
        again = torch.empty(max(got // MIB - 64, 2) * MIB, dtype=torch.uint8, device="cuda")
        print(f"  given back, and got {again.numel() // MIB} at once; {torch.cuda.mem_get_info()[0] // MIB} free")
    except torch.cuda.OutOfMemoryError:
        print("  given back, and others of the job have it now")


def loop(seconds):
    a = torch.randn(2048, 2048, device="cuda", dtype=torch.float16)
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
    tenths, begin = [], time.monotonic()
    while time.monotonic() - begin < seconds:
        until, made = time.monotonic() + seconds / 10, 0
        while time.monotonic() < until:
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()
            made += 20
        tenths.append(made / (seconds / 10))
    print(f"  {sum(tenths) / len(tenths):.0f} a second; tenths of the time {' '.join(f'{rate:.0f}' for rate in tenths)}")


what = sys.argv[1] if len(sys.argv) > 1 else ""
if what == "memory":
    memory()
elif what == "loop":
    loop(float(sys.argv[2]))
else:
    sys.exit("limits.py memory | loop SECONDS")
