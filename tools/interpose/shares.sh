#!/bin/bash
# Shares of a GPU's time by sorts of work, names by which programs open the driver, and the memory that tools show.
# tools/interpose/shares.sh BIN: BIN has reef, libreef_cuda_shim.so and libreef_nvml_shim.so. Takes about 2.5 minutes on a GPU with nvcc.
set -u
bin=$(realpath "${1:-target/release}")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export REEF_SHIM=$bin/libreef_cuda_shim.so REEF_NVML_SHIM=$bin/libreef_nvml_shim.so REEF_ACCOUNTS=$work/accounts
reef() { "$bin/reef" "$@"; }
nvcc -O2 -o "$work/shares" "$here/programs/shares.cu" || exit 1
rate() { sed -n 's/^[a-z]* \([0-9.]*\) steps.*/\1/p'; }

echo "== shares: had, in % of the steps without a limit"
declare -A whole
for sort in graphs long short; do whole[$sort]=$("$work/shares" $sort 2 | rate); done
whole[seconds]=$("$work/shares" seconds 2 | rate)
for part in 10 30 60; do
    line="$part %:"
    for sort in graphs long short; do
        got=$(reef exec --compute $part% -- "$work/shares" $sort 5 2>"$work/err" | rate) || cat "$work/err"
        line+=" $sort $(awk "BEGIN { printf \"%.1f\", 100 * ${got:-0} / ${whole[$sort]} }")"
    done
    echo "$line"
done
for part in 10 30 60; do
    got=$(reef exec --compute $part% -- "$work/shares" seconds 9 2>"$work/err" | rate)
    echo "$part %: kernels of 300 ms $(awk "BEGIN { printf \"%.1f\", 100 * ${got:-0} / ${whole[seconds]} }")"
done

echo "== names of the driver under --memory 4GiB: 4096 MiB wanted"
driver=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.*=> //p' | head -1)
mkdir "$work/names"; ln -s "$(realpath "$driver")" "$work/names/libcuda.so"
cat >"$work/opens.py" <<'PYTHON'
import ctypes, sys
cuda, bytes_ = ctypes.CDLL(sys.argv[1]), ctypes.c_size_t()
code = cuda.cuInit(0) or cuda.cuDeviceTotalMem_v2(ctypes.byref(bytes_), 0)
print(f"{sys.argv[1]}: {bytes_.value >> 20} MiB, code {code}")
PYTHON
for bind in auto never; do
    for name in libcuda.so.1 libcuda.so "$driver" "$(realpath "$driver")"; do
        echo "--bind $bind: $(LD_LIBRARY_PATH=$work/names reef exec --memory 4GiB --bind $bind --explain -- python3 "$work/opens.py" "$name" 2>"$work/err")"
    done
    grep -h "mounted" "$work/err"
done
echo "without LD_PRELOAD: $(reef exec --memory 4GiB -- sh -c "unset LD_PRELOAD LD_LIBRARY_PATH; python3 $work/opens.py $driver" 2>&1)"

echo "== memory that tools show under --memory 8GiB: 8192 MiB wanted, and the device's with --nvml device"
for view in limit device; do
    reef exec --memory 8GiB --nvml $view -- nvidia-smi --query-gpu=memory.total,memory.used --format=csv,noheader 2>&1 | head -2
done
python3 -c "import torch" 2>/dev/null && reef exec --memory 8GiB -- python3 -c "
import torch
keep = torch.ones(2**28, device='cuda')
free, total = torch.cuda.mem_get_info()
print('mem_get_info', free >> 20, total >> 20, 'properties', torch.cuda.get_device_properties(0).total_memory >> 20)"

echo "== the clock: products of PyTorch, whose power lowers the clock at full load"
cat >"$work/products.py" <<'PYTHON'
import subprocess, sys, threading, time, torch
a = torch.randn(12288, 12288, device="cuda", dtype=torch.float16)
clocks, over = [], threading.Event()
def watch():
    while not over.wait(0.2):
        got = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits"], capture_output=True, text=True)
        clocks.append([float(it) for it in got.stdout.splitlines()[0].split(",")])
for _ in range(5): torch.mm(a, a)
torch.cuda.synchronize(); thread = threading.Thread(target=watch); thread.start()
begin, count = time.monotonic(), 0
while time.monotonic() - begin < 4:
    for _ in range(4): torch.mm(a, a)
    torch.cuda.synchronize(); count += 4
rate = count / (time.monotonic() - begin); over.set(); thread.join()
mean = [sum(it[at] for it in clocks) / max(1, len(clocks)) for at in (0, 1)]
print(f"{sys.argv[1]}: {rate:.1f} products a second, clock {mean[0]:.0f} MHz, {mean[1]:.0f} W")
PYTHON
if python3 -c "import torch" 2>/dev/null; then
    python3 "$work/products.py" whole
    for part in 30 60; do reef exec --compute $part% -- python3 "$work/products.py" "$part %" 2>&1 | tail -1; done
fi
