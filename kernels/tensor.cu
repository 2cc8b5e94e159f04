// Kernels of operations on ordinary tensors (reef_core::tensor): one for each kind, and for each of the numbers that
// it computes with. Parameters are the guard and one struct. Whatever is long looks at the flag between its terms and
// writes at its end; `operators/tensor` in reef-gpu says what their plans hold.

#include "contract.h"
#include "fold.h"
#include "formula.h"
#include "indexed.h"
#include "movement.h"
#include "rows.h"

#define TENSOR(name, ...)                                                                                     \
    extern "C" __global__ void __launch_bounds__(tensor::THREADS) name(reef::Guard guard, tensor::Job job) { \
        REEF_CLAIM(block, guard);                                                                             \
        tensor::__VA_ARGS__(block, job);                                                                      \
    }

// One for each of the numbers. Unsigned integers are signed ones where they are only added and multiplied; singles are
// doubles where they are only compared.
#define SIGNED(name)                     \
    TENSOR(name##_f64, name<double>) \
    TENSOR(name##_i64, name<i64>)
#define NUMBERS(name)               \
    TENSOR(name##_f32, name<float>) \
    TENSOR(name##_u64, name<u64>)   \
    SIGNED(name)

NUMBERS(map)
NUMBERS(fold)
NUMBERS(scatter)
SIGNED(contract)
TENSOR(contract_f32, contract<float>)
TENSOR(contract_32x32, contract_tile<2>)
TENSOR(contract_64x64, contract_tile<4>)
SIGNED(scan)
TENSOR(scan_f32, scan<float>)
SIGNED(top)
TENSOR(top_u64, top<u64>)
TENSOR(move, move)
TENSOR(concat, concat)
TENSOR(gather, gather)
