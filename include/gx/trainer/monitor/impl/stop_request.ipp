// Bodies of stop_request.hpp.
#pragma once

#include <atomic>   // the guard
#include <csignal>  // sigaction

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/trainer/monitor/stop_request.hpp>

namespace gx {

namespace detail::stop_request {
/// The guard of this process, where it has one; handlers have no argument for it.
[[nodiscard]] inline std::atomic<StopRequest*>& guard() {
    static std::atomic<StopRequest*> one = nullptr;
    return one;
}
extern "C" inline void gx_ask_to_stop(int signal) {
    if (StopRequest* const r = guard().load()) {
        if (r->asked()) {  // of another kind: this second one ends the program
            std::signal(signal, SIG_DFL);
            std::raise(signal);
        }
        r->ask(signal);
    }
}
}  // namespace detail::stop_request

GX_DECL StopOnSignals::StopOnSignals(std::initializer_list<int> signals) {
    StopRequest* none = nullptr;
    GX_EXPECT(detail::stop_request::guard().compare_exchange_strong(none, this),
              "one StopOnSignals at a time: signals are the process's");
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
    detail::stop_request::guard() = nullptr;
}

}  // namespace gx
