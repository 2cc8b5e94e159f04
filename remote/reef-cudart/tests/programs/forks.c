// A process that has registered its code, and no more, forks: the child uses the device, and so
// does the parent after it.
#include "registered.h"
#include <sys/wait.h>
#include <unistd.h>

static void use(void) {
    uint64_t *memory, value = 1;
    CHECK(cudaMalloc((void **)&memory, 8));
    CHECK(cudaMemcpy(memory, &value, 8, TO_DEVICE));
    CHECK(launch(add, memory, 2, 0));
    CHECK(cudaMemcpy(&value, memory, 8, TO_HOST));
    EXPECT(3, value);
}

int main(void) {
    CHECK(__cudaPushCallConfiguration(ONE, ONE, 0, 0)); // no use of the device yet
    for (int child = 0; child < 2; child++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0) {
            use();
            _exit(0);
        }
        EXPECT(pid, waitpid(pid, &status, 0));
        CHECK(status);
    }
    use();
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        EXPECT(3, cudaDeviceSynchronize()); // its parent has used the device
        _exit(0);
    }
    EXPECT(pid, waitpid(pid, &status, 0));
    CHECK(status);
    puts("all as it must be");
    return 0;
}
