"""The programs that compare.py runs in its test: compare_stub.py serve|train. Each uses the driver as it is."""

import sys
import time

import program

driver = program.Driver()
driver.launch()
print("ready", flush=True)
if sys.argv[1] == "serve":
    while True:
        time.sleep(0.02)
        begin = time.monotonic()
        driver.launch()
        print(f"request {begin:.6f} {time.monotonic() - begin:.6f}", flush=True)
count = 0
while True:
    print(f"step {count} {time.monotonic():.6f}", flush=True)
    for _ in range(4):
        driver.launch()
    count += 4
