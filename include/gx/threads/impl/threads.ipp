// What the ranks of one ThreadWorld::run() share: the bodies.
#pragma once

#include <chrono>     // nanoseconds
#include <exception>  // current_exception
#include <mutex>      // lock_guard
#include <string>     // sentences

#include <gx/core/error.hpp>       // Error
#include <gx/threads/threads.hpp>  // Run

namespace gx::detail::threads {

GX_DECL void Run::stop(int rank) {
    {
        const std::lock_guard lock(mutex);
        if (first_rank < 0) first_rank = rank;
    }
    office.stop(rank);
}

GX_DECL void Run::fail(int rank) {
    {
        const std::lock_guard lock(mutex);
        if (first_rank < 0) first_rank = rank;
        if (!first_error || (rank == first_rank && error_rank != first_rank)) {
            first_error = std::current_exception();
            error_rank = rank;
        }
    }
    office.stop(rank);
}

GX_DECL void expect_deadline(std::chrono::nanoseconds deadline) {
    if (deadline.count() > 0) return;
    throw Error("deadline is " + std::to_string(deadline.count()) +
                " ns: it ends every wait at once; give the longest time that a message may take");
}

}  // namespace gx::detail::threads
