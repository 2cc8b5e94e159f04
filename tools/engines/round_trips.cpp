// Round trips of one request over HTTP and a UNIX socket, one after the other:
//
//     round_trips SOCKET PATH CLASS COUNT < BODY
//
// Prints the p50, the p99 and the longest in microseconds. tools/engines/round_trips.py compiles and calls it.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <iostream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void fail(const std::string& why) {
    std::fprintf(stderr, "round_trips: %s\n", why.c_str());
    std::exit(1);
}

void send_all(int socket, const std::string& bytes) {
    for (size_t at = 0; at < bytes.size();) {
        const ssize_t sent = write(socket, bytes.data() + at, bytes.size() - at);
        if (sent <= 0) fail("the daemon has closed the connection");
        at += static_cast<size_t>(sent);
    }
}

// An answer with its head, which must have a length and be a success.
std::string receive(int socket) {
    std::string answer;
    size_t needed = std::string::npos;
    while (answer.size() < needed) {
        char part[4096];
        const ssize_t got = read(socket, part, sizeof part);
        if (got <= 0) fail("the daemon has closed the connection");
        answer.append(part, static_cast<size_t>(got));
        const size_t head = answer.find("\r\n\r\n");
        if (head == std::string::npos || needed != std::string::npos) continue;
        const size_t length = answer.find("content-length: ");
        if (answer.compare(0, 12, "HTTP/1.1 200") != 0 || length == std::string::npos || length > head) fail(answer);
        needed = head + 4 + std::stoul(answer.substr(length + 16));
    }
    return answer;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 5) fail("SOCKET PATH CLASS COUNT");
    const std::string body(std::istreambuf_iterator<char>(std::cin), {});
    const std::string request = std::string("POST ") + arguments[2] +
                                " HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nreef-class: " + arguments[3] +
                                "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    const int daemon = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (std::strlen(arguments[1]) >= sizeof address.sun_path) fail("the path of the socket is too long");
    std::strcpy(address.sun_path, arguments[1]);
    if (connect(daemon, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("no daemon at this socket");
    const size_t rounds = std::stoul(arguments[4]), first = std::min<size_t>(rounds / 10, 500);
    std::vector<double> micros;
    for (size_t round = 0; round < first + rounds; ++round) {
        const auto begin = std::chrono::steady_clock::now();
        send_all(daemon, request);
        receive(daemon);
        const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
        if (round >= first) micros.push_back(took.count());
    }
    if (micros.empty()) fail("COUNT must be at least 1");
    std::sort(micros.begin(), micros.end());
    std::printf("%.1f %.1f %.1f\n", micros[micros.size() / 2], micros[micros.size() * 99 / 100], micros.back());
}
