// Bodies of stop_request.hpp.
#pragma once

#include <atomic>   // the guard
#include <csignal>  // sigaction
#include <ctime>    // clock_gettime

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/trainer/monitor/stop_request.hpp>

namespace gx {

namespace detail::stop_request {
/// What handlers find: they have no argument for it.
struct Guard {
    std::atomic<StopRequest*> request = nullptr;  ///< nullptr: this process has none
    std::atomic<std::int64_t> first = 0;          ///< time of the first signal, 0 before; ns
    std::atomic<std::int64_t> together = 0;
    static_assert(std::atomic<std::int64_t>::is_always_lock_free);
};
[[nodiscard]] inline Guard& guard() {
    static Guard one;
    return one;
}
extern "C" inline void gx_ask_to_stop(int signal) {
    Guard& g = guard();
    StopRequest* const request = g.request.load();
    if (request == nullptr) return;
    timespec at{};
    (void)::clock_gettime(CLOCK_MONOTONIC, &at);
    const std::int64_t now = std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
    std::int64_t first = 0;
    if (g.first.compare_exchange_strong(first, now)) return request->ask(signal);
    if (now - first < g.together.load()) return;
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}
}  // namespace detail::stop_request

GX_DECL StopOnSignals::StopOnSignals(std::initializer_list<int> signals,
                                     std::chrono::nanoseconds together) {
    detail::stop_request::Guard& guard = detail::stop_request::guard();
    GX_EXPECT(guard.request.load() == nullptr,
              "one StopOnSignals at a time: signals are the process's");
    guard.first = 0, guard.together = together.count();
    guard.request = this;
    struct sigaction action{};
    action.sa_handler = &detail::stop_request::gx_ask_to_stop;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int s : signals) {
        Before b{s, {}};
        ::sigaction(s, &action, &b.action);
        before_.push_back(b);
    }
}

GX_DECL StopOnSignals::~StopOnSignals() {
    for (const Before& b : before_) ::sigaction(b.signal, &b.action, nullptr);
    detail::stop_request::guard().request = nullptr;
}

}  // namespace gx
