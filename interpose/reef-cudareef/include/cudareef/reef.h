// The name under which programs of REEF's CUDA port include it.
#include "../cudareef.h"
