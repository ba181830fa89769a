// interface_bytes: what the network interfaces of this process's host have sent and received.
#pragma once

#include <cstdint>  // counters
#include <fstream>  // /proc/net/dev
#include <limits>   // lines
#include <string>   // names

namespace testing_support {

/// Since the interfaces were made, in bytes of frames; the loopback interface does not count.
struct InterfaceBytes {
    std::int64_t sent = 0, received = 0;
    friend InterfaceBytes operator-(InterfaceBytes a, InterfaceBytes b) {
        return {a.sent - b.sent, a.received - b.received};
    }
};

/// Reads the counters of this process's network namespace; all 0 where there is no /proc.
inline InterfaceBytes interface_bytes() {
    InterfaceBytes sum;
    std::ifstream in("/proc/self/net/dev");
    for (int title = 0; title < 2; ++title) in.ignore(std::numeric_limits<int>::max(), '\n');
    // NAME: received bytes, 7 other counts; sent bytes, 7 other counts
    for (std::string name; std::getline(in, name, ':');) {
        std::int64_t received = 0, sent = 0, other = 0;
        in >> received;
        for (int i = 0; i < 7; ++i) in >> other;
        in >> sent;
        in.ignore(std::numeric_limits<int>::max(), '\n');
        if (name.substr(name.find_first_not_of(' ')) == "lo") continue;
        sum.sent += sent;
        sum.received += received;
    }
    return sum;
}

}  // namespace testing_support
