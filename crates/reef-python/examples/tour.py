# %% [markdown]
# # Two classes of work on one device
#
# A notebook as a script: `jupytext --to notebook tour.py`, or run it as it is. A best-effort client keeps the device busy, and
# a real-time client's requests start all the same.

# %%
import time

import numpy as np
import reef

device = reef.open("cpu")  # or "auto", for a GPU
net = device.load("resnet18", batch=1, input_size=64)
images = np.random.default_rng(1).random((8, 1, 3, 64, 64), dtype=np.float32)
print(device, net.inputs, sep="\n")

# %% [markdown]
# ## Alone
#
# The first request prepares some things, so it is not measured.

# %%
rt = device.real_time()
expected = [rt.run(net, image) for image in images]


def median(requests):
    return 1e3 * float(np.median([request.timing.total for request in requests]))


def ask():
    requests = []
    for image in images:
        request = rt.submit(net, image)
        request.result()
        requests.append(request)
    return median(requests)


alone = ask()

# %% [markdown]
# ## Next to best-effort work
#
# Four jobs are always on their way. Real-time requests preempt them.

# %%
be = device.best_effort()
jobs = [(index, be.submit(net, images[index])) for index in range(4)]
colocated = ask()
until = time.monotonic() + 10
finished = 0
while finished < 8 and time.monotonic() < until:
    index, job = jobs.pop(0)
    assert np.array_equal(job.result(), expected[index]), "a preempted job lost nothing"
    finished += 1
    following = finished % len(images)
    jobs.append((following, be.submit(net, images[following])))
print(f"real-time request: {alone:.2f} ms alone, {colocated:.2f} ms next to best-effort work")
print(f"{finished} jobs, {device.stats().preemptions} preemptions")

# %%
device.close()
