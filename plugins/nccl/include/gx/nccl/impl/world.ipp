// expect_possible: what a World needs.
#pragma once

#include <algorithm>  // find
#include <string>     // sentences

#include <gx/core/detail/expect_ranks.hpp>  // expect_ranks
#include <gx/core/error.hpp>                // Error
#include <gx/cuda/error.hpp>                // device_count
#include <gx/nccl/error.hpp>                // expect_version
#include <gx/nccl/world.hpp>                // the declarations

namespace gx::nccl {

GX_DECL void expect_possible(const WorldOptions& o) {
    gx::detail::threads::expect_deadline(o.deadline);
    gx::detail::expect_ranks(o.placement);
    const int ranks = o.placement.ranks(), gpus = cuda::device_count();
    expect_version();
    const std::string world = "an nccl::World of " + std::to_string(ranks) + " ranks";
    if (!o.gpus.empty() && o.gpus.size() != static_cast<std::size_t>(ranks))
        throw Error(world + " is given " + std::to_string(o.gpus.size()) +
                    " GPUs. Name one for each rank, or none: then rank r has GPU r.");
    if (o.gpus.empty() && gpus < ranks)
        throw Error(world + " needs as many GPUs, and this process sees " + std::to_string(gpus) +
                    ". Run fewer ranks, or let CUDA_VISIBLE_DEVICES name more GPUs.");
    for (std::size_t r = 0; r < o.gpus.size(); ++r) {
        const int gpu = o.gpus[r];
        const std::string rank = world + ": rank " + std::to_string(r);
        if (gpu < 0 || gpu >= gpus)
            throw Error(rank + " has GPU " + std::to_string(gpu) +
                        ", and this process sees GPUs 0 to " + std::to_string(gpus - 1) +
                        ". Name one of these.");
        const auto first = std::ranges::find(o.gpus, gpu);
        if (const auto other = static_cast<std::size_t>(first - o.gpus.begin()); other < r)
            throw Error(rank + " has GPU " + std::to_string(gpu) + ", as rank " +
                        std::to_string(other) +
                        " has. NCCL takes one rank on a GPU: name another.");
    }
}

GX_DECL ncclUniqueId unique_id() {
    ncclUniqueId id;
    expect(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return id;
}

}  // namespace gx::nccl
