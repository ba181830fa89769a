// UpdateShare: parts of an update, put together, are the update, whatever the layout.
#include <gx/trainer/rank/update_share.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <limits>
#include <numeric>

#include <gx/core/rng.hpp>
#include <gx/model/concept.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/optimizer/sgd.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/worlds.hpp>
#include <trainer/small.hpp>  // EveryRole

namespace {

using gx::ChunkRange;
using gx::ParameterSlice;
using gx::detail::trainer::UpdateShare;
using testing_support::EveryRole;
using Floats = std::vector<float>;

/// Owns the update as it is told, and averages nothing.
template <bool parts, bool apart = false>
struct Owner {
    using wire_type = gx::fp32;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr gx::UpdateOwnership owns_update{.in_parts = parts, .apart = apart};
    void reserve(const gx::ReducePlan&) {}
    gx::ReduceReport all_reduce(gx::Transport auto&, const gx::Bucket&) { return {}; }
    gx::StateList state() { return {}; }
    [[nodiscard]] std::vector<ChunkRange> updated_by(int rank) const {
        return of_ranks[std::size_t(rank)];
    }
    void own_update(int, std::span<float>) {}
    gx::ReduceReport updated(gx::Transport auto&, const gx::OwnedUpdate&) { return {}; }
    [[nodiscard]] bool replicas_are_equal() const { return true; }

    std::vector<std::vector<ChunkRange>> of_ranks{};
};
static_assert(gx::OwnsUpdate<Owner<true>> && gx::OwnsUpdate<Owner<false>>);

// ---- Costs ---------------------------------------------------------------------------
static_assert(UpdateShare<gx::Ring<>, gx::AdamW>::cost(8) == gx::UpdateCost{28, 2, 1});
static_assert(UpdateShare<Owner<true>, gx::AdamW>::cost(8) == gx::UpdateCost{28, 2, 8});
static_assert(UpdateShare<Owner<false>, gx::AdamW>::cost(8) == gx::UpdateCost{28, 2, 1});
static_assert(UpdateShare<Owner<false, true>, gx::Sgd>::counts_skipped &&
              !UpdateShare<Owner<true>, gx::Sgd>::counts_skipped);

/// A layout of EveryRole's parameters, one or two slices each, padded; and who updates what.
struct Layout {
    gx::Graph graph = gx::graph<EveryRole>();
    std::vector<ParameterSlice> slices{};
    std::size_t elements = 0;
    std::vector<std::vector<ChunkRange>> of_ranks{};
};
Layout a_layout(int ranks) {
    Layout l;
    const auto gap = [] { return *rc::gen::inRange<std::size_t>(0, 4); };
    for (std::size_t p = 0; p < l.graph.parameters.size(); ++p) {
        const auto count = std::size_t(l.graph.parameters[p].count);
        const auto first = *rc::gen::inRange<std::size_t>(1, count + 1);
        for (const std::size_t part : {first, count - first}) {
            l.elements += gap();
            if (part > 0) l.slices.push_back({l.elements, part, int(p)});
            l.elements += part;
        }
    }
    l.elements += gap();
    l.of_ranks.resize(std::size_t(ranks));
    for (std::size_t at = 0; at < l.elements;) {
        const auto end = std::min(l.elements, at + *rc::gen::inRange<std::size_t>(1, 60));
        l.of_ranks[*rc::gen::inRange<std::size_t>(0, std::size_t(ranks))].push_back(
            {std::int64_t(at), std::int64_t(end)});
        at = end;
    }
    return l;
}
/// Values in the slices, and 0 where the device pads.
Floats values(const Layout& l, std::uint64_t seed) {
    const gx::Rng rng(seed, "update_share_test");
    Floats v(l.elements, 0.0f);
    for (const ParameterSlice& s : l.slices)
        for (std::size_t i = s.offset; i < s.offset + s.count; ++i)
            v[i] = float(rng.uniform(i) - 0.5);
    return v;
}
bool same_bits(std::span<const float> a, std::span<const float> b) {
    return std::ranges::equal(a, b, [](float x, float y) {
        return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
    });
}

// ---- Parts make the whole, bit for bit; the state goes to rank 0 and back -----------------
template <class O>
void parts_make_the_whole() {
    const int ranks = *rc::gen::inRange(1, 5);
    const Layout l = a_layout(ranks);
    const typename O::Options options{};
    const auto gradient = [&](std::uint64_t step) { return values(l, 100 + step); };
    const auto args = [&](const Floats& g, std::uint64_t step) {
        return gx::UpdateArgs{.gradients = g,
                              .slices = l.slices,
                              .rate = 0.25f,
                              .unscale = 0.5f,
                              .step = std::int64_t(step)};
    };
    Floats whole = values(l, 1);
    constexpr std::size_t vectors = gx::state_vectors<O>();
    O optimizer(options);
    optimizer.reserve(l.elements, l.slices, l.graph);
    Floats state(vectors * l.elements);
    std::vector<Floats> states;
    for (std::uint64_t step = 0; step < 4; ++step) {
        const Floats g = gradient(step);
        gx::UpdateArgs a = args(g, step);
        a.parameters = whole;
        a.state = state;
        optimizer.update(a);
        states.push_back(state);
    }
    std::vector<Floats> ends(std::size_t(ranks), values(l, 1));
    Floats gathered;
    std::vector<std::size_t> kept(std::size_t(ranks), 0);
    gx::testing::OnThreads{}({1, ranks}, [&](auto& rank) {
        const auto me = std::size_t(rank.rank());
        Floats& mine = ends[me];
        Owner<true> reducer;
        reducer.of_ranks = l.of_ranks;
        auto share = std::make_unique<UpdateShare<Owner<true>, O>>();
        auto o = std::make_unique<O>(options);
        Floats vectors_of_mine;
        const auto reserve = [&] {
            share->reserve(*o, reducer, rank.rank(), ranks, l.elements, l.slices, l.graph);
            vectors_of_mine.assign(vectors * share->elements(), 0.0f);
        };
        reserve();
        for (std::uint64_t step = 0; step < 4; ++step) {
            if (step == 2) {  // a checkpoint, and a fresh start from it
                EXPECT_TRUE(share->gather(rank.transport(), vectors_of_mine, reducer).complete());
                if (me == 0) {
                    const auto all = share->state(vectors_of_mine);
                    gathered.assign(all.begin(), all.end());
                }
                share = std::make_unique<UpdateShare<Owner<true>, O>>();
                o = std::make_unique<O>(options);
                reserve();
                share->begin_restore();
                std::ranges::copy(states[1], share->state(vectors_of_mine).begin());
                share->end_restore(vectors_of_mine);
                EXPECT_TRUE(share->state(vectors_of_mine).empty()) << "released";
            }
            const Floats g = gradient(step);
            gx::UpdateArgs a = args(g, step);
            a.state = vectors_of_mine;
            bool applies = false;
            EXPECT_TRUE(share->prepare(rank.transport(), *o, mine, a, applies).complete());
            EXPECT_TRUE(applies);
            a.parameters = mine;
            share->update(*o, a);
        }
        kept[me] = vectors_of_mine.size();
    });
    Floats together(l.elements);
    for (std::size_t r = 0; r < ends.size(); ++r)
        for (const ChunkRange& p : l.of_ranks[r])
            std::copy(ends[r].begin() + p.begin, ends[r].begin() + p.end,
                      together.begin() + p.begin);
    RC_ASSERT(same_bits(together, whole));
    RC_ASSERT(same_bits(gathered, states[1]));
    const auto parameters = std::size_t(l.graph.parameter_elements());
    RC_ASSERT(std::accumulate(kept.begin(), kept.end(), std::size_t{0}) == parameters * vectors);
    for (std::size_t r = 0; r < ends.size(); ++r)  // and nothing else was touched
        for (const ChunkRange& p : l.of_ranks[r])
            for (std::size_t other = 0; other < ends.size(); ++other)
                if (other != r)
                    RC_ASSERT(same_bits(
                        std::span(ends[other]).subspan(std::size_t(p.begin), std::size_t(p.size())),
                        std::span<const float>(values(l, 1))
                            .subspan(std::size_t(p.begin), std::size_t(p.size()))));
}
RC_GTEST_PROP(UpdateShare, PartsOfSgd, ()) { parts_make_the_whole<gx::Sgd>(); }
RC_GTEST_PROP(UpdateShare, PartsOfAdamW, ()) { parts_make_the_whole<gx::AdamW>(); }
RC_GTEST_PROP(UpdateShare, PartsOfLarsWhoseTensorsAreCut, ()) { parts_make_the_whole<gx::Lars>(); }

// ---- Copies of a shard that is not in one piece -----------------------------------------------
template <class O>
void expect_collected_once() {
    const gx::Graph graph = gx::graph<EveryRole>();
    const auto n = std::size_t(graph.parameters[0].count);
    const auto half = std::int64_t(n / 2), end = std::int64_t(n);
    gx::testing::OnThreads{}({1, 2}, [&](auto& rank) {
        const std::vector<ParameterSlice> slices{{0, n, 0}};
        Owner<true> reducer;
        reducer.of_ranks = {{{0, 2}, {half, end}}, {{2, half}}};
        UpdateShare<Owner<true>, O> share;
        O optimizer(typename O::Options{});
        share.reserve(optimizer, reducer, rank.rank(), 2, n, slices, graph);
        Floats parameters(n, 1.0f), gradients(n, 1.0f), state(share.elements());
        gx::UpdateArgs a{.gradients = gradients, .state = state, .slices = slices, .rate = 0.25f};
        bool applies = false;
        EXPECT_TRUE(share.prepare(rank.transport(), optimizer, parameters, a, applies).complete());
        if (rank.rank() == 0)  // update() has a copy; the other's shard is in one piece
            std::ranges::fill(gradients, std::numeric_limits<float>::quiet_NaN());
        a.parameters = parameters;
        share.update(optimizer, a);
        const bool mine_changed = parameters[2] == 1 && parameters[0] < 1;
        EXPECT_EQ(mine_changed, rank.rank() == 0) << parameters[0];
    });
}
TEST(UpdateShare, AStepCollectsItsShardOnce) {
    expect_collected_once<gx::Sgd>();
    expect_collected_once<gx::Lars>();
}

// ---- A seeded bug: norms of a part in place of the tensor's ---------------------------------
TEST(UpdateShare, NormsOfPartsAloneWouldShow) {
    const gx::Graph graph = gx::graph<EveryRole>();
    const auto n = std::size_t(graph.parameters[0].count);
    const std::vector<ParameterSlice> whole{{0, n, 0}}, half{{0, n / 2, 0}};
    Floats a(n), b(n), g(n), v(n), u(n);
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] = g[i] = float(i + 1);
    gx::Lars one(gx::Lars::Options{}), other(gx::Lars::Options{});
    one.reserve(n, whole, graph);
    other.reserve(n, whole, graph);
    g[0] = 100;
    one.update({.parameters = a, .gradients = g, .state = v, .slices = whole, .rate = 1});
    other.update({.parameters = b, .gradients = g, .state = u, .slices = half, .rate = 1});
    EXPECT_NE(a[0], b[0]);
}

// ---- Decisions ------------------------------------------------------------------------
TEST(UpdateShare, InPartsAllRanksSkipWhatOneCannotApply) {
    const float inf = std::numeric_limits<float>::infinity();
    for (const std::size_t bad : {0u, 4u, 5u}) {
        std::array<int, 3> applied{};
        gx::testing::OnThreads{}({1, 3}, [&](auto& rank) {
            Floats g(6, 1.0f);
            g[bad] = inf;
            const std::vector<ParameterSlice> slices{{0, 6, 0}};
            Owner<true> reducer;
            reducer.of_ranks = {{{0, 2}}, {{2, 4}}, {{4, 5}}};  // no rank has the last one
            UpdateShare<Owner<true>, gx::Sgd> share;
            gx::Sgd sgd(gx::Sgd::Options{});
            share.reserve(sgd, reducer, rank.rank(), 3, 6, slices, gx::graph<EveryRole>());
            bool applies = true;
            EXPECT_TRUE(share
                            .prepare(rank.transport(), sgd, Floats(6),
                                     {.gradients = g, .slices = slices}, applies)
                            .complete());
            applied[std::size_t(rank.rank())] = applies;
        });
        for (const int a : applied) EXPECT_EQ(a, bad == 5) << bad;
    }
}
TEST(UpdateShare, ApartEachRankDecidesForItself) {
    gx::testing::OnThreads{}({1, 2}, [&](auto& rank) {
        Floats g(6, rank.rank() == 1 ? std::numeric_limits<float>::quiet_NaN() : 1.0f);
        const std::vector<ParameterSlice> slices{{0, 6, 0}};
        Owner<false, true> reducer;
        reducer.of_ranks = {{{0, 6}}, {{0, 6}}};
        UpdateShare<Owner<false, true>, gx::Sgd> share;
        gx::Sgd sgd(gx::Sgd::Options{});
        share.reserve(sgd, reducer, rank.rank(), 2, 6, slices, gx::graph<EveryRole>());
        EXPECT_EQ(share.elements(), 6u);
        bool applies = true;
        EXPECT_TRUE(share
                        .prepare(rank.transport(), sgd, Floats(6),
                                 {.gradients = g, .slices = slices}, applies)
                        .complete());
        EXPECT_EQ(applies, rank.rank() == 0);
    });
}

}  // namespace
