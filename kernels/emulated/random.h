// Numbers by chance, the same in each run.

#pragma once

static uint64_t state = 1;
static u32 any(u32 low, u32 high) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return low + (u32)(state >> 33) % (high - low + 1);
}
static float number() { return ((float)any(0, 2000) - 1000) / 500; }
