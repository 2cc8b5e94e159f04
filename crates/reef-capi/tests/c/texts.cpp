// Texts with a zero byte, which C would take for shorter ones.

#include <iostream>
#include <reef.hpp>

template <class F> static void refused(F call) {
    try {
        call();
        std::cout << "taken\n";
    } catch (const std::invalid_argument &) {
        std::cout << "refused\n";
    }
}

int main() {
    const std::string rest("\0:7", 3);
    refused([&] { reef::device device("cpu" + rest); });
    reef::device device("cpu:0?units=1");
    refused([&] { reef::network network(device, "resnet18" + rest); });
    refused([&] { reef::dispatcher dispatcher(device, "reef" + rest); });
}
