// process_cores: how many cores this process may compute on, as its worlds say; affinity masks.
#pragma once

#if defined(__linux__)
#include <sched.h>  // sched_getaffinity
#endif

#include <algorithm>  // max
#include <atomic>     // read by devices
#include <cerrno>     // EINVAL
#include <cstddef>    // size_t
#include <mutex>      // registrations
#include <set>        // of live worlds
#include <string>     // masks
#include <thread>     // hardware_concurrency
#include <utility>    // exchange

namespace gx::coordination {

namespace detail::cores {

struct Registry {
    std::mutex mutex{};
    std::multiset<int> shares{};
    std::atomic<int> least{0};

    /// Never destroyed: a world may be a global variable.
    static Registry& instance() {
        static Registry& registry = *new Registry;
        return registry;
    }
    void update() { least = shares.empty() ? 0 : *shares.begin(); }
};

}  // namespace detail::cores

/// Registration of a world whose ranks are several processes of one machine: while it lives, ranks
/// of this process divide at most so many cores among them. A world registers before it makes
/// devices. Of gx's worlds those of gx::mpi do. Those of gx::nccl do not, as their devices are
/// GPUs; nor does testing::ProcessWorld, a test double: its processes share all cores.
/// Threads: safe.
class CoreShare {
public:
    CoreShare() = default;
    explicit CoreShare(int cores) : cores_(std::max(1, cores)) {
        auto& registry = detail::cores::Registry::instance();
        const std::lock_guard lock(registry.mutex);
        registry.shares.insert(cores_);
        registry.update();
    }
    CoreShare(CoreShare&& from) noexcept : cores_(std::exchange(from.cores_, 0)) {}
    CoreShare& operator=(CoreShare&& from) noexcept {
        const int cores = std::exchange(from.cores_, 0);
        end();
        cores_ = cores;
        return *this;
    }
    ~CoreShare() { end(); }

private:
    void end() {
        if (cores_ == 0) return;
        auto& registry = detail::cores::Registry::instance();
        const std::lock_guard lock(registry.mutex);
        registry.shares.erase(registry.shares.find(cores_));
        registry.update();
    }

    int cores_ = 0;  ///< 0: none
};

/// Cores that the ranks of this process divide among them: the least CoreShare; 0, without any: all
/// that the system shows. Devices on CPUs take no more threads, unless Tuning::threads says so. It
/// changes no bits.
[[nodiscard]] inline int process_cores() { return detail::cores::Registry::instance().least; }

#if defined(__linux__)
/// Mask of the cores that this thread may run on: character c is '1' for core c, else '0'. Where
/// the system does not tell, as many '1' as it shows cores. `get`: as ::sched_getaffinity.
template <class Get>
[[nodiscard]] std::string affinity_mask(Get get) {
    constexpr std::size_t most = std::size_t{1} << 20;  // the kernel wants room for all that it has
    for (std::size_t cpus = CPU_SETSIZE; cpus <= most; cpus *= 2) {
        cpu_set_t* const set = CPU_ALLOC(cpus);
        if (set == nullptr) break;
        const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
        CPU_ZERO_S(bytes, set);
        const bool fits = get(0, bytes, set) == 0;
        const bool is_small = !fits && errno == EINVAL;
        std::string mask;
        for (std::size_t c = 0; fits && c < 8 * bytes; ++c)
            mask += CPU_ISSET_S(c, bytes, set) != 0 ? '1' : '0';
        CPU_FREE(set);
        mask.resize(mask.rfind('1') + 1);
        if (!mask.empty()) return mask;
        if (!is_small) break;
    }
    return std::string(std::max(1u, std::thread::hardware_concurrency()), '1');
}
[[nodiscard]] inline std::string affinity_mask() { return affinity_mask(::sched_getaffinity); }
#endif

}  // namespace gx::coordination
