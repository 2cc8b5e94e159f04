// Preemption of CUDA streams by the four functions of REEF's CUDA port, on an unmodified driver: C++, and no CUDA headers.
//
// Names, values, defaults and results are those of the port, so that its programs compile as they are; they include this
// as "reef.h" from include/cudareef. What differs in effect: docs/cudareef.md. Any thread may call any of these.

#ifndef CUDAREEF_H
#define CUDAREEF_H

#include <cstddef>
#include <cstdint>

typedef struct CUstream_st *CUstream; // as cuda.h has it; a cudaStream_t is one

namespace reef {

enum RFresult {
    REEF_SUCCESS = 0,
    REEF_ERROR_INVALID_VALUE = 1, // null, a default stream, one that is captured, or what the driver refused
    REEF_ERROR_NOT_FOUND = 2,     // preemption isn't enabled
    REEF_ERROR_ALREADY_EXIST = 3, // preemption is enabled already
};

enum PreemptLevel {
    PreemptHostQueue = 0,
    PreemptDeviceQueue = 1, // taken for PreemptHostQueue: see reefPreemptLevel
    PreemptAll = 2,         // REEF_ERROR_INVALID_VALUE
};

// Sizes and times of the port's queues. This library has none: it looks at the level alone.
struct RFconfig {
    std::size_t queueSize;
    std::size_t batchSize;
    std::int32_t taskTimeout; // microseconds; negative: none
    PreemptLevel preemptLevel;
};

static const RFconfig defaultConfig = {
    64,
    16,
#ifdef NO_SCHED
    -1,
#else
    500,
#endif
#ifdef DEFAULT_PREEMPT_LEVEL_HOST_QUEUE
    PreemptHostQueue,
#else
    PreemptDeviceQueue,
#endif
};

extern "C" {

// Has to come first, with the stream's context current. Waits until all that the stream has has ended. Enable streams
// before one is preempted: the first ones make the driver wait for the device.
RFresult enablePreemption(CUstream stream, RFconfig config = defaultConfig);

// Restores the stream and forgets it. Has to come before the stream is destroyed where the driver is older than 12.0.
RFresult disablePreemption(CUstream stream);

// What is submitted from now on waits, in order, until restore. `synchronize`: returns when all that was submitted before
// has ended. A stream that is preempted stays so.
RFresult preempt(CUstream stream, bool synchronize = false);

// What waits goes on. A stream that isn't preempted goes on as it was.
RFresult restore(CUstream stream);

// Not in the port. What went wrong in this thread's last call that failed, in one line; "" if none did.
const char *reefPreemptError(void);

// Not in the port. The level that an enabled stream has in truth: PreemptHostQueue.
RFresult reefPreemptLevel(CUstream stream, PreemptLevel *level);

} // extern "C"

} // namespace reef

#endif // CUDAREEF_H
