// clock: seconds, the median, and how busy others kept the cores meanwhile.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "../median.hpp"  // median

namespace gx::bench {

inline double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

/// The cores' time since it was made that went to neither this process nor `children`: other
/// processes, and what a hypervisor took.
/// Units: per cent of all cores' time; -1 where /proc/stat does not tell.
class OtherLoad {
public:
    explicit OtherLoad(std::vector<pid_t> children)
        : children_(std::move(children)), begin_(read()) {}
    [[nodiscard]] double percent() const {
        const Seconds end = read();
        const double all = end.all - begin_.all, busy = end.busy - begin_.busy;
        if (all <= 0) return -1;
        return std::clamp(100 * (busy - (end.ours - begin_.ours)) / all, 0.0, 100.0);
    }

private:
    struct Seconds {
        double all = 0, busy = 0, ours = 0;
    };
    [[nodiscard]] Seconds read() const {
        const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
        Seconds s;
        std::ifstream stat("/proc/stat");
        std::string word;
        stat >> word;  // user nice system idle iowait irq softirq steal; guests are in user
        double value = 0;
        for (int i = 0; i < 8 && stat >> value; ++i) {
            s.all += value / ticks;
            if (i != 3 && i != 4) s.busy += value / ticks;
        }
        rusage mine{};
        getrusage(RUSAGE_SELF, &mine);
        for (const timeval& t : {mine.ru_utime, mine.ru_stime})
            s.ours += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
        for (const pid_t child : children_) s.ours += of(child) / ticks;
        return s;
    }
    [[nodiscard]] static double of(pid_t child) {
        if (child <= 0) return 0;
        std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
        std::string word;
        std::getline(stat, word, ')');  // "PID (NAME)", then 11 fields before utime and stime
        for (int i = 0; i < 11; ++i) stat >> word;
        double user = 0, system = 0;
        stat >> user >> system;
        return user + system;
    }

    std::vector<pid_t> children_;
    Seconds begin_;
};

}  // namespace gx::bench
