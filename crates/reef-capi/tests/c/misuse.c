// Misuses of the library and their errors: each line is one mistake.

#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <reef.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

#define WANT(status, call)                                                                                             \
    do {                                                                                                               \
        reef_status got = (call);                                                                                      \
        if (got != (status)) {                                                                                         \
            printf("line %d: %s: %s (%s), not %s\n", __LINE__, #call, reef_status_name(got), reef_error_message(),     \
                   #status);                                                                                           \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

#define SAYS(words)                                                                                                    \
    do {                                                                                                               \
        if (!strstr(reef_error_message(), words)) {                                                                    \
            printf("line %d: \"%s\" says nothing of \"%s\"\n", __LINE__, reef_error_message(), words);                 \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

#define UNTOUCHED ((void *)(uintptr_t)0x77)

static const char *scales; // a file for resnet18
static reef_device *device;
static reef_network *network;
static reef_dispatcher *dispatcher;
static reef_client *rt, *be;

static void names(void) {
    reef_device *none = UNTOUCHED;
    WANT(REEF_INVALID, reef_device_open(NULL, &none));
    WANT(REEF_INVALID, reef_device_open("cpu", NULL));
    WANT(REEF_INVALID, reef_device_open("cpu:x", &none));
    WANT(REEF_INVALID, reef_device_open("\xff", &none));
    SAYS("UTF-8");
    WANT(REEF_NOT_FOUND, reef_device_open("tpu", &none));
    SAYS("no backend \"tpu\"");
    reef_network *no_network = UNTOUCHED;
    WANT(REEF_NOT_FOUND, reef_network_load(device, "lenet", NULL, &no_network));
    WANT(REEF_FILE, reef_network_load(device, "/nowhere/a.onnx", NULL, &no_network));
    reef_network_options options = {.struct_size = sizeof options};
    options.weights = "/nowhere/a.safetensors";
    WANT(REEF_FILE, reef_network_load(device, "resnet18", &options, &no_network));
    options.weights = NULL;
    options.scales = "/nowhere/a.json";
    WANT(REEF_FILE, reef_network_load(device, "resnet18", &options, &no_network));
    SAYS("/nowhere/a.json");
    options.scales = scales;
    options.input_size = 32;
    WANT(REEF_UNSUPPORTED, reef_network_load(device, "resnet18", &options, &no_network));
    SAYS("resnet18 in int8: ");
    options.struct_size = offsetof(reef_network_options, scales); // a program of the first version
    reef_network *old;
    WANT(REEF_OK, reef_network_load(device, "resnet18", &options, &old));
    WANT(REEF_OK, reef_network_free(old));
    options.struct_size++; // half of a member
    WANT(REEF_INVALID, reef_network_load(device, "resnet18", &options, &no_network));
    options.struct_size -= 9;
    WANT(REEF_INVALID, reef_network_load(device, "resnet18", &options, &no_network));
    reef_dispatcher *no_dispatcher = UNTOUCHED;
    WANT(REEF_NOT_FOUND, reef_dispatcher_start(device, "reaf", &no_dispatcher));
    SAYS("have: ");
    if (none != UNTOUCHED || no_network != UNTOUCHED || no_dispatcher != UNTOUCHED)
        failures++, puts("a call that failed gave something");
}

static void handles(void) {
    reef_network_info info = {.struct_size = sizeof info};
    WANT(REEF_HANDLE, reef_network_get_info(NULL, &info));
    SAYS("null");
    WANT(REEF_HANDLE, reef_network_get_info((reef_network *)device, &info));
    SAYS("it is a device");
    WANT(REEF_HANDLE, reef_network_get_info((reef_network *)&info, &info));
    WANT(REEF_HANDLE, reef_client_free((reef_client *)network));
    reef_network *twice;
    WANT(REEF_OK, reef_network_new_instance(network, &twice));
    WANT(REEF_OK, reef_network_free(twice));
    WANT(REEF_HANDLE, reef_network_free(twice));
    SAYS("freed");
    WANT(REEF_HANDLE, reef_network_get_info(twice, &info));
    reef_request *request;
    WANT(REEF_HANDLE, reef_client_submit(rt, twice, -1, &request));
    WANT(REEF_OK, reef_network_free(NULL));
}

static void sizes(void) {
    reef_network_info info = {0};
    WANT(REEF_INVALID, reef_network_get_info(network, &info));
    SAYS("struct_size must be");
    WANT(REEF_INVALID, reef_network_get_info(network, NULL));
    info.struct_size = sizeof info;
    WANT(REEF_OK, reef_network_get_info(network, &info));
    float few[3] = {0};
    WANT(REEF_INVALID, reef_network_write_input(network, few, 3));
    SAYS("values, got 3");
    WANT(REEF_INVALID, reef_network_write_input(network, NULL, info.inputs));
    WANT(REEF_INVALID, reef_network_read_output(network, few, SIZE_MAX));

    struct {
        reef_client_options known;
        uint32_t later[2];
    } options = {.known = {.struct_size = sizeof options}};
    reef_client *client;
    WANT(REEF_OK, reef_client_open(dispatcher, REEF_REAL_TIME, &options.known, &client));
    WANT(REEF_OK, reef_client_free(client));
    options.later[1] = 1;
    WANT(REEF_UNSUPPORTED, reef_client_open(dispatcher, REEF_REAL_TIME, &options.known, &client));
    options.known.struct_size = sizeof options.known;
    options.known.capacity = 3;
    WANT(REEF_INVALID, reef_client_open(dispatcher, REEF_BEST_EFFORT, &options.known, &client));
    SAYS("power of two");
    WANT(REEF_INVALID, reef_client_open(dispatcher, 7, NULL, &client));
    char name[4];
    size_t needed = 0;
    WANT(REEF_OK, reef_device_get_name(device, name, sizeof name, &needed));
    if (strlen(name) != 3 || needed < 5)
        failures++, puts("a name that is cut");
}

static void counters(void) {
    reef_stats stats = {.struct_size = offsetof(reef_stats, abandoned), .abandoned = 7};
    WANT(REEF_OK, reef_dispatcher_get_stats(dispatcher, &stats));
    if (stats.abandoned != 7)
        failures++, puts("counters beyond the first version's structure");
    stats.struct_size = sizeof stats;
    WANT(REEF_OK, reef_dispatcher_get_stats(dispatcher, &stats));
    if (stats.abandoned != 0)
        failures++, puts("abandoned clients without a hung kernel");
}

static void order(void) {
    reef_request *request, *second;
    reef_timing timing = {.struct_size = sizeof timing};
    float *input = calloc(3 * 32 * 32, sizeof *input), output[1000];
    WANT(REEF_OK, reef_network_write_input(network, input, 3 * 32 * 32));

    reef_client_options small = {.struct_size = sizeof small, .window = 1};
    small.capacity = 8; // a power of two, and fewer commands than the network has
    reef_client *narrow;
    WANT(REEF_INVALID, (reef_client_open(dispatcher, REEF_BEST_EFFORT, &small, &narrow),
                        reef_client_submit(narrow, network, -1, &request)));
    SAYS("capacity is 8");
    WANT(REEF_OK, reef_client_free(narrow));

    WANT(REEF_OK, reef_client_submit(be, network, -1, &request));
    WANT(REEF_UNSUPPORTED, reef_request_cancel(request, NULL));
    WANT(REEF_OK, reef_request_wait(request, 60000000));
    WANT(REEF_OK, reef_request_get_timing(request, &timing));
    if (timing.delay_ns != REEF_UNKNOWN || timing.total_ns == 0)
        failures++, puts("times of a best-effort request");
    WANT(REEF_OK, reef_request_free(request));

    WANT(REEF_OK, reef_client_submit(rt, network, -1, &request));
    reef_status now = reef_client_submit(rt, network, -1, &second);
    if (now == REEF_OK) // the first one had ended
        WANT(REEF_OK, (reef_request_wait(second, 60000000), reef_request_free(second)));
    else
        WANT(REEF_BUSY, now);
    WANT(REEF_OK, reef_request_wait(request, 60000000));
    int32_t cancelled = 7;
    WANT(REEF_OK, reef_request_cancel(request, &cancelled));
    if (cancelled != 0)
        failures++, puts("a request that had ended was cancelled");
    WANT(REEF_OK, reef_request_free(request));
    WANT(REEF_OK, reef_network_read_output(network, output, 1000));
    free(input);
}

// Frees one handle many times at once: one thread succeeds.
static void *free_network(void *handle) { return reef_network_free(handle) == REEF_OK ? handle : NULL; }

static void *run(void *own) {
    float *input = calloc(3 * 32 * 32, sizeof *input), output[1000];
    for (int i = 0; i < 4; i++)
        WANT(REEF_OK, reef_client_run(i % 2 ? rt : be, own, input, 3 * 32 * 32, output, 1000, 60000000));
    free(input);
    return NULL;
}

static void threads(void) {
    enum { COUNT = 4 };
    pthread_t thread[COUNT];
    reef_network *own[COUNT];
    for (int i = 0; i < COUNT; i++) {
        WANT(REEF_OK, reef_network_new_instance(network, &own[i]));
        if (pthread_create(&thread[i], NULL, run, own[i]))
            exit(1);
    }
    for (int i = 0; i < COUNT; i++) {
        pthread_join(thread[i], NULL);
        if (i)
            WANT(REEF_OK, reef_network_free(own[i]));
    }
    int freed = 0;
    for (int i = 0; i < COUNT; i++)
        if (pthread_create(&thread[i], NULL, free_network, own[0]))
            exit(1);
    for (int i = 0; i < COUNT; i++) {
        void *how;
        pthread_join(thread[i], &how);
        freed += how != NULL;
    }
    if (freed != 1)
        failures++, printf("freed %d times\n", freed);
}

// Inference of one network by several threads: each one gets the outputs of its own input.
struct inference {
    reef_client *client;
    float input[3 * 32 * 32], want[1000];
};

static void *infer(void *own) {
    struct inference *inference = own;
    float output[1000];
    for (int i = 0; i < 20; i++) {
        WANT(REEF_OK, reef_client_run(inference->client, network, inference->input, 3 * 32 * 32, output, 1000, -1));
        if (memcmp(output, inference->want, sizeof output))
            failures++, printf("round %d: outputs of another thread's input\n", i);
    }
    return NULL;
}

static void shared(void) {
    enum { COUNT = 4 };
    pthread_t thread[COUNT];
    struct inference *own = calloc(COUNT, sizeof *own);
    for (int i = 0; i < COUNT; i++) {
        own[i].client = i % 2 ? rt : be;
        for (int k = 0; k < 3 * 32 * 32; k++)
            own[i].input[k] = (float)(k % (7 + i)) - .3f * i;
        WANT(REEF_OK, reef_client_run(own[i].client, network, own[i].input, 3 * 32 * 32, own[i].want, 1000, -1));
        for (int k = 0; k < i; k++)
            if (!memcmp(own[i].want, own[k].want, sizeof own[i].want))
                failures++, printf("the outputs of inputs %d and %d don't differ\n", i, k);
    }
    for (int i = 0; i < COUNT; i++)
        if (pthread_create(&thread[i], NULL, infer, &own[i]))
            exit(1);
    for (int i = 0; i < COUNT; i++)
        pthread_join(thread[i], NULL);
    free(own);
}

static void *wait_for(void *request) {
    WANT(REEF_CANCELLED, reef_request_wait(request, 60000000));
    return NULL;
}

// Best-effort requests that never run, because the scheduler lets none.
static void waits(void) {
    reef_dispatcher *rt_only;
    reef_client *client;
    reef_client_options options = {.struct_size = sizeof options, .capacity = 32};
    reef_network *second;
    reef_request *request, *none = UNTOUCHED;
    float *input = calloc(3 * 32 * 32, sizeof *input), output[1000];
    WANT(REEF_OK, reef_dispatcher_start(device, "rt-only", &rt_only));
    WANT(REEF_OK, reef_client_open(rt_only, REEF_BEST_EFFORT, &options, &client));
    WANT(REEF_OK, reef_network_new_instance(network, &second));
    WANT(REEF_OK, reef_client_submit(client, network, -1, &request));
    WANT(REEF_TIMEOUT, reef_request_wait(request, 0));
    WANT(REEF_TIMEOUT, reef_request_wait(request, 3000));
    SAYS("3000");
    WANT(REEF_BUSY, reef_network_write_input(network, input, 3 * 32 * 32));
    WANT(REEF_BUSY, reef_network_read_output(network, output, 1000));
    WANT(REEF_BUSY, reef_client_submit(client, network, -1, &none));
    SAYS("has not ended");
    WANT(REEF_BUSY, reef_client_submit(client, second, -1, &none));
    SAYS("queue is full");
    WANT(REEF_BUSY, reef_request_get_timing(request, &(reef_timing){.struct_size = sizeof(reef_timing)}));
    if (none != UNTOUCHED)
        failures++, puts("a submission that failed gave something");

    pthread_t thread[3];
    for (int i = 0; i < 3; i++)
        if (pthread_create(&thread[i], NULL, wait_for, request))
            exit(1);
    WANT(REEF_OK, reef_client_free(client));
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    WANT(REEF_CANCELLED, reef_request_get_timing(request, &(reef_timing){.struct_size = sizeof(reef_timing)}));
    WANT(REEF_OK, reef_network_write_input(network, input, 3 * 32 * 32));
    WANT(REEF_OK, reef_request_free(request));
    WANT(REEF_HANDLE, reef_request_wait(request, 0));
    WANT(REEF_OK, reef_network_free(second));
    WANT(REEF_OK, reef_dispatcher_free(rt_only));
    free(input);
}

// A forked child, which has no threads of the library: what its parent opened is refused there.
static void forked(void) {
    float *input = calloc(3 * 32 * 32, sizeof *input), output[1000];
    reef_network_info info = {.struct_size = sizeof info};
    int how = -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        WANT(REEF_HANDLE, reef_client_run(rt, network, input, 3 * 32 * 32, output, 1000, 1000000));
        SAYS("is a fork");
        WANT(REEF_HANDLE, reef_network_get_info(network, &info));
        WANT(REEF_HANDLE, reef_device_free(device));
        fflush(stdout);
        _exit(failures);
    }
    if (child < 0 || waitpid(child, &how, 0) != child || how != 0)
        failures++, printf("a forked child: %d\n", how);
    WANT(REEF_OK, reef_client_run(rt, network, input, 3 * 32 * 32, output, 1000, 60000000));
    free(input);
}

// A dispatcher that goes while others still hold its clients.
static void gone(void) {
    float output[1000] = {0};
    float *input = calloc(3 * 32 * 32, sizeof *input);
    reef_request *request;
    WANT(REEF_OK, reef_dispatcher_free(dispatcher));
    WANT(REEF_CANCELLED, reef_client_run(rt, network, input, 3 * 32 * 32, output, 1000, 60000000));
    WANT(REEF_CANCELLED, reef_client_submit(be, network, -1, &request));
    WANT(REEF_OK, reef_client_free(be));
    WANT(REEF_OK, reef_client_free(rt));
    WANT(REEF_OK, reef_network_free(network));
    WANT(REEF_OK, reef_device_free(device));
    if (reef_live_handles() != 0)
        failures++, printf("%zu handles left\n", reef_live_handles());
    free(input);
}

int main(int count, char **words) {
    if (count != 2)
        return 2;
    scales = words[1];
    if (reef_version() >> 16 != REEF_VERSION >> 16 || *reef_error_message())
        return 3;
    reef_network_options options = {.struct_size = sizeof options};
    options.input_size = 32;
    WANT(REEF_OK, reef_device_open("cpu:0?units=2", &device));
    WANT(REEF_OK, reef_network_load(device, "resnet18", &options, &network));
    WANT(REEF_OK, reef_dispatcher_start(device, "reef", &dispatcher));
    WANT(REEF_OK, reef_client_open(dispatcher, REEF_REAL_TIME, NULL, &rt));
    WANT(REEF_OK, reef_client_open(dispatcher, REEF_BEST_EFFORT, NULL, &be));
    names();
    handles();
    sizes();
    counters();
    order();
    threads();
    shared();
    waits();
    forked();
    gone();
    printf("%d mistakes were not told\n", failures);
    return failures != 0;
}
