"""Figures of two programs that ran at once, from the times at which their steps ended.

All times are of CLOCK_MONOTONIC, in seconds, so that those of two processes are of one scale. The first program
sets the window: its first and last step that was measured. What the second did outside of it is not counted.
"""
import bisect
import statistics

WINDOW = 2.0  # seconds
STEPS = 1000  # a window has at least as many, if that takes longer
SLICE = 0.25  # seconds of the host's samples that are judged together
STEADY = 1.2  # a steady host's slowest slice, at most, as a multiple of that of the fastest quarter of all runs


def quantile(times, part):
    """Returns the nearest-rank quantile of times, which needn't be sorted."""
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * part))]


def lengths(ends):
    """Returns the milliseconds between steps that end one after the other."""
    return [(then - now) * 1e3 for now, then in zip(ends, ends[1:])]


def steps_until(ends, time):
    """Returns the number of steps at this time, with the part of the last one."""
    at = bisect.bisect_right(ends, time)
    if at == 0 or at == len(ends):
        return float(at)
    return at + (time - ends[at - 1]) / (ends[at] - ends[at - 1])


def rate(ends, begin, end):
    """Returns steps a second between two times."""
    return (steps_until(ends, end) - steps_until(ends, begin)) / (end - begin)


def standstill(ends, begin, end):
    """Returns the milliseconds of the longest time without an end of a step, within two times."""
    inside = [begin] + [one for one in ends if begin < one < end] + [end]
    return max(lengths(inside))


def windows(ends):
    """Cuts the ends of steps into windows of WINDOW seconds and STEPS steps, whichever is longer; drops the rest."""
    cut, first = [], 0
    for at, end in enumerate(ends):
        if end - ends[first] >= WINDOW and at - first >= STEPS:
            cut.append(ends[first:at + 1])
            first = at
    return cut


def late(ends, limit):
    """Returns the part of the steps that take longer than a limit in milliseconds."""
    took = lengths(ends)
    return sum(one > limit for one in took) / len(took)


def pooled(lengths, alone, target):
    """Returns the 99th percentile of steps as a multiple of that alone, and the late ones beyond those alone.

    All lengths are in milliseconds. A step is late if it is longer than `target` times the 99th percentile alone.
    Late ones are in percent of all steps.
    """
    p99 = quantile(alone, 0.99)
    share = lambda of: 100 * sum(one > target * p99 for one in of) / len(of)
    return quantile(lengths, 0.99) / p99, share(lengths) - share(alone)


class Pair:
    """Figures of a pair of programs next to each other, and of both alone.

    `first`, `second`: ends of their steps while both run; `alone`: of the first alone, `per_s`: rate of the second
    alone.
    """

    def __init__(self, first, second, alone, per_s):
        self.first, self.second, self.alone, self.per_s = first, second, alone, per_s

    def kept(self):
        """Returns the percentage of its speed alone that the second program has in the first one's window."""
        return 100 * rate(self.second, self.first[0], self.first[-1]) / self.per_s

    def standstill(self):
        """Returns the milliseconds of the second program's longest standstill in the first one's window."""
        return standstill(self.second, self.first[0], self.first[-1])

    def begin(self):
        """Returns the 99th percentile of the first second, as a multiple of that alone."""
        first = lengths([end for end in self.first if end <= self.first[0] + 1])
        return quantile(first, 0.99) / quantile(lengths(self.alone), 0.99) if first else float("nan")

    def met(self, target):
        """Returns how many windows meet a target, and how many windows there are.

        A window meets it if the part of its steps longer than `target` times the 99th percentile alone is at most
        that of the program alone and 1 %.
        """
        limit = target * quantile(lengths(self.alone), 0.99)
        most, cut = late(self.alone, limit) + 0.01, windows(self.first)
        return sum(late(one, limit) <= most for one in cut), len(cut)


def spread(values):
    """Returns the median of repetitions, the least and the greatest."""
    return statistics.median(values), min(values), max(values)


class Host:
    """Samples of host.py: when it woke up, by how many microseconds late, and for how many it worked."""

    def __init__(self, samples, begin, end):
        """Takes the samples between two times."""
        self.begin, self.samples = begin, [one for one in samples if begin <= one[0] < end]
        self.took = [wake + work for _, wake, work in self.samples]

    def p99(self):
        """Returns the 99th percentile of the microseconds from when it should wake up to the end of its work."""
        return quantile(self.took, 0.99) if self.took else float("nan")

    def slowest(self):
        """Returns the greatest median of a slice: that of the slowest spell. Fewer than five samples say nothing."""
        slices = {}
        for (woken, _, _), took in zip(self.samples, self.took):
            slices.setdefault(int((woken - self.begin) / SLICE), []).append(took)
        medians = [statistics.median(took) for took in slices.values() if len(took) >= 5]
        return max(medians, default=float("nan"))


def steady(slowest):
    """Returns for each run whether its host was steady, by the slowest slices of all runs.

    It knows neither the way of a run nor its result. A run of which nothing is known counts as steady.
    """
    known = [one for one in slowest if one == one]
    limit = STEADY * quantile(known, 0.25) if known else float("nan")
    return [not one > limit for one in slowest]
