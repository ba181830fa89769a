#include <gx/model/init.hpp>  // first, so the header is seen to stand alone

#include <gx/core/rng.hpp>            // Rng
#include <gx/model/cifar_resnet.hpp>  // a network with every role of parameter
#include <gx/model/mlp.hpp>
#include <model/random_network.hpp>  // any small graph

#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

std::vector<float> start(const gx::Graph& g, std::uint64_t seed) {
    std::vector<float> values(static_cast<std::size_t>(g.parameter_elements()), -99.0f);
    gx::initial_parameters(g, seed, values);
    return values;
}
std::vector<float> part(const gx::Graph& g, const std::vector<float>& all, std::string_view name) {
    for (const gx::Parameter& p : g.parameters)
        if (p.name.view() == name)
            return {all.begin() + p.offset, all.begin() + p.offset + p.count};
    return {};
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Init, GivesEachRoleItsValue) {
    const gx::Graph g = gx::graph<gx::ResNet8>();
    const std::vector<float> all = start(g, 1);
    EXPECT_EQ(part(g, all, "bn1.weight"), std::vector<float>(16, 1.0f));
    EXPECT_EQ(part(g, all, "bn1.bias"), std::vector<float>(16, 0.0f));
    EXPECT_EQ(part(g, all, "layer1.0.bn1.weight"), std::vector<float>(16, 1.0f));
    EXPECT_EQ(part(g, all, "layer1.0.bn2.weight"), std::vector<float>(16, 0.0f));
    EXPECT_EQ(part(g, all, "layer2.0.downsample.1.weight"), std::vector<float>(32, 1.0f));
    EXPECT_EQ(part(g, all, "fc.bias"), std::vector<float>(10, 0.0f));
}

TEST(Init, DrawsElementIFromTheStreamOfItsName) {
    const gx::Graph g = gx::graph<gx::Mlp<8>>();
    const std::vector<float> weight = part(g, start(g, 7), "fc2.weight");
    const gx::Rng rng(7, "parameter fc2.weight");
    for (std::size_t i = 0; i < weight.size(); ++i)
        EXPECT_EQ(weight[i], 0.5f * rng.normal(i));  // fan_in 8: sqrt(2 / 8)
}

TEST(Init, HasTheVarianceOfHe) {
    const gx::Graph g = gx::graph<gx::Mlp<256>>();
    const std::vector<float> w = part(g, start(g, 3), "fc1.weight");  // fan_in 784
    const auto n = static_cast<double>(w.size());
    ASSERT_EQ(w.size(), 200'704u);
    double sum = 0, squares = 0;
    for (const float x : w) {
        sum += x;
        squares += double{x} * x;
    }
    const double variance = 2.0 / 784;  // five standard errors of a mean and of a variance
    EXPECT_NEAR(sum / n, 0.0, 5 * std::sqrt(variance / n));
    EXPECT_NEAR(squares / n, variance, 5 * variance * std::sqrt(2.0 / n));
}

TEST(Init, ShiftsNobodyWhenALayerIsAdded) {
    const gx::Graph shallow = gx::graph<gx::ResNet8>(), deep = gx::graph<gx::ResNet20>();
    const std::vector<float> a = start(shallow, 5), b = start(deep, 5);
    for (const gx::Parameter& p : shallow.parameters)
        EXPECT_EQ(part(shallow, a, p.name.view()), part(deep, b, p.name.view())) << p.name.view();
}

TEST(Init, StartsMeansAtZeroAndVariancesAtOne) {
    const gx::Graph g = gx::graph<gx::ResNet8>();
    std::vector<float> statistics(static_cast<std::size_t>(g.statistic_elements()), -99.0f);
    gx::initial_statistics(g, statistics);
    for (const gx::Statistic& s : g.statistics)
        for (std::int64_t i = 0; i < s.count; ++i)
            EXPECT_EQ(statistics[static_cast<std::size_t>(s.offset + i)],
                      s.name.view().ends_with("running_var") ? 1.0f : 0.0f);
}

// ---- Properties, for any network ----------------------------------------------------
RC_GTEST_PROP(Init, FillsEverythingAndRepeats, (std::uint64_t seed)) {
    const gx::Graph g = gx::testing_support::random_network();
    const std::vector<float> once = start(g, seed);
    RC_ASSERT(once == start(g, seed));
    for (const float x : once) RC_ASSERT(x > -99.0f);
    RC_ASSERT(part(g, once, "fc.weight") != part(g, start(g, seed + 1), "fc.weight"));
}

// ---- Bad input ----------------------------------------------------------------------
TEST(InitDeathTest, StopsAtAVectorOfAnotherSize) {
    const gx::Graph g = gx::graph<gx::Mlp<8>>();
    std::vector<float> values(static_cast<std::size_t>(g.parameter_elements()) - 1);
    EXPECT_DEATH(gx::initial_parameters(g, 0, values), "holds every parameter");
    EXPECT_DEATH(gx::initial_statistics(g, values), "holds every running statistic");
}

}  // namespace
