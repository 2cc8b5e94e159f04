// Memory, launches, variables, streams, events, captures: each result is compared.
#include "registered.h"

static void called(stream_t stream, int status, void *data) {
    (void)stream;
    *(int *)data = 40 + status;
}

int main(void) {
    int count = -1, device = -1, status = -1, reached = 0, version = 0;
    uint64_t *memory, value = 5, four[4] = {1, 2, 3, 4}, back[4] = {0};
    CHECK(cudaGetLastError());
    CHECK(cudaGetDeviceCount(&count));
    EXPECT(1, count);
    CHECK(cudaGetDevice(&device));
    EXPECT(0, device);
    CHECK(cudaRuntimeGetVersion(&version));
    EXPECT(RELEASE, version / 1000);

    // The driver's functions by name: of the release that the program was linked with.
    void *found = 0;
    CHECK(cudaGetDriverEntryPoint("cuMemAlloc", &found, 0, 0));
    EXPECT(1, found != 0);
    EXPECT(500, cudaGetDriverEntryPoint("cuNoSuchFunction", &found, 0, 0));
    EXPECT(500, cudaGetLastError());

    CHECK(cudaMalloc((void **)&memory, 64));
    CHECK(cudaMemset(memory, 0, 64));
    CHECK(cudaMemcpy(memory, &value, 8, TO_DEVICE));
    CHECK(launch(add, memory, 37, 0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&value, memory, 8, OPEN));
    EXPECT(42, value);

    // A launch as it is written: the innermost configuration is the first that is taken.
    dim3 grid, block;
    size_t shared;
    stream_t stream;
    CHECK(__cudaPushCallConfiguration((dim3){7, 1, 1}, ONE, 3, 0));
    CHECK(__cudaPushCallConfiguration((dim3){8, 1, 1}, ONE, 4, 0));
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(8, grid.x);
    EXPECT(4, shared);
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(7, grid.x);
    EXPECT(52, __cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    EXPECT(52, cudaGetLastError());

    CHECK(cudaMemcpyToSymbol(variable, four, sizeof four, 0, TO_DEVICE));
    CHECK(cudaMemcpyFromSymbol(back, variable, 16, 16, TO_HOST));
    EXPECT(3, back[0]);
    EXPECT(4, back[1]);
    EXPECT(1, cudaMemcpyFromSymbol(back, variable, 16, 24, TO_HOST)); // beyond its end
    EXPECT(21, cudaMemcpyToSymbol(variable, four, 8, 0, TO_HOST));
    EXPECT(13, cudaMemcpyToSymbol(four, four, 8, 0, TO_DEVICE)); // not registered
    EXPECT(13, cudaMemcpyToSymbol(&managed_or_not, four, 8, 0, TO_DEVICE)); // not in the image

    // Rows: the device's are apart, the host's are not.
    size_t pitch;
    char rows[3][8] = {"one", "two", "three"}, again[3][8] = {{0}};
    void *apart;
    CHECK(cudaMallocPitch(&apart, &pitch, 8, 3));
    CHECK(cudaMemcpy2D(apart, pitch, rows, 8, 8, 3, TO_DEVICE));
    CHECK(cudaMemcpy2D(again, 8, apart, pitch, 8, 3, TO_HOST));
    CHECK(memcmp(rows, again, sizeof rows));
    EXPECT(12, cudaMemcpy2D(again, 4, apart, pitch, 8, 3, TO_HOST));
    EXPECT(12, cudaGetLastError());
    CHECK(cudaFree(apart));

    // Slices beyond all addresses, and very many that have no bytes.
    size_t far = (size_t)1 << 40;
    EXPECT(1, cudaMemset3D((pitched){memory, far, 8, 1}, 0, (extent){8, 1, far}));
    EXPECT(1, cudaGetLastError());
    CHECK(cudaMemset3D((pitched){memory, 8, 8, 1}, 0, (extent){0, 1, (size_t)1 << 60}));
    slices copy = {.from_corner = {0, 0, far}, .from = {memory, far, 8, 1}, .to = {memory, 8, 8, 1}};
    copy.size = (extent){8, 1, 1};
    copy.kind = ON_DEVICE;
    EXPECT(1, cudaMemcpy3D(&copy));
    EXPECT(1, cudaGetLastError());

    CHECK(cudaStreamCreate(&stream));
    event_t begin, end;
    float millis = -1;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(begin, stream));
    CHECK(launch(add, memory, 1, stream));
    CHECK(cudaStreamAddCallback(stream, called, &reached, 0));
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&millis, begin, end));
    EXPECT(40, reached);
    EXPECT(1, millis >= 0);

    // A capture is launched twice.
    void *graph, *exec;
    CHECK(cudaStreamBeginCapture(stream, 0));
    CHECK(launch(add, memory, 100, stream));
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(1, status);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&value, memory, 8, TO_HOST));
    EXPECT(243, value);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(memory));
    CHECK(cudaFree(0));
    CHECK(cudaGetLastError());
    puts("all as it must be");
    return 0;
}
