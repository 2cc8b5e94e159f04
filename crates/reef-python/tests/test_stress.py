"""Threads and asyncio together; `python stress.py 600` is the long form."""

import os
import random
import unittest

import stress


class Stress(unittest.TestCase):
    def test_no_request_is_lost_by_threads_and_asyncio(self):
        seconds = float(os.environ.get("REEF_TEST_STRESS", "20"))
        stress.main(seconds, random.randrange(1 << 20))


if __name__ == "__main__":
    unittest.main()
