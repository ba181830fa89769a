// update_in_shares, all_finite_in_shares: the bits of one thread's, for any division into shares.
#include <gx/optimizer/shared_update.hpp>

#include <cstddef>  // size_t
#include <cstdint>  // int64_t, uint64_t
#include <limits>   // infinity
#include <thread>   // shares
#include <vector>   // flat vectors

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>         // Error
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/rng.hpp>           // values
#include <gx/optimizer/adam.hpp>     // Adam
#include <gx/optimizer/adamw.hpp>    // AdamW
#include <gx/optimizer/lars.hpp>     // Lars
#include <gx/optimizer/sgd.hpp>      // Sgd
#include <optimizer/run_50.hpp>      // graph_of, Tensor

namespace {

using testing_support::Floats;
using testing_support::Layout;

/// A device's threads: here one, which takes the last share first.
struct Shares {
    int count = 1;
    int calls = 0;
    void in_shares(gx::FunctionRef<void(int, int)> f) {
        for (int s = count; s-- > 0; ++calls) f(s, count);
    }
};
/// As many threads as shares: one that throws ends the program.
struct Threads {
    void in_shares(gx::FunctionRef<void(int, int)> f) {
        std::vector<std::jthread> threads;
        for (int s = 0; s < 3; ++s) threads.emplace_back([&f, s] { f(s, 3); });
    }
};
struct Plain {};
static_assert(gx::HasShares<Shares> && !gx::HasShares<Plain>);
static_assert(gx::UpdatesInShares<gx::Sgd> && gx::UpdatesInShares<gx::Adam> &&
              gx::UpdatesInShares<gx::AdamW>);
static_assert(!gx::UpdatesInShares<gx::Lars>, "its update looks at norms of whole parameters");

Floats normals(std::size_t count, std::uint64_t seed) {
    const gx::Rng random(seed, "normals");
    Floats out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(random.normal(i));
    return out;
}
/// Tensors from less than a block to several, in a layout with gaps.
gx::Graph any_graph() {
    std::vector<testing_support::Tensor> tensors;
    for (int t = *rc::gen::inRange(1, 5); t-- > 0;)
        tensors.push_back({gx::ParameterRole::weight, *rc::gen::inRange<std::int64_t>(1, 5000)});
    return testing_support::graph_of(tensors);
}

template <class O>
void equals_a_whole_update(std::uint64_t seed) {
    const gx::Graph graph = any_graph();
    const Layout layout = testing_support::gapped_layout(graph);
    O optimizer({});
    optimizer.reserve(layout.elements, layout.slices, graph);
    const std::size_t states = O::state_names.size() * layout.elements;
    struct {
        Floats w, v;
    } whole{normals(layout.elements, seed), Floats(states)}, shared = whole;
    const auto args = [&](auto& run, const Floats& g, std::int64_t step) {
        return gx::UpdateArgs{.parameters = run.w,
                              .gradients = g,
                              .state = run.v,
                              .slices = layout.slices,
                              .rate = 0.1f,
                              .unscale = 0.5f,
                              .step = step};
    };
    Shares device{.count = *rc::gen::inRange(1, 9)};
    for (int step = 0; step < 3; ++step) {
        const Floats g = normals(layout.elements, seed + std::uint64_t(step) + 1);
        Plain none;
        gx::update_in_shares(none, optimizer, args(whole, g, step));
        gx::update_in_shares(device, optimizer, args(shared, g, step));
    }
    RC_ASSERT(device.calls == 3 * device.count);
    RC_ASSERT(shared.w == whole.w);
    RC_ASSERT(shared.v == whole.v);
}
RC_GTEST_PROP(UpdateInShares, EqualsAWholeUpdateOfSgd, (std::uint64_t seed)) {
    equals_a_whole_update<gx::Sgd>(seed);
}
RC_GTEST_PROP(UpdateInShares, EqualsAWholeUpdateOfAdam, (std::uint64_t seed)) {
    equals_a_whole_update<gx::Adam>(seed);
}
RC_GTEST_PROP(UpdateInShares, EqualsAWholeUpdateOfAdamW, (std::uint64_t seed)) {
    equals_a_whole_update<gx::AdamW>(seed);
}
TEST(UpdateInShares, CallsAnOptimizerThatLooksAtNormsOnce) {
    const gx::Graph graph = testing_support::graph_of({{gx::ParameterRole::weight, 3000}});
    const Layout layout = testing_support::plain_layout(graph);
    gx::Lars lars({});
    lars.reserve(layout.elements, layout.slices, graph);
    Floats w = normals(3000, 1), v(3000);
    const Floats g = normals(3000, 2);
    Shares device{.count = 4};
    gx::update_in_shares(
        device, lars,
        {.parameters = w, .gradients = g, .state = v, .slices = layout.slices, .rate = 1});
    EXPECT_EQ(device.calls, 0);
    EXPECT_NE(w, normals(3000, 1));
}

/// Refuses the gradient 7.
struct Refuses : gx::Sgd {
    using Sgd::Sgd;
    void update(const gx::UpdateArgs& a) const {
        for (const gx::ParameterSlice& s : a.slices)
            for (std::size_t i = s.offset; i < s.offset + s.count; ++i) {
                if (a.gradients[i] == 7) throw gx::Error("gradient of 7");
                a.parameters[i] = 1;
            }
    }
};
TEST(UpdateInShares, ThrowsWhatAThreadOfTheDeviceThrows) {
    static_assert(gx::UpdatesInShares<Refuses>);
    const gx::Graph graph = testing_support::graph_of({{gx::ParameterRole::weight, 3000}});
    const Layout layout = testing_support::plain_layout(graph);
    Floats w(3000), g(3000);
    const Refuses optimizer{gx::Sgd::Options{}};
    Threads device;
    const gx::UpdateArgs a{.parameters = w, .gradients = g, .slices = layout.slices, .rate = 1};
    gx::update_in_shares(device, optimizer, a);
    EXPECT_EQ(w, Floats(3000, 1));
    for (const std::size_t at : {0, 1500, 2999}) {
        g.assign(3000, 0);
        g[at] = 7;
        EXPECT_THROW(gx::update_in_shares(device, optimizer, a), gx::Error);
    }
    g.assign(3000, 7);  // each share throws
    EXPECT_THROW(gx::update_in_shares(device, optimizer, a), gx::Error);
}

RC_GTEST_PROP(AllFiniteInShares, FindsOneInfinityAnywhere, (std::uint64_t seed)) {
    Floats x = normals(*rc::gen::inRange<std::size_t>(1, 9000), seed);
    Shares device{.count = *rc::gen::inRange(1, 9)};
    RC_ASSERT(gx::all_finite_in_shares(device, x));
    x[*rc::gen::inRange<std::size_t>(0, x.size())] = std::numeric_limits<float>::infinity();
    RC_ASSERT(!gx::all_finite_in_shares(device, x));
}
TEST(AllFiniteInShares, HoldsForNothing) {
    Shares device{.count = 3};
    EXPECT_TRUE(gx::all_finite_in_shares(device, {}));
}

}  // namespace
