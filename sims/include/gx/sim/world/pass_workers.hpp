// Pass, PassWorkers: passes of simulated GPUs, computed at once by threads of the host.
#pragma once

#include <exception>  // exception_ptr
#include <memory>     // unique_ptr

#include <gx/core/cold.hpp>          // GX_COLD
#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/core/function_ref.hpp>  // FunctionRef

namespace gx::sim::detail {

class PassWorkers;

/// A forward or a backward of one simulated GPU. Any thread may compute it from its construction
/// on; when finish() returns, one has.
///
///     const auto compute = [&] { report = inner.forward(batch, mode); };
///     Pass pass(workers, compute);   // nullptr: computes it here and now
///     ...                            // virtual time passes, and other ranks' passes begin
///     pass.finish();
///
/// Errors: what `compute` throws is thrown by finish(), so at one virtual time with workers and
///         without.
class Pass {
public:
    GX_DECL Pass(PassWorkers* workers, FunctionRef<void()> compute);
    GX_DECL ~Pass();  ///< as finish(), but for the exception
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

    GX_DECL void finish();

private:
    friend class PassWorkers;
    void run();

    enum class State : unsigned char { queued, computing, done };

    PassWorkers* workers_;
    FunctionRef<void()> compute_;
    State state_ = State::queued;
    Pass* next_ = nullptr;  ///< in the queue
    std::exception_ptr error_{};
};

/// Threads that compute passes in the order in which they began. The thread that finishes passes
/// is one of them: it computes what is queued before it waits.
/// Order: passes that are not finished yet must not depend on each other; then no bit depends on
///        the number of threads.
class PassWorkers {
public:
    /// `threads` with the calling one; as many as the system grants.
    GX_COLD GX_DECL explicit PassWorkers(int threads);
    GX_COLD GX_DECL ~PassWorkers();  ///< no pass may be left
    PassWorkers(const PassWorkers&) = delete;
    PassWorkers& operator=(const PassWorkers&) = delete;

    [[nodiscard]] GX_DECL int threads() const;

    GX_DECL void begin(Pass& pass);
    GX_DECL void finish(Pass& pass);

private:
    struct Queue;  // keeps <thread> and <mutex> out of programs that simulate
    std::unique_ptr<Queue> queue_;
};

}  // namespace gx::sim::detail

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/pass_workers.ipp>
#endif
