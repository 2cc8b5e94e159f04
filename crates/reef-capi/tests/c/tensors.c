// A network of two inputs and two outputs, of two types: their names, shapes and values. A network whose request decides
// a size of its output.

#include <reef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(status, call)                                                                                             \
    do {                                                                                                               \
        reef_status got = (call);                                                                                      \
        if (got != (status)) {                                                                                         \
            printf("line %d: %s: %s (%s), not %s\n", __LINE__, #call, reef_status_name(got), reef_error_message(),     \
                   #status);                                                                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// Compares what the library says of a tensor of two values.
static void described(reef_network *network, reef_end end, size_t index, const char *want, reef_element element) {
    reef_tensor_info info = {.struct_size = sizeof info};
    char name[8];
    size_t needed = 0;
    int64_t sizes[1] = {0};
    WANT(REEF_OK, reef_network_get_tensor(network, end, index, &info));
    WANT(REEF_OK, reef_network_get_tensor_name(network, end, index, name, sizeof name, &needed));
    WANT(REEF_OK, reef_network_get_tensor_shape(network, end, index, sizes, 1));
    WANT(REEF_INVALID, reef_network_get_tensor_shape(network, end, index, sizes, 2));
    if (strcmp(name, want) || needed != strlen(want) + 1 || info.element != element || info.rank != 1 || sizes[0] != 2 ||
        info.bytes != (element == REEF_I64 ? 16 : 8)) {
        printf("%s: element %u, rank %u\n", name, info.element, info.rank);
        exit(1);
    }
}

// Runs a network with one output, the places of values that are not 0.
static void decided(reef_device *device, reef_client *client, const char *file) {
    reef_network *network;
    reef_request *request;
    reef_tensor_info info = {.struct_size = sizeof info};
    const float x[4] = {0, 1, 1, 0};
    int64_t sizes[2] = {0}, places[4] = {0};
    uint64_t size = 0;
    WANT(REEF_OK, reef_network_load(device, file, NULL, &network));
    WANT(REEF_OK, reef_network_get_tensor(network, REEF_OUTPUT, 0, &info));
    WANT(REEF_OK, reef_network_get_tensor_shape(network, REEF_OUTPUT, 0, sizes, 2));
    WANT(REEF_OK, reef_network_write_tensor(network, 0, x, sizeof x));
    WANT(REEF_OK, reef_client_submit(client, network, -1, &request));
    WANT(REEF_OK, reef_request_wait(request, 60000000));
    WANT(REEF_OK, reef_network_read_size(network, 0, &size));
    WANT(REEF_OK, reef_network_read_tensor(network, 0, places, sizeof places));
    printf("(%d, %d) in %d bytes: %d, at %d and %d\n", (int)sizes[0], (int)sizes[1], (int)info.bytes, (int)size,
           (int)places[0], (int)places[1]);
    WANT(REEF_OK, reef_request_free(request));
    WANT(REEF_OK, reef_network_free(network));
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    reef_device *device;
    reef_network *network;
    reef_dispatcher *dispatcher;
    reef_client *client;
    reef_request *request;
    WANT(REEF_OK, reef_device_open("cpu:0?units=1", &device));
    WANT(REEF_OK, reef_network_load(device, words[1], NULL, &network));
    WANT(REEF_OK, reef_dispatcher_start(device, "reef", &dispatcher));
    WANT(REEF_OK, reef_client_open(dispatcher, REEF_REAL_TIME, NULL, &client));

    size_t inputs = 0, outputs = 0;
    WANT(REEF_OK, reef_network_count_tensors(network, REEF_INPUT, &inputs));
    WANT(REEF_OK, reef_network_count_tensors(network, REEF_OUTPUT, &outputs));
    WANT(REEF_INVALID, reef_network_count_tensors(network, 0, &outputs));
    if (inputs != 2 || outputs != 2)
        return 3;
    described(network, REEF_INPUT, 0, "x", REEF_F32);
    described(network, REEF_INPUT, 1, "n", REEF_I64);
    described(network, REEF_OUTPUT, 0, "sum", REEF_F32);
    described(network, REEF_OUTPUT, 1, "twice", REEF_I64);

    const float x[2] = {0.5f, 1.0f};
    const int64_t n[2] = {2, 3};
    float sum[2] = {0};
    int64_t twice[2] = {0};
    uint64_t size = 7;
    WANT(REEF_INVALID, reef_network_write_tensor(network, 0, x, sizeof x - 1));
    WANT(REEF_INVALID, reef_network_write_tensor(network, 0, NULL, sizeof x));
    WANT(REEF_INVALID, reef_network_write_tensor(network, 2, x, sizeof x));
    WANT(REEF_INVALID, reef_network_write_input(network, x, 2)); // it is not one of images
    WANT(REEF_OK, reef_network_write_tensor(network, 0, x, sizeof x));
    WANT(REEF_OK, reef_network_write_tensor(network, 1, n, sizeof n));
    WANT(REEF_OK, reef_client_submit(client, network, -1, &request));
    WANT(REEF_OK, reef_request_wait(request, 60000000));
    WANT(REEF_OK, reef_network_read_tensor(network, 0, sum, sizeof sum));
    WANT(REEF_OK, reef_network_read_tensor(network, 1, twice, sizeof twice));
    WANT(REEF_INVALID, reef_network_read_size(network, 0, &size));
    if (size != 7)
        return 4;
    printf("%g %g %d %d\n", sum[0], sum[1], (int)twice[0], (int)twice[1]);

    WANT(REEF_OK, reef_request_free(request));
    decided(device, client, words[2]);
    WANT(REEF_OK, reef_client_free(client));
    WANT(REEF_OK, reef_dispatcher_free(dispatcher));
    WANT(REEF_OK, reef_network_free(network));
    WANT(REEF_OK, reef_device_free(device));
    return reef_live_handles() != 0;
}
