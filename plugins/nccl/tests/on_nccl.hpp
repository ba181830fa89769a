// OnNccl: nccl::World over the doubles as a world of the conformance kit.
#pragma once

#include <algorithm>  // max
#include <cstdint>    // seeds
#include <cstdlib>    // getenv

#include <gx/core/error.hpp>         // LostRank
#include <gx/nccl/world.hpp>         // World
#include <gx/testing/on_device.hpp>  // OnDevice

#include "nccl_world.hpp"

namespace gx::nccl_tests {

/// On as many GPUs of the double as there are ranks. Queued work runs late, eagerly, or in an order
/// drawn from the seed.
struct OnNccl {
    std::uint64_t seed = 2;
    template <class F>
    void operator()(Placement placement, F f) const {
        start(every_progress[seed % 3], seed, placement.ranks());
        nccl::World<> world({.placement = placement});
        try {
            world.run(f);
        } catch (const LostRank&) {  // the reports of the ranks show it
        }
        cuda_testing::expect_clean();
    }
    [[nodiscard]] OnNccl reordered(std::uint64_t s) const { return {s}; }
};

template <class R>
using OnGpu = testing::OnDevice<R, nccl::World<>::Rank>;

/// GX_NCCL_CONFORMANCE=all: every check of every reducer and mutant, which takes minutes.
inline bool checks_all() {
    const char* const text = std::getenv("GX_NCCL_CONFORMANCE");
    return text != nullptr && std::string_view(text) == "all";
}

}  // namespace gx::nccl_tests
