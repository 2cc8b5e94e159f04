// REEF for C++14 and later: owners and exceptions around reef.h. Header only.
//
//     reef::device device("cpu:0");
//     reef::network network(device, "resnet18");
//     reef::dispatcher dispatcher(device, "reef");
//     reef::client client(dispatcher, REEF_REAL_TIME);
//     client.run(network, input, output);
//
// Objects own what they were made of and can be moved, not copied. They may be used by any thread, as reef.h says of
// the functions; what frees or moves one must be the last to use it, as always in C++.

#ifndef REEF_HPP
#define REEF_HPP

#include "reef.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reef {

// Error of a call: its status and its text.
class error : public std::runtime_error {
public:
    explicit error(reef_status status) : std::runtime_error(reef_error_message()), status_(status) {}
    reef_status status() const noexcept { return status_; }

private:
    reef_status status_;
};

// Throws what isn't REEF_OK.
inline void check(reef_status status) {
    if (status != REEF_OK)
        throw error(status);
}

using microseconds = std::chrono::microseconds;
// No limit of time.
constexpr microseconds forever{-1};

namespace detail {

// A text for C, which a zero byte would cut.
inline const char *text(const std::string &text) {
    if (text.find('\0') != std::string::npos)
        throw std::invalid_argument("a text must have no zero byte");
    return text.c_str();
}

// Owns a handle; 0 once it was moved from.
template <class Handle, reef_status (*Free)(Handle *)> class owner {
public:
    explicit owner(Handle *handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    owner &operator=(owner &&other) noexcept {
        if (this != &other) {
            Free(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner() { Free(handle_); }

    // For functions of reef.h.
    Handle *get() const noexcept { return handle_; }

private:
    Handle *handle_;
};

} // namespace detail

// An open device, by its name: "cpu", "cuda:0", "cpu:0?units=4". Here as everywhere, a name with a zero byte is a
// std::invalid_argument.
class device : public detail::owner<reef_device, reef_device_free> {
public:
    explicit device(const std::string &name) : owner(open(detail::text(name))) {}

    reef_device_info info() const {
        reef_device_info info{};
        info.struct_size = sizeof info;
        check(reef_device_get_info(get(), &info));
        return info;
    }

    std::string name() const {
        std::size_t needed = 0;
        check(reef_device_get_name(get(), nullptr, 0, &needed));
        std::vector<char> text(needed);
        check(reef_device_get_name(get(), text.data(), text.size(), nullptr));
        return text.data();
    }

private:
    static reef_device *open(const char *name) {
        reef_device *device = nullptr;
        check(reef_device_open(name, &device));
        return device;
    }
};

// A network on a device: one by name, an .onnx file, a folder, a .safetensors file.
class network : public detail::owner<reef_network, reef_network_free> {
public:
    network(const device &on, const std::string &what) : owner(load(on, what, nullptr)) {}

    // The size in `options` is set here.
    network(const device &on, const std::string &what, reef_network_options options) : owner(load(on, what, &options)) {}

    reef_network_info info() const {
        reef_network_info info{};
        info.struct_size = sizeof info;
        check(reef_network_get_info(get(), &info));
        return info;
    }

    // Another one with the same weights and memory of its own.
    network instance() const {
        reef_network *made = nullptr;
        check(reef_network_new_instance(get(), &made));
        return network(made);
    }

    void write_input(const std::vector<float> &values) {
        check(reef_network_write_input(get(), values.data(), values.size()));
    }

    std::vector<float> read_output() const {
        std::vector<float> values(info().outputs);
        check(reef_network_read_output(get(), values.data(), values.size()));
        return values;
    }

private:
    explicit network(reef_network *made) : owner(made) {}

    static reef_network *load(const device &on, const std::string &what, reef_network_options *options) {
        if (options)
            options->struct_size = sizeof *options;
        reef_network *network = nullptr;
        check(reef_network_load(on.get(), detail::text(what), options, &network));
        return network;
    }
};

// Schedules the requests of many clients on one device.
class dispatcher : public detail::owner<reef_dispatcher, reef_dispatcher_free> {
public:
    explicit dispatcher(const device &on, const std::string &scheduler = "reef") : owner(start(on, scheduler)) {}

    reef_stats stats() const {
        reef_stats stats{};
        stats.struct_size = sizeof stats;
        check(reef_dispatcher_get_stats(get(), &stats));
        return stats;
    }

private:
    static reef_dispatcher *start(const device &on, const std::string &scheduler) {
        reef_dispatcher *dispatcher = nullptr;
        check(reef_dispatcher_start(on.get(), detail::text(scheduler), &dispatcher));
        return dispatcher;
    }
};

// A submitted inference.
class request : public detail::owner<reef_request, reef_request_free> {
public:
    explicit request(reef_request *handle) noexcept : owner(handle) {}

    // Waits for the end: false if it has not come in time. Throws how it ended, if not well.
    bool wait(microseconds limit = forever) {
        reef_status status = reef_request_wait(get(), limit.count());
        if (status == REEF_TIMEOUT)
            return false;
        check(status);
        return true;
    }

    // Returns whether some of it was taken back.
    bool cancel() {
        int32_t cancelled = 0;
        check(reef_request_cancel(get(), &cancelled));
        return cancelled != 0;
    }

    reef_timing timing() const {
        reef_timing timing{};
        timing.struct_size = sizeof timing;
        check(reef_request_get_timing(get(), &timing));
        return timing;
    }
};

// Client that submits requests: REEF_REAL_TIME or REEF_BEST_EFFORT.
class client : public detail::owner<reef_client, reef_client_free> {
public:
    client(const dispatcher &to, reef_class of) : owner(open(to, of, nullptr)) {}

    // The size in `options` is set here.
    client(const dispatcher &to, reef_class of, reef_client_options options) : owner(open(to, of, &options)) {}

    request submit(const network &network, microseconds deadline = forever) {
        reef_request *submitted = nullptr;
        check(reef_client_submit(get(), network.get(), deadline.count(), &submitted));
        return request(submitted);
    }

    // One inference, from its input to its output.
    void run(const network &network, const std::vector<float> &input, std::vector<float> &output,
             microseconds limit = forever) {
        output.resize(network.info().outputs);
        check(reef_client_run(get(), network.get(), input.data(), input.size(), output.data(), output.size(),
                              limit.count()));
    }

private:
    static reef_client *open(const dispatcher &to, reef_class of, reef_client_options *options) {
        if (options)
            options->struct_size = sizeof *options;
        reef_client *client = nullptr;
        check(reef_client_open(to.get(), of, options, &client));
        return client;
    }
};

} // namespace reef

#endif // REEF_HPP
