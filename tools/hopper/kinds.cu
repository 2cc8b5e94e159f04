#include "tiles.h"

Found fastest_of_wgmma_halves(const Work &work) { return fastest<hopper::F16>(work); }
Found fastest_of_wgmma_singles(const Work &work) { return fastest<hopper::Tf32>(work); }
