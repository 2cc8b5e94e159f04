// A model as a process, in C++ and without a library: y = 2 x, for any number of floats.
//
//     c++ -O2 -std=c++17 -o scale examples/process/scale.cpp
//
// with this model.toml above the folder that has the program:
//
//     engine = "process"
//     process.command = ["./scale"]
//
// docs/reference/process-protocol.md has the messages. The daemon writes JSON without spaces, and a name of this model needs no escape,
// so searching for a key is enough here. A larger program uses a JSON library.

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

// The socket to the daemon.
constexpr int daemon_socket = 0;

// Time of the last answer to a real-time request.
std::chrono::steady_clock::time_point answered;

// True for 0.2 ms after it: it does not sleep while it waits, as a program that is woken is later by more than this model takes.
bool is_awake() {
    const auto since = std::chrono::steady_clock::now() - answered;
    // The clock is behind where the daemon goes on with this process after a reboot.
    return since >= since.zero() && since < std::chrono::microseconds(200);
}

// What there is of at most `bytes` bytes.
ssize_t read_some(void* to, size_t bytes) {
    while (is_awake()) {
        const ssize_t got = recv(daemon_socket, to, bytes, MSG_DONTWAIT);
        if (got >= 0 || errno != EAGAIN) return got;
        sched_yield();
    }
    return read(daemon_socket, to, bytes);
}

// Exactly `bytes` bytes; false at the end.
bool read_all(void* to, size_t bytes) {
    for (auto* at = static_cast<char*>(to); bytes > 0;) {
        const ssize_t got = read_some(at, bytes);
        if (got <= 0) return false;
        at += got;
        bytes -= static_cast<size_t>(got);
    }
    return true;
}

bool write_all(const void* from, size_t bytes) {
    for (auto* at = static_cast<const char*>(from); bytes > 0;) {
        const ssize_t sent = write(daemon_socket, at, bytes);
        if (sent <= 0) return false;
        at += sent;
        bytes -= static_cast<size_t>(sent);
    }
    return true;
}

struct Message {
    std::string header;
    std::vector<char> tensors;
};

bool receive(Message& message) {
    char lengths[12];
    uint32_t header;
    uint64_t tensors;
    if (!read_all(lengths, sizeof lengths)) return false;
    std::memcpy(&header, lengths, 4);
    std::memcpy(&tensors, lengths + 4, 8);
    message.header.resize(header);
    message.tensors.resize(tensors);
    return read_all(message.header.data(), header) && read_all(message.tensors.data(), tensors);
}

bool send(const std::string& header, const void* tensors = nullptr, uint64_t bytes = 0) {
    std::string first(12, '\0');
    const auto length = static_cast<uint32_t>(header.size());
    std::memcpy(first.data(), &length, 4);
    std::memcpy(first.data() + 4, &bytes, 8);
    first += header;
    return write_all(first.data(), first.size()) && write_all(tensors, bytes);
}

bool is(const Message& message, const std::string& type) {
    return message.header.find("\"type\":\"" + type + "\"") != std::string::npos;
}

std::string number(const Message& message, const std::string& key) {
    const auto at = message.header.find("\"" + key + "\":") + key.size() + 3;
    return message.header.substr(at, message.header.find_first_of(",}", at) - at);
}

}  // namespace

int main() {
    Message message;
    if (!receive(message) || number(message, "protocol") != "1") return 1;
    const bool is_real_time = message.header.find(R"("class":"rt")") != std::string::npos;
    const std::string vector = R"(","datatype":"FP32","shape":[-1]}])";
    send(R"({"type":"ready","protocol":1,"inputs":[{"name":"x)" + vector + R"(,"outputs":[{"name":"y)" + vector + "}");
    while (receive(message)) {
        if (!is(message, "infer")) continue;  // a cancelled request has been answered already
        const size_t count = message.tensors.size() / sizeof(float);
        std::vector<float> values(count);
        if (count > 0) std::memcpy(values.data(), message.tensors.data(), count * sizeof(float));
        for (float& value : values) value *= 2;
        const std::string bytes = std::to_string(count * sizeof(float));
        send(R"({"type":"answer","request":)" + number(message, "request") + R"(,"outputs":[{"name":"y","datatype":"FP32","shape":[)" +
                 std::to_string(count) + R"(],"bytes":)" + bytes + "}]}",
             values.data(), count * sizeof(float));
        // For a client that asks again at once.
        if (is_real_time) answered = std::chrono::steady_clock::now();
    }
}
