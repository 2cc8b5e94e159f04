"""A job of several ranks: each step launches on the rank's device, then adds up a number of all ranks. train.py FOLDER STEPS"""

import os
import sys

import program
import torch
import torch.distributed

folder, steps = sys.argv[1], int(sys.argv[2])
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
driver = program.Driver(int(os.environ["LOCAL_RANK"]))
driver.launch()
program.report(f"{folder}/held-{rank}")
torch.distributed.init_process_group("gloo")
total = 0
for step in range(steps):
    driver.launch()
    number = torch.tensor([rank + step])
    torch.distributed.all_reduce(number)
    total += int(number)
    with open(f"{folder}/step-{rank}.new", "w") as file:
        file.write(f"{step} {total}")
    os.replace(file.name, f"{folder}/step-{rank}")
program.until(lambda: os.path.exists(f"{folder}/end"), 120)
torch.distributed.destroy_process_group()
print(f"rank {rank} of {size}: {steps} steps, {total}", flush=True)
