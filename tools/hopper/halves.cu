#include "tiles.h"

Found fastest_of_wgmma_halves(const Work &work) { return fastest<hopper::F16>(work); }
