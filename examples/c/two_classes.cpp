// A real-time network that is asked now and then, beside a best-effort one that never stops.
//
//     c++ -std=c++17 examples/c/two_classes.cpp $(pkg-config --cflags --libs reef) -pthread -o two_classes
//     ./two_classes cpu:0 resnet18 densenet121
//
// two_classes DEVICE RT_NETWORK BE_NETWORK [INPUT_SIZE [REQUESTS]]

#include <reef.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

reef::network load(const reef::device &device, const char *name, unsigned size) {
    reef_network_options options{};
    options.input_size = size;
    options.seed = 1;
    return reef::network(device, name, options);
}

std::vector<float> picture(const reef::network &network) { return std::vector<float>(network.info().inputs, 0.5f); }

// Runs one request after the other until it is told to stop; how many that were.
long keep_busy(reef::client &client, const reef::network &network, const std::atomic<bool> &stop) {
    const auto input = picture(network);
    std::vector<float> output;
    long done = 0;
    for (; !stop; done++)
        client.run(network, input, output);
    return done;
}

void ask(reef::client &client, reef::network &network, int requests) {
    network.write_input(picture(network));
    for (int i = 0; i < requests; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        auto request = client.submit(network);
        request.wait();
        const auto timing = request.timing();
        std::printf("real-time: started after %.1f us, took %.2f ms\n", timing.delay_ns / 1e3, timing.total_ns / 1e6);
    }
}

void run(int argc, char **argv) {
    const unsigned size = argc > 4 ? std::atoi(argv[4]) : 0;
    const reef::device device(argv[1]);
    auto rt = load(device, argv[2], size), be = load(device, argv[3], size);
    const reef::dispatcher dispatcher(device);
    reef::client real_time(dispatcher, REEF_REAL_TIME), best_effort(dispatcher, REEF_BEST_EFFORT);

    std::atomic<bool> stop{false};
    long done = 0;
    std::thread busy([&] { done = keep_busy(best_effort, be, stop); });
    ask(real_time, rt, argc > 5 ? std::atoi(argv[5]) : 20);
    stop = true;
    busy.join();
    const auto stats = dispatcher.stats();
    std::printf("%s: %ld best-effort requests meanwhile, %llu preemptions\n", device.name().c_str(), done,
                static_cast<unsigned long long>(stats.preemptions));
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fprintf(stderr, "two_classes DEVICE RT_NETWORK BE_NETWORK [INPUT_SIZE [REQUESTS]]\n");
        return 2;
    }
    try {
        run(argc, argv);
    } catch (const reef::error &error) {
        std::fprintf(stderr, "two_classes: %s: %s\n", reef_status_name(error.status()), error.what());
        return 1;
    }
    return 0;
}
