// What nvcc would write: declarations of the runtime, and objects that register themselves. The
// declarations are facts of `cuda_runtime_api.h` and `crt/host_runtime.h`.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned x, y, z; } dim3;
typedef void *stream_t;
typedef void *event_t;
enum { TO_DEVICE = 1, TO_HOST = 2, ON_DEVICE = 3, OPEN = 4 };

void **__cudaRegisterFatBinary(void *);
void __cudaRegisterFatBinaryEnd(void **);
void __cudaUnregisterFatBinary(void **);
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void *);
int __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
int cudaGetDeviceCount(int *);
int cudaGetDevice(int *);
int cudaSetDevice(int);
int cudaDeviceSynchronize(void);
int cudaMalloc(void **, size_t);
int cudaFree(void *);
int cudaMemcpy(void *, const void *, size_t, int);
int cudaMemcpyAsync(void *, const void *, size_t, int, stream_t);
int cudaMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
int cudaMallocPitch(void **, size_t *, size_t, size_t);
int cudaMemset(void *, int, size_t);
typedef struct { void *at; size_t pitch, width, height; } pitched;
typedef struct { size_t width, height, depth; } extent;
typedef struct {
    void *from_array;
    size_t from_corner[3];
    pitched from;
    void *to_array;
    size_t to_corner[3];
    pitched to;
    extent size;
    int kind;
} slices;
int cudaMemset3D(pitched, int, extent);
int cudaMemcpy3D(const slices *);
int cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
int cudaMemcpyFromSymbol(void *, const void *, size_t, size_t, int);
int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, stream_t);
int cudaGetLastError(void);
int cudaPeekAtLastError(void);
const char *cudaGetErrorName(int);
int cudaStreamCreate(stream_t *);
int cudaStreamDestroy(stream_t);
int cudaStreamSynchronize(stream_t);
int cudaStreamBeginCapture(stream_t, int);
int cudaStreamEndCapture(stream_t, void **);
int cudaStreamIsCapturing(stream_t, int *);
int cudaStreamAddCallback(stream_t, void (*)(stream_t, int, void *), void *, unsigned);
int cudaGraphInstantiateWithFlags(void **, void *, unsigned long long);
int cudaGraphLaunch(void *, stream_t);
int cudaGraphDestroy(void *);
int cudaGraphExecDestroy(void *);
int cudaEventCreate(event_t *);
int cudaEventRecord(event_t, stream_t);
int cudaEventSynchronize(event_t);
int cudaEventElapsedTime(float *, event_t, event_t);
int cudaRuntimeGetVersion(int *);
int cudaGetDriverEntryPoint(const char *, void **, unsigned long long, int *);
int cudaCreateTextureObject(void *, const void *, const void *, const void *);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);

#define CHECK(call) expect(__LINE__, #call, (call), 0)
#define EXPECT(code, call) expect(__LINE__, #call, (call), (code))

static void expect(int line, const char *call, long long got, long long wanted) {
    if (got == wanted) return;
    fprintf(stderr, "line %d: %s: %lld, must be %lld\n", line, call, got, wanted);
    exit(1);
}

// A fat binary without anything in it: the driver of the tests knows its kernels by their names.
static const struct { uint32_t magic; uint16_t version, header; uint64_t bytes; }
    image = {0xBA55ED50u, 1, 16, 0};
static const struct { int magic, version; const void *data; void *file; }
    wrapper = {0x466243b1, 1, &image, 0};
static void **module;
static uint64_t variable[4];
static uint64_t managed_or_not;

// The host's functions that stand for kernels.
static void add(uint64_t *to, uint64_t value) { (void)to; (void)value; }
static void mix(uint64_t *to, uint64_t value) { (void)to; (void)value; abort(); }
static void no_such(void) { exit(77); }
static void unregistered(void) { exit(78); }

static void leave(void) { __cudaUnregisterFatBinary(module); }

__attribute__((constructor)) static void enter(void) {
    module = __cudaRegisterFatBinary((void *)&wrapper);
    __cudaRegisterFunction(module, (const char *)add, "add", "add", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(module, (const char *)mix, "mix", "mix", -1, 0, 0, 0, 0, 0);
    __cudaRegisterFunction(module, (const char *)no_such, "no_such", "no_such", -1, 0, 0, 0, 0, 0);
    __cudaRegisterVar(module, (char *)variable, "variable", "variable", 0, sizeof variable, 0, 0);
    __cudaRegisterVar(module, (char *)&managed_or_not, "missing", "missing", 0, 8, 0, 0);
    __cudaRegisterFatBinaryEnd(module);
    atexit(leave);
}

static const dim3 ONE = {1, 1, 1};

static int launch(const void *function, void *to, uint64_t value, stream_t stream) {
    void *params[] = {&to, &value};
    return cudaLaunchKernel(function, ONE, ONE, params, 0, stream);
}
