// Runs: the compositions that must train on GPUs as they do on threads, and what is compared.
#pragma once

#include <string>  // names

#include <gtest/gtest.h>  // Types

#include <gx/cuda_testing/runtime.hpp>  // StreamProgress
#include <gx/halving_doubling/reducer.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/local_sgd/reducer.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/clip_by_global_norm.hpp>
#include <gx/optimizer/lamb.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/optimizer/weight_average.hpp>
#include <gx/parameter_server/reducer.hpp>
#include <gx/quantized/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/shared_memory/reducer.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/checkpoint.hpp>  // read_checkpoint
#include <gx/trainer/trainer.hpp>
#include <gx/trees/double_tree.hpp>
#include <trainer/small.hpp>  // Net

namespace gx::cuda_tests {

using testing_support::Net;

/// A loss scale at which the first gradients overflow.
template <class O>
void overflow(O& o, bool half) {
    if constexpr (requires { o.initial; }) o.initial = o.largest = half ? 0x1p17f : 0x1p127f;
}

template <class T>
typename T::Options options_of_run() {
    typename T::Options o{.batch = 4, .epochs = 3, .seed = 3};
    overflow(o.loss_scale, T::name().find("fp16") != std::string::npos);
    return o;
}

template <class R, class... Policies>
using Run = Trainer<Net, R, Warmup<Poly<2>>, Policies...>;
using Runs = ::testing::Types<
    Run<Ring<fp32>>, Run<DoubleBuffered<MultiRing<2, fp16>>, DynamicLossScale>,
    Run<Bucketed<Ring<fp16>, 64>, AdamW>,
    Run<DoubleBuffered<Bucketed<Ring<bf16>, 128>>, ClipByGlobalNorm<Lars>>,
    Run<TopK, DynamicLossScale>, Run<DoubleBuffered<Bucketed<TopK, 256>>>,
    Run<DoubleBuffered<Bucketed<Quantized<8>, 512>>, AdamW>, Run<Quantized<4>>,
    Run<Sharded<Ring<fp16>>, ClipByGlobalNorm<AdamW>>, Run<Sharded<Ring<fp32>>, Lamb>,
    Run<LocalSgd<Bucketed<Ring<fp32>, 256>, 3>, AdamW>, Run<Hierarchical<fp16>, Lars>,
    Run<DoubleTree<3, fp16>, WeightAverage<Sgd>>, Run<HalvingDoubling<fp32>>,
    Run<ParameterServer<fp16>>, Run<SharedMemory<bf16>>>;

// `train` below runs a Trainer on new GPUs and returns its record: train(trainer, data, placement,
// seed, progress), where streams run in such an order.

/// Weights at 1 to 4 ranks, in every order of the streams, beside those of threads.
template <class T>
void expect_weights_of_threads(auto train) {
    using testing_support::expect_same_learning;
    const Split data = testing_support::images(24, 8);
    const T trainer(options_of_run<T>());
    std::uint64_t seed = 1;
    for (const Placement placement :
         {Placement{1, 1}, Placement{2, 1}, Placement{3, 1}, Placement{2, 2}}) {
        ThreadWorld<reference::Device> wall({.placement = placement});
        const RunRecord expected = trainer.train(wall, data);
        using cuda_testing::StreamProgress;
        for (const auto progress :
             {StreamProgress::late, StreamProgress::eager, StreamProgress::random})
            expect_same_learning(train(trainer, data, placement, seed++, progress), expected);
    }
}

/// One run writes checkpoints on either world; each is resumed on the other.
template <class T>
void expect_checkpoints_of_threads(auto train) {
    using namespace testing_support;
    const Folder here, there;
    const Split data = images(24, 8);
    auto o = options_of_run<T>();
    auto wall = threads(2);
    const auto on_gpus = [&] {
        return train(T(o), data, Placement{2, 1}, 5, cuda_testing::StreamProgress::random);
    };
    o.output = here.path;
    const RunRecord whole = T(o).train(wall, data);
    o.output = there.path;
    expect_same_learning(on_gpus(), whole);
    const Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const char* const name = "epoch-0001.safetensors";
    const auto a = read_checkpoint(here / name, graph), b = read_checkpoint(there / name, graph);
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.statistics, b.statistics);
    EXPECT_EQ(a.optimizer, b.optimizer);
    EXPECT_EQ(a.reducer, b.reducer);
    o.output.clear();
    o.resume = here / name;
    expect_same_learning(on_gpus(), whole);
    o.resume = there / name;
    expect_same_learning(T(o).train(wall, data), whole);
}

}  // namespace gx::cuda_tests
