// cuda::Device beside the reference device: layers, networks. On the doubles, and on a GPU.
#include "agreement.hpp"

#include <rapidcheck/gtest.h>

#include <gx/model/cifar_resnet.hpp>
#include <gx/model/inception.hpp>
#include <gx/model/lenet.hpp>
#include <model/random_network.hpp>

namespace {

using namespace gx;
using namespace gx::cuda_tests;

TEST(Agreement, LayersAgreeWithTheReference) {
    for (const Case& c : cases)
        for (const TestedLayer& layer : layers()) expect_agreement(lower(layer), c, {3, 2, 0, 1});
}
TEST(Agreement, NetworksAgreeWithTheReference) {
    const Graph resnet = graph<CifarResNet<8>>({.input = {3, 8, 8}});
    for (const Case& c : cases) expect_agreement(resnet, c, {3, 2}, StreamProgress::random);
    expect_agreement(graph<LeNet>({.input = {1, 28, 28}}), cases[0], {2, 1});
}
/// A module of Inception-v3 behind a stem, and one of ResNeXt's stages.
TEST(Agreement, ModulesOfNetworksAgreeWithTheReference) {
    const TestedLayer module{"module", {3, 5, 5}, [](GraphBuilder& b, int x) {
                                 x = gx::detail::inception::unit(b, x, 8, {}, "stem");
                                 x = gx::detail::inception::Module{b, x, "Mixed_5b"}.a(32);
                                 return b.global_avg_pool(x, "mean");
                             }};
    for (const Case& c : {cases[0], cases[4]}) expect_agreement(lower(module), c, {2});
}
RC_GTEST_PROP(Agreement, RandomNetworksAgreeWithTheReference, ()) {
    const Graph g = testing_support::random_network();
    const Case c = cases[testing_support::any_of(0, 4)];
    const int batch = testing_support::any_of(1, 3);
    expect_agreement(g, c, {batch, testing_support::any_of(0, batch)}, StreamProgress::random);
    RC_ASSERT(!::testing::Test::HasFailure());
}

}  // namespace
