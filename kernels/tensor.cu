// Kernels of operations on ordinary tensors (reef_core::tensor): one for each kind, and for each of the numbers that
// it computes with. Parameters are the guard and one struct. Whatever is long looks at the flag between its terms and
// writes at its end; `operators/tensor` in reef-gpu says what their plans hold.

#include "contract.h"
#include "formula.h"

#define TENSOR(name, ...)                                                                                     \
    extern "C" __global__ void __launch_bounds__(tensor::THREADS) name(reef::Guard guard, tensor::Job job) { \
        REEF_CLAIM(block, guard);                                                                             \
        tensor::__VA_ARGS__(block, job);                                                                      \
    }

TENSOR(map_f32, map<float>)
TENSOR(map_f64, map<double>)
TENSOR(map_i64, map<i64>)
TENSOR(map_u64, map<u64>)
TENSOR(contract_f32, contract<float>)
TENSOR(contract_f64, contract<double>)
TENSOR(contract_i64, contract<i64>)
TENSOR(contract_u64, contract<u64>)
TENSOR(contract_tile, contract_tile)
