// Backoff: the body.
#pragma once

#include <algorithm>  // min
#include <thread>     // yield

#include <gx/mpi/backoff.hpp>  // the declarations

namespace gx::mpi {

GX_DECL void Backoff::pause(std::chrono::nanoseconds tested) {
    if (peers_ == Peers::other_hosts) {
        const auto sleep = sleep_after(std::chrono::steady_clock::now() - begin_);
        if (sleep.count() == 0) std::this_thread::yield();
        else std::this_thread::sleep_for(sleep);
        return;
    }
    constexpr int yields = 64;
    constexpr std::chrono::microseconds shortest{20}, longest{50}, moved_a_message{10};
    if (tested > moved_a_message) {
        pauses_ = 0;
    } else if (pauses_ < yields) {
        ++pauses_;
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(
            std::min(shortest + std::chrono::microseconds(pauses_++ - yields), longest));
    }
}

}  // namespace gx::mpi
