// A machine without a driver.
#include "registered.h"

int cudaDriverGetVersion(int *);

int main(void) {
    int count = -1, version = -1;
    EXPECT(35, cudaGetDeviceCount(&count));
    EXPECT(0, count);
    EXPECT(35, cudaGetLastError());
    CHECK(cudaDriverGetVersion(&version));
    EXPECT(0, version);
    void *memory;
    EXPECT(35, cudaMalloc(&memory, 8));
    puts("all as it must be");
    return 0;
}
