// One network, one real-time request.
//
//     tools/install_capi.sh /tmp/reef && export PKG_CONFIG_PATH=/tmp/reef/lib/pkgconfig LD_LIBRARY_PATH=/tmp/reef/lib
//     cc examples/c/infer.c $(pkg-config --cflags --libs reef) -o infer && ./infer cpu:0 resnet18
//
// infer DEVICE NETWORK [INPUT_SIZE [OUTPUT_FILE]]: the file gets the output as floats.

#include <reef.h>
#include <stdio.h>
#include <stdlib.h>

static void check(reef_status status, const char *what) {
    if (status != REEF_OK) {
        fprintf(stderr, "infer: %s: %s: %s\n", what, reef_status_name(status), reef_error_message());
        exit(1);
    }
}

// Any picture: numbers from -1 to 1.
static void draw(float *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 37) % 201) / 100.0f - 1.0f;
}

static size_t largest(const float *values, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

static void save(const char *file, const float *values, size_t count) {
    FILE *out = fopen(file, "wb");
    if (!out || fwrite(values, sizeof *values, count, out) != count || fclose(out) != 0) {
        perror(file);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "infer DEVICE NETWORK [INPUT_SIZE [OUTPUT_FILE]]\nnetworks: %s\n", reef_networks());
        return 2;
    }
    reef_network_options options = {.struct_size = sizeof options};
    options.input_size = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    options.seed = 1;

    reef_device *device;
    reef_network *network;
    reef_dispatcher *dispatcher;
    reef_client *client;
    check(reef_device_open(argv[1], &device), "device");
    check(reef_network_load(device, argv[2], &options, &network), "network");
    check(reef_dispatcher_start(device, "reef", &dispatcher), "dispatcher");
    check(reef_client_open(dispatcher, REEF_REAL_TIME, NULL, &client), "client");

    reef_network_info info = {.struct_size = sizeof info};
    check(reef_network_get_info(network, &info), "info");
    float *input = malloc(info.inputs * sizeof *input), *output = malloc(info.outputs * sizeof *output);
    if (!input || !output)
        return 1;
    draw(input, info.inputs);
    check(reef_client_run(client, network, input, info.inputs, output, info.outputs, 60 * 1000 * 1000), "run");
    printf("%s: %ux%ux%u, class %zu of %zu\n", argv[2], info.channels, info.height, info.width,
           largest(output, info.outputs), (size_t)info.outputs);
    if (argc > 4)
        save(argv[4], output, info.outputs);

    free(input);
    free(output);
    check(reef_client_free(client), "free");
    check(reef_dispatcher_free(dispatcher), "free");
    check(reef_network_free(network), "free");
    check(reef_device_free(device), "free");
    return 0;
}
