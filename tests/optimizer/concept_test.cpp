// What every optimizer promises: it goes on from its state, no layout changes a bit, bad options
// are listed and a broken contract stops.
#include <gx/optimizer/concept.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/optimizer/adamw.hpp>  // AdamW
#include <gx/optimizer/lars.hpp>   // Lars
#include <gx/optimizer/sgd.hpp>    // Sgd
#include <optimizer/run_50.hpp>    // Descent, follow_50

namespace {

using namespace gx;
using namespace testing_support;

// ---- The laws, which mutants must break -----------------------------------------------------

/// Whether a new O that is given parameters and state() after any update goes on as the old one.
template <class O>
bool goes_on_from_its_state(typename O::Options o) {
    const Graph graph = graph_of(tensors);
    Descent<O> whole(o, graph, plain_layout(graph));
    whole.start(start_50());
    bool equal = true;
    follow_50(0.01, [&](int step, float rate, std::int64_t updates) {
        Descent<O> again(o, graph, plain_layout(graph));
        again.start(whole.w);
        again.vectors = whole.vectors;
        again.update(gradients_50(step, 1), rate, 1, updates);
        whole.update(gradients_50(step, 1), rate, 1, updates);
        equal = equal && again.w == whole.w && again.state() == whole.state();
    });
    return equal;
}

/// Whether three updates give the same bits in `layout` as without gaps, and gaps stay.
template <class O>
bool is_equal_in(const Layout& layout, const Graph& graph, typename O::Options o) {
    Descent<O> plain(o, graph, plain_layout(graph)), other(o, graph, layout, 77);
    plain.start(start_50());
    other.start(start_50());
    for (int step = 0; step < 3; ++step) {
        plain.update(gradients_50(step, 1.1f), 0.7f, 0.3f, step);
        other.update(gradients_50(step, 1.1f), 0.7f, 0.3f, step);
    }
    return other.parameters() == plain.w && other.state() == plain.state() &&
           other.w == layout.scattered(plain.w, 77);
}

/// Whether an O that is reserved again gives a second run the bits of a first.
template <class O>
bool starts_afresh(typename O::Options o) {
    const Graph graph = graph_of(tensors);
    Descent<O> used(o, graph, plain_layout(graph)), fresh(o, graph, plain_layout(graph));
    used.start(start_50());
    used.update(gradients_50(0, 1), 0.1f, 1, 0);
    used.optimizer.reserve(used.w.size(), used.layout.slices, graph);
    used.vectors.assign(used.vectors.size(), 0.0f);
    for (Descent<O>* run : {&used, &fresh}) {
        run->start(start_50());
        for (int step = 0; step < 2; ++step) run->update(gradients_50(step, 1), 0.1f, 1, step);
    }
    return used.w == fresh.w && used.state() == fresh.state();
}

struct HidesItsState : AdamW {
    using AdamW::AdamW;
    void update(const UpdateArgs& given) {
        hidden.resize(given.state.size());
        UpdateArgs a = given;
        a.state = hidden;
        AdamW::update(a);
    }
    Floats hidden{};
};
struct MovesByPosition : Sgd {
    using Sgd::Sgd;
    void update(const UpdateArgs& a) {
        Sgd::update(a);
        for (const ParameterSlice& s : a.slices)
            a.parameters[s.offset] += static_cast<float>(s.offset) * 0x1p-10f;
    }
};
struct MovesPadding : Sgd {
    using Sgd::Sgd;
    void update(const UpdateArgs& a) {
        Sgd::update(a);
        for (float& w : a.parameters)
            if (w == 0) w = 1;
    }
};
TEST(Laws, RejectMutants) {
    EXPECT_FALSE(starts_afresh<HidesItsState>({}));
    EXPECT_FALSE(goes_on_from_its_state<HidesItsState>({}));
    const Graph graph = graph_of(tensors);
    Layout padded{.elements = 0};
    for (int p = 0; const Parameter& q : graph.parameters) {
        const auto count = static_cast<std::size_t>(q.count);
        padded.slices.push_back({padded.elements, count + 2, p++});
        for (std::size_t i = 0; i < count; ++i) padded.at.push_back(padded.elements + i);
        padded.elements += count + 3;
    }
    EXPECT_TRUE(is_equal_in<Sgd>(padded, graph, {}));
    EXPECT_FALSE(is_equal_in<MovesByPosition>(padded, graph, {}));
    EXPECT_FALSE(is_equal_in<MovesPadding>(padded, graph, {}));
}

// ---- Every optimizer -------------------------------------------------------------------------

struct SgdCase {
    using Rule = Sgd;
    static constexpr Sgd::Options good{}, bad{.momentum = 2, .weight_decay = -1};
    static constexpr std::ptrdiff_t count = 2;
    static constexpr std::string_view first = "Sgd: momentum must be at least 0";
};
struct NesterovCase : SgdCase {
    static constexpr Sgd::Options good{.nesterov = true};
};
struct AdamWCase {
    using Rule = AdamW;
    static constexpr AdamW::Options good{};
    static constexpr AdamW::Options bad{.beta1 = 1,
                                        .beta2 = -1,
                                        .epsilon = 0,
                                        .weight_decay = std::numeric_limits<float>::quiet_NaN()};
    static constexpr std::ptrdiff_t count = 4;
    static constexpr std::string_view first = "AdamW: beta1 must be";
};
struct LarsCase {
    using Rule = Lars;
    static constexpr Lars::Options good{};
    static constexpr Lars::Options bad{.momentum = 1,
                                       .weight_decay = -1,
                                       .trust = 0,
                                       .epsilon = std::numeric_limits<float>::quiet_NaN()};
    static constexpr std::ptrdiff_t count = 4;
    static constexpr std::string_view first = "Lars: momentum must be";
};
struct LarsOfEveryRoleCase : LarsCase {
    static constexpr Lars::Options good{.adapt_batch_norm = true, .adapt_bias = true};
};

template <class Case>
class EveryOptimizer : public ::testing::Test {};
using Cases = ::testing::Types<SgdCase, NesterovCase, AdamWCase, LarsCase, LarsOfEveryRoleCase>;
TYPED_TEST_SUITE(EveryOptimizer, Cases);

TYPED_TEST(EveryOptimizer, GoesOnFromItsState) {
    EXPECT_TRUE(goes_on_from_its_state<typename TypeParam::Rule>(TypeParam::good));
}
TYPED_TEST(EveryOptimizer, StartsAfreshAfterReserve) {
    EXPECT_TRUE(starts_afresh<typename TypeParam::Rule>(TypeParam::good));
}
TYPED_TEST(EveryOptimizer, IsEqualInAnyLayout) {
    EXPECT_TRUE(rc::check([] {
        const Graph graph = graph_of(tensors);
        RC_ASSERT(is_equal_in<typename TypeParam::Rule>(any_layout(graph), graph, TypeParam::good));
    }));
}
TYPED_TEST(EveryOptimizer, ListsEveryBadOption) {
    using Rule = typename TypeParam::Rule;
    const auto found = [](const typename Rule::Options& o) {
        const Findings all = Rule::check(o);
        return all.end() - all.begin();
    };
    EXPECT_EQ(found(TypeParam::good), 0);
    EXPECT_EQ(found(TypeParam::bad), TypeParam::count);
    EXPECT_TRUE(Rule::check(TypeParam::bad).first().starts_with(TypeParam::first));
}
TYPED_TEST(EveryOptimizer, StopsOnABrokenContract) {
    using Rule = typename TypeParam::Rule;
    EXPECT_DEATH(Rule{TypeParam::bad}, std::string(TypeParam::first));
    const Graph graph = graph_of(tensors);
    Rule rule{TypeParam::good};
    rule.reserve(std::size_t(graph.parameter_elements()), plain_layout(graph).slices, graph);
    Floats few(3);
    EXPECT_DEATH(rule.update({.parameters = few, .gradients = few}), "as long as was reserved");
}

}  // namespace
