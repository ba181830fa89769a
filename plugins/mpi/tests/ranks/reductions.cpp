// Reductions of every reducer: the loop over them, compiled once for both MPIs.
#include "reductions.hpp"

#include <bit>
#include <vector>

#include <gx/mpi/all_reduce.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/name.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/reducer_list.hpp>
#include <gx/testing/worlds.hpp>

// The list of each plugin under a name of its own.
#define ReducersUnderTest HalvingDoublingReducers
#include "../../../halving_doubling/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest HierarchicalReducers
#include "../../../hierarchical/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest LocalSgdReducers
#include "../../../local_sgd/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest ParameterServerReducers
#include "../../../parameter_server/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest QuantizedReducers
#include "../../../quantized/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest ShardedReducers
#include "../../../sharded/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest SharedMemoryReducers
#include "../../../shared_memory/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest TopKReducers
#include "../../../top_k/tests/reducers.hpp"
#undef ReducersUnderTest
#define ReducersUnderTest TreesReducers
#include "../../../trees/tests/reducers.hpp"
#undef ReducersUnderTest

namespace gx::mpi_tests {

namespace {

using testing::ReducerList;
using testing::Rows;
using CoreReducers =
    ReducerList<Ring<fp32>, Ring<fp16>, Ring<bf16>, MultiRing<2, fp16>, MultiRing<4, fp16>,
                Bucketed<Ring<fp16>, 64>, DoubleBuffered<MultiRing<2, fp16>>>;

/// An AnyWorld as the callable that reductions run on.
struct On {
    const testing::AnyWorld& world;
    template <class F>
    void operator()(Placement placement, F f) const {
        world.run(placement, [&](testing::AnyRank& rank) {
            struct Rank {
                testing::AnyRank& any;
                [[nodiscard]] int rank() const { return any.rank(); }
                [[nodiscard]] testing::AnyTransport& transport() const { return any.transport; }
            } mine{rank};
            f(mine);
        });
    }
};

/// Threads whose transport hides that they share memory.
struct OnMessages {
    template <class F>
    void operator()(Placement placement, F f) const {
        ThreadWorld<>({.placement = placement}).run([&](auto& rank) {
            TransportOver link(rank.transport());
            testing::RankWithTransport other(rank, link);
            f(other);
        });
    }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
    return true;
}

template <class R>
void compare(const testing::AnyWorld& world, int me, int ranks, Compared& out) {
    ++out.reducers;
    std::vector<Placement> placements{{1, ranks}};
    if (ranks > 1) placements.push_back({ranks, 1});
    if (ranks == 4) placements.push_back({2, 2});
    for (const Placement placement : placements) {
        for (const std::int64_t length : {1, 67, 4099}) {
            std::vector<Rows> jobs;
            for (std::uint64_t seed = 1; seed <= 3; ++seed)
                jobs.push_back(testing::wide_magnitudes(seed, ranks, length));
            const auto expected = testing::reduce_jobs<R>(OnMessages{}, placement, jobs);
            const auto got = testing::reduce_jobs<R>(On{world}, placement, jobs);
            const auto mine = static_cast<std::size_t>(me);
            for (std::size_t j = 0; j < jobs.size(); ++j) {
                ++out.reductions;
                const ReduceReport &a = expected.reports[j][mine], &b = got.reports[j][mine];
                const bool same = same_bits(expected.rows[j][mine], got.rows[j][mine]) &&
                                  a.complete() && b.complete() && a.bytes_sent == b.bytes_sent &&
                                  a.steps == b.steps;
                if (!same)
                    out.differences += reducer_name<R>() + " differs at " + std::to_string(ranks) +
                                       " ranks of " + std::to_string(placement.machines) +
                                       " machines, " + std::to_string(length) +
                                       " values, reduction " + std::to_string(j) + "; ";
            }
        }
    }
}

}  // namespace

Compared compare_with_threads(const testing::AnyWorld& world, int me, int ranks) {
    Compared out;
    const auto compare_all = [&](auto... lists) {
        (lists.for_each([&]<class R>() { compare<R>(world, me, ranks, out); }), ...);
    };
    compare_all(CoreReducers(), HalvingDoublingReducers(), HierarchicalReducers(),
                LocalSgdReducers(), ParameterServerReducers(), QuantizedReducers(),
                ShardedReducers(), SharedMemoryReducers(), TopKReducers(), TreesReducers());
    return out;
}

}  // namespace gx::mpi_tests
