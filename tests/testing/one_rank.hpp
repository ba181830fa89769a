// OneRank: a world of which this process holds one rank, as under mpirun.
#pragma once

#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/transport.hpp>     // Placement

namespace testing_support {

/// The shape of a world under mpirun: this process holds one rank of it.
template <class R>
class OneRank {
public:
    using Rank = R;
    explicit OneRank(R& rank) : rank_(rank) {}
    [[nodiscard]] int ranks() const { return rank_.ranks(); }
    [[nodiscard]] gx::Placement placement() const { return rank_.transport().placement(); }
    [[nodiscard]] int first_local_rank() const { return rank_.rank(); }
    void run(gx::FunctionRef<void(R&)> f) {
        try {
            f(rank_);
        } catch (...) {
            rank_.stream().cancel();  // stops the other processes
            throw;
        }
    }

private:
    R& rank_;
};

}  // namespace testing_support
