// Sizes and offsets of the vendor's structures, by its headers: those that this crate's sources have.
#include <cuda_runtime_api.h>
#include <stddef.h>

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #type "." #field)

SIZE(struct cudaDeviceProp, CUDART_VERSION < 13000 ? 1032 : 1008);
AT(struct cudaDeviceProp, uuid, 256);
AT(struct cudaDeviceProp, totalGlobalMem, 288);
SIZE(struct cudaFuncAttributes, 144);
AT(struct cudaFuncAttributes, maxThreadsPerBlock, 24);
AT(struct cudaFuncAttributes, preferredShmemCarveout, 48);
AT(struct cudaFuncAttributes, requiredClusterWidth, 56);
AT(struct cudaFuncAttributes, nonPortableClusterSizeAllowed, 72);
SIZE(struct cudaPointerAttributes, CUDART_VERSION < 13000 ? 24 : 88);
AT(struct cudaPointerAttributes, device, 4);
AT(struct cudaPointerAttributes, hostPointer, 16);
SIZE(cudaLaunchConfig_t, 56);
AT(cudaLaunchConfig_t, dynamicSmemBytes, 24);
AT(cudaLaunchConfig_t, numAttrs, 48);
SIZE(cudaLaunchAttribute, 72);
SIZE(struct cudaMemcpy3DParms, 160);
AT(struct cudaMemcpy3DParms, dstArray, 64);
AT(struct cudaMemcpy3DParms, extent, 128);
AT(struct cudaMemcpy3DParms, kind, 152);
SIZE(struct cudaKernelNodeParams, 56);
AT(struct cudaKernelNodeParams, kernelParams, 40);
SIZE(struct cudaMemsetParams, 40);
SIZE(struct cudaChannelFormatDesc, 20);
SIZE(struct cudaMemLocation, 8);
SIZE(dim3, 12);

#define FIELD(name, width, offset) AT(struct cudaDeviceProp, name, offset);
#include "fields.h"

int main(void) { return 0; }
