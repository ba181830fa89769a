// Carried: the state of one rank between two worlds of a run.
#pragma once

#include <cstdint>   // int64_t
#include <cstring>   // memcpy
#include <optional>  // reducer
#include <span>      // bytes
#include <string>    // names of state
#include <vector>    // flat vectors

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/reducer/concept.hpp>             // Settles, StateScope
#include <gx/trainer/rank/course.hpp>         // Course
#include <gx/trainer/rank/epoch_metrics.hpp>  // EpochMetrics
#include <gx/trainer/loss_scale.hpp>          // LossScaleState
#include <gx/trainer/record.hpp>              // StepRow, Breakdown

namespace gx::detail::trainer {

/// What a rank changes by the forward pass of each step, as of one number of such passes.
struct Snapshot {
    std::int64_t forwards = -1;
    std::vector<float> statistics{};
    std::int64_t images = 0;           ///< of this rank, in the epoch
    double undisturbed_seconds = 0;    ///< with the updates by ...
    std::int64_t timed_gradients = 0;  ///< ... the first so many gradients
};

/// A checkpoint within an epoch.
struct WrittenStep {
    std::int64_t step = 0;  ///< it is after; 0: there is none
    int epochs = 0;         ///< that were done then
};

/// State of one rank as it leaves a world. Flat vectors are in the device's own order, which is the
/// same on all ranks of a world and of the next.
template <class R>
struct Carried {
    bool trained = false;        ///< what follows is a state; else it starts as the run does
    std::int64_t gradients = 0;  ///< applied or left out, from the start of the run
    std::vector<char> applied = std::vector<char>(std::size_t(R::staleness) + 1, 1);
    ///< of the latest gradients, by their number modulo staleness + 1
    std::int64_t updates = 0, skips_in_a_row = 0, skipped = 0;
    std::int64_t skipped_before = 0;  ///< before the run was resumed
    LossScaleState loss_scale{};
    std::vector<double> scalars{};
    std::vector<float> parameters{}, optimizer{};
    std::optional<R> reducer{};  ///< in the memory of the host, with the state of a device's

    Course course{};
    std::vector<Snapshot> snapshots = std::vector<Snapshot>(std::size_t(R::staleness) + 3);
    ///< one more than count: the host of a device is ahead of it by a pass
    EpochMetrics before{}, present{};  ///< of the last two epochs
    double seconds = 0, dollars = 0;
    Breakdown breakdown{};

    // How it left: set anew by each world.
    bool lived = false;   ///< to the end of its function, or to the error that names another rank
    bool failed = false;  ///< its device is lost
    int names = -1;       ///< the rank of that world that its error names
    std::vector<WrittenStep> written{};  ///< its checkpoints within epochs

    [[nodiscard]] Snapshot& snapshot(std::int64_t forwards) {
        return snapshots[std::size_t(forwards) % snapshots.size()];
    }
    [[nodiscard]] bool was_applied(std::int64_t gradient) const {
        return applied[std::size_t(gradient) % applied.size()] != 0;
    }
    void settled(std::int64_t gradient, bool finite) {
        applied[std::size_t(gradient) % applied.size()] = finite ? 1 : 0;
        gradients = gradient + 1;
    }

    // ---- The part that is equal on all ranks with as many gradients --------------------------
    [[nodiscard]] std::vector<std::byte> common() {
        std::vector<std::byte> out;
        each_common(
            [&](std::span<std::byte> part) { out.insert(out.end(), part.begin(), part.end()); });
        return out;
    }
    /// Takes what common() returned on a rank with `theirs` gradients.
    void take(std::span<const std::byte> message, std::int64_t theirs) {
        GX_EXPECT(theirs - gradients <= std::ssize(applied),
                  "survivors differ by at most the gradients in flight and one");
        const auto get = [&](std::span<std::byte> part) {
            std::memcpy(part.data(), message.data(), part.size());
            message = message.subspan(part.size());
        };
        each_counted(get);
        for (; gradients < theirs; ++gradients)  // what became of them, now that it is known
            if constexpr (Settles<R>)
                reducer->settle(std::uint64_t(gradients), was_applied(gradients));
        each_vector(get);
    }

private:
    template <class T>
    static std::span<std::byte> bytes(T& x) {
        return std::as_writable_bytes(std::span(&x, 1));
    }
    template <class T>
    static std::span<std::byte> bytes(std::vector<T>& x) {
        return std::as_writable_bytes(std::span(x));
    }
    void each_counted(auto f) {
        f(bytes(applied)), f(bytes(updates)), f(bytes(skips_in_a_row)), f(bytes(skipped));
        f(bytes(loss_scale.scale)), f(bytes(loss_scale.good_steps)), f(bytes(scalars));
    }
    void each_vector(auto f) {
        f(bytes(parameters)), f(bytes(optimizer));
        if (reducer)
            for (const StateVector& v : reducer->state())
                if (v.scope == StateScope::replicated) f(std::as_writable_bytes(v.values));
    }
    void each_common(auto f) {
        each_counted(f);
        each_vector(f);
    }
};

}  // namespace gx::detail::trainer
