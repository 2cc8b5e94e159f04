# What a limited PyTorch program gets: `memory` allocates until it is refused, `product` multiplies matrices, `copy` copies
# memory, 20 times before each wait. With $ALONE, what it made a second alone, it says how much of that it makes.
import os
import shutil
import subprocess
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


def product(side=2048):
    a = torch.randn(side, side, device="cuda", dtype=torch.float16)
    return lambda: a @ a


def copy(mib=128):
    a = torch.zeros(mib * MIB, device="cuda", dtype=torch.uint8)
    b = torch.empty_like(a)
    return lambda: b.copy_(a)


def batches(work, until):
    made = 0
    while time.time() < until:
        for _ in range(20):
            work()
        torch.cuda.synchronize()
        made += 20
    return made


def loop(work, seconds, begin):
    """Throughput in `seconds` from `begin` on, a time since 1970; it works before that, and a second longer."""
    batches(work, max(begin, time.time() + 0.5))
    rates, begin = [], time.time()
    clock = subprocess.Popen(SM_CLOCK, stdout=subprocess.PIPE, text=True) if shutil.which(SM_CLOCK[0]) else None
    for _ in range(10):
        since = time.time()
        rates.append(batches(work, since + seconds / 10) / (time.time() - since))
    ended = time.time()
    batches(work, ended + 1)
    rate, alone = sum(rates) / len(rates), float(os.environ.get("ALONE") or 0)
    part = f", {100 * rate / alone:.1f} % of alone" if alone else ""
    clock = f"; SM clock, power: {clock.communicate()[0].splitlines()[0]}" if clock else ""
    print(f"  {rate:.0f} a second{part}; tenths of the time {' '.join(f'{each:.0f}' for each in rates)}{clock}")


VISIBLE = os.environ.get("CUDA_VISIBLE_DEVICES")
SM_CLOCK = ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader", *([f"--id={VISIBLE}"] if VISIBLE else [])]
what = sys.argv[1] if len(sys.argv) > 1 else ""
if what == "memory":
    memory()
elif what in ("product", "copy"):
    loop({"product": product, "copy": copy}[what](), float(sys.argv[2]), float((sys.argv + ["0"])[3]))
else:
    sys.exit("limits.py memory | product SECONDS [BEGIN] | copy SECONDS [BEGIN]")
