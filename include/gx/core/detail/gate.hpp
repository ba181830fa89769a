// Gate: barrier of ranks, threads or processes, that counts in one cache line.
#pragma once

#include <atomic>   // counts
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <thread>   // yield

namespace gx::detail {

/// Bytes that two cores never share: a pair of cache lines, which are fetched together.
inline constexpr std::size_t core_line = 128;

/// Opens each time that all ranks have entered. It may lie in memory that processes share, zero at
/// first. Opening k, from 0, has `last` = (k + 1) * ranks.
///
/// Order: what a rank wrote before enter() is seen by all that have seen the gate open.
class alignas(core_line) Gate {
public:
    /// Returns whether this rank was the last one, so that the gate is open.
    bool enter(std::uint64_t last) { return entered_.fetch_add(1) + 1 == last; }
    /// For all `ranks` at once: opens it.
    void enter_for_all(std::uint64_t ranks) { entered_.fetch_add(ranks); }
    /// Takes enter() back, unless the gate has opened: then it returns false.
    bool withdraw(std::uint64_t last) {
        std::uint64_t entered = entered_.load();
        while (entered < last)
            if (entered_.compare_exchange_weak(entered, entered - 1)) return true;
        return false;
    }
    [[nodiscard]] bool is_open(std::uint64_t last) const { return entered_.load() >= last; }
    /// Ranks so far.
    [[nodiscard]] std::uint64_t entered() const { return entered_.load(); }

private:
    std::atomic<std::uint64_t> entered_{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes can share it");

/// Waits for done() for some microseconds: a core that has no other rank to run pauses at first,
/// which is sooner there; then it yields. Returns what done() returned last.
template <class Done>
bool spin(bool pauses, Done done) {
    constexpr int paused = 400, yielded = 64;
#if defined(__x86_64__) && defined(__GNUC__)
    for (int i = 0; pauses && i < paused; ++i) {
        if (done()) return true;
        __builtin_ia32_pause();
    }
#endif
    for (int i = 0; i < yielded; ++i) {
        if (done()) return true;
        std::this_thread::yield();
    }
    return done();
}

}  // namespace gx::detail
