// Sums over parts of a grid: each block writes what it has, and whoever comes last adds all of it up. Nobody waits.

#pragma once

#include "element.h"

// Four floats that another block wrote.
__device__ inline float4 load_shared(const float *from) {
#if REEF_AMD
    return load4(from); // `comes_last` has emptied the unit's cache
#else
    return __ldcg((const float4 *)from);
#endif
}

// One more has come here; how many had before. Orders what the block wrote, and what it reads next.
__device__ inline u32 arrive(u32 *arrivals) {
#if REEF_AMD
    return __hip_atomic_fetch_add(arrivals, 1, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
#else
    u32 before;
    asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;"
                 : "=r"(before)
                 : "l"(arrivals)
                 : "memory");
    return before;
#endif
}

// Whether this block is the last of its tile to come here. What the others wrote before is visible
// to `load_shared`.
__device__ inline bool comes_last(u32 *arrivals, u32 splits) {
    __shared__ bool last;
#if REEF_AMD
    // Each wave waits until its own stores are in the second-level cache; nobody can for another.
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 before = arrive(arrivals);
        last = before == splits - 1;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    return last;
}
